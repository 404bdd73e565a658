package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/provider/script"
)

// provider returns the provider with this name. Without a name it returns the
// first installed agent.
func (a *app) provider(ctx context.Context, name string) (runnel.Provider, error) {
	if name != "" {
		return a.named(name)
	}
	for _, p := range a.providers {
		if p.Name() != script.Name && detect.Probe(ctx, p).Installed { // the script provider plays a file and drives no agent
			return p, nil
		}
	}
	return nil, errNoAgent()
}

// errNoAgent returns the error for a prompt without an agent to run it.
func errNoAgent() error {
	return runnel.Fail(runnel.AgentNotInstalled, "no coding agent is installed; 'runnel agents' shows how to install one, and --agent script runs the built-in scripted agent")
}

func (a *app) named(name string) (runnel.Provider, error) {
	if p := detect.NewIndex(a.providers).Find(name); p != nil {
		return p, nil
	}
	return nil, usage("unknown agent %q; want %s", termtext.Clean(name), strings.Join(a.names(), ", "))
}

func (a *app) names() []string {
	var names []string
	for _, p := range a.providers {
		names = append(names, p.Name())
	}
	return names
}

// example returns the name of a provider, for examples in help texts.
func (a *app) example() string {
	for _, p := range a.providers {
		if p.Name() != script.Name {
			return p.Name()
		}
	}
	return script.Name
}

func (a *app) agentsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "agents [NAME]",
		Short: "List agents, and how to install or log in to each",
		Long: `List the agents that runnel supports. For each agent, the list shows whether it
is installed and logged in, and what to do if it is not. The text below the list
says whether processes that an agent started may keep running on this system
after the agent has ended. The command waits up to 20 seconds for each agent.

With NAME, show the details of one agent: its models, permission modes and
settings, and what it supports.

` + a.agentsHelp(),
		Example: `  runnel agents
  runnel agents ` + a.example() + `
  runnel agents --json | jq -r '.[] | select(.installed) | .cliType'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("give one name at most; without a name, all agents are listed")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a.hide()
			if err := a.knowAgents(cmd.Flags()); err != nil {
				return err
			}
			ps := a.providers
			if len(args) == 1 {
				p, err := a.named(args[0])
				if err != nil {
					return err
				}
				ps = []runnel.Provider{p}
			}
			list := detect.All(cmd.Context(), ps, a.refused...)
			switch {
			case asJSON:
				enc := a.encoder()
				enc.SetIndent("", "  ")
				return enc.Encode(list)
			case len(args) == 1:
				return a.printAgent(list[0])
			}
			return a.printAgents(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	configFlag(cmd)
	return cmd
}

func (a *app) printAgents(list []detect.Agent) error {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(x, y detect.Agent) int { return rank(x) - rank(y) })
	t := table{columns: []column{{"AGENT", whole}, {"VERSION", cutEnd}, {"LOGGED IN", whole}, {"MODELS", whole}, {"PATH, OR WHAT TO DO", cutEnd}}}
	for _, r := range list {
		models := "-"
		if n := len(r.Models); n > 0 {
			models = fmt.Sprint(n)
		}
		t.add(r.CLIType, cell(text.ShortenRunes(r.Version, 20)), loggedIn(r.Installation), models, cell(next(r.Installation)))
	}
	width := a.width()
	if err := t.write(a.out, width); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.out, "\n"+fill(cleanupGuarantee(), width)+"\nDetails of one agent: runnel agents NAME")
	return err
}

// rank is the sort key of the list: installed agents come first.
func rank(a detect.Agent) int {
	if a.Installed {
		return 0
	}
	return 1
}

func loggedIn(in runnel.Installation) string {
	switch {
	case !in.Installed:
		return "-"
	case in.LoggedIn == nil:
		return "?"
	case *in.LoggedIn:
		return "yes"
	}
	return "no"
}

// short shortens a path for a table. It keeps the end, which is more specific
// than the beginning.
func short(path string) string {
	if home, err := os.UserHomeDir(); err == nil && len(home) > 1 {
		if rest, ok := strings.CutPrefix(path, home+string(os.PathSeparator)); ok {
			path = "~" + string(os.PathSeparator) + rest
		}
	}
	const most = 36
	if r := []rune(path); len(r) > most {
		return "…" + string(r[len(r)-most+1:])
	}
	return path
}

// next returns the path of a usable agent, or else what the user has to do
// first. An install command is returned alone, so that it can be copied.
func next(in runnel.Installation) string {
	switch do := todo(in); {
	case do == "":
		return short(in.Path)
	case !in.Installed && in.Path == "" && in.Install != "":
		return in.Install
	default:
		return do
	}
}

// todo returns what the user has to do before the agent can be used, or "".
func todo(in runnel.Installation) string {
	switch {
	case in.Problem != "" && (in.Installed || in.Path != ""):
		return in.Problem
	case !in.Installed && in.Install != "":
		return "install it: " + in.Install
	case !in.Installed:
		return in.Problem
	case in.LoggedIn != nil && !*in.LoggedIn && in.Login != "":
		return "log in: " + in.Login
	}
	return ""
}

// cell turns untrusted text into one table cell.
func cell(s string) string {
	s = strings.Join(strings.Fields(termtext.Clean(s)), " ")
	if s == "" {
		return "-"
	}
	return s
}
