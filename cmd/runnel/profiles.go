package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/profile"
)

func (a *app) profilesCommand() *cobra.Command {
	var asJSON bool
	var dir string
	cmd := &cobra.Command{
		Use:   "profiles [NAME]",
		Short: "List profiles: named ways to run an agent",
		Long: `List the profiles that sessions can choose, and the errors in files that cannot
be used. With NAME, show one profile. No server is needed.

A profile is a Markdown file NAME.md. It begins with settings; the text below
them is added to the agent's system prompt.

  ---
  description: Reads a change and says what is wrong with it
  model: opus
  tools: [Read, Grep]          # tools as the agent names them; default: all
  max_turns: 20
  disallowed_tools: [Bash]     # never allowed
  auto_approve_tools: [Read]   # allowed without asking
  subagents: [tester]          # profiles to which a governed session delegates
  AGENT_TYPE: 2                # other profiles may delegate to this one
  AGENT_CLASS: TASK
  ---
  You review code. …

Profiles for all projects are in the folder profiles beside the configuration
file. A trusted folder can have its own profiles in ` + profile.ProjectDir + `, which
override profiles of the same name.`,
		Example: `  runnel profiles
  runnel profiles reviewer
  runnel profiles --json | jq -r '.[] | select(.error) | .path'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("give one name at most; without a name, all profiles are listed")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			folders, trusted, err := a.profileFolders(cmd, dir)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.showProfile(folders, args[0], asJSON)
			}
			list, err := profile.List(folders)
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.printJSON(shownProfiles(list))
			}
			return a.printProfiles(list, folders, trusted)
		},
	}
	configFlag(cmd)
	profileFlags(cmd.Flags())
	cmd.Flags().StringVar(&dir, "dir", "", "`DIR` of the project; default: the current directory")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// profileFolders returns the folders with the profiles of a project. trusted is
// false if the project has profiles of its own that are not used, because its
// folder is not trusted.
func (a *app) profileFolders(cmd *cobra.Command, dir string) (f profile.Folders, trusted bool, err error) {
	file, k, err := readSettings(cmd.Flags())
	if err != nil {
		return f, false, err
	}
	set, err := cmd.Flags().GetString(profilesKey)
	if err != nil {
		return f, false, err
	}
	if set == "" {
		set = k.String(profilesKey)
	}
	if f.Config, err = profilesDir(set, file.path); err != nil {
		return f, false, err
	}
	folders, err := wholePaths(trustedKey, k.Strings(trustedKey))
	if err != nil {
		return f, false, err
	}
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return f, false, fmt.Errorf("the current directory: %w", err)
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return f, false, err
	}
	if gateway.Trusts(folders, dir) {
		f.Project = dir
	}
	return f, f.Project != "" || !profile.InProject(dir), nil
}

func shownProfiles(list []profile.Entry) []gateway.Profile {
	out := make([]gateway.Profile, len(list))
	for i, e := range list {
		out[i] = gateway.ShowProfile(e.Profile)
		if e.Err != nil {
			out[i].Error = e.Err.Error()
		}
	}
	return out
}

func (a *app) printProfiles(list []profile.Entry, f profile.Folders, trusted bool) error {
	if !trusted {
		a.stderrf("runnel: the profiles in %s are not used: this folder is not in trusted-folders of the configuration; add it there to use them", profile.ProjectDir)
	}
	if len(list) == 0 {
		a.stderrf("There are no profiles; create one in %s. 'runnel profiles --help' shows how.", termtext.Clean(f.Config))
		return nil
	}
	t := table{columns: []column{{"PROFILE", whole}, {"OF", whole}, {"MODEL", cutEnd}, {"DESCRIPTION OR ERROR", cutEnd}}}
	for _, e := range list {
		of, about := "all", e.Description
		if e.Project {
			of = "project"
		}
		if e.Err != nil {
			about = "cannot be used: " + e.Err.Error()
		}
		t.add(cell(e.Name), of, cell(e.Model), cell(oneLine(about, 200)))
	}
	return t.write(a.out, a.width())
}

func (a *app) showProfile(f profile.Folders, name string, asJSON bool) error {
	p, err := profile.Find(f, name)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(struct {
			Profile gateway.Profile `json:"profile"`
			Text    string          `json:"text"`
		}{gateway.ShowProfile(p), p.Text})
	}
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-20s%s\n", name, termtext.Clean(value))
		}
	}
	line("profile", p.Name)
	line("file", p.Path)
	line("description", p.Description)
	line("model", p.Model)
	line("tools", strings.Join(p.Tools, ", "))
	if p.MaxTurns > 0 {
		line("max_turns", strconv.Itoa(p.MaxTurns))
	}
	line("disallowed_tools", strings.Join(p.DisallowedTools, ", "))
	line("auto_approve_tools", strings.Join(p.AutoApproveTools, ", "))
	line("subagents", strings.Join(p.Subagents, ", "))
	line("AGENT_TYPE", p.AgentType)
	line("AGENT_CLASS", p.AgentClass)
	if p.Text != "" {
		b.WriteString("\n" + termtext.Clean(p.Text) + "\n")
	}
	_, err = fmt.Fprint(a.out, b.String())
	return err
}

// warnOfSwitch warns if the variable for governed delegation has a value other
// than "true" or "false". Only "true" enables governed delegation, because it
// permits actions that are otherwise denied.
func (a *app) warnOfSwitch(c config) {
	name := envPrefix + strings.ToUpper(strings.ReplaceAll(delegationKey, "-", "_"))
	if v := os.Getenv(name); v != "" && v != "false" && !c.GovernedDelegation {
		shown, err := json.Marshal(oneLine(v, 40))
		if err != nil {
			shown = []byte("its value")
		}
		a.stderrf("runnel: warning: %s: %s does not enable governed delegation; only \"true\" does", name, shown)
	}
}
