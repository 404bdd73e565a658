package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/provider/script"
)

// completionTime is how long a completion waits for the server.
const completionTime = 5 * time.Second

// A completer returns the values that the shell offers.
type completer func(cmd *cobra.Command) []cobra.Completion

// completions makes the shell offer sessions, agents, models and modes to a
// command and its subcommands. What the shell cannot know otherwise comes from
// the running server; without a server, nothing is offered.
func (a *app) completions(cmd *cobra.Command) {
	flags := map[string]completer{
		"agent": a.agentNames, "model": a.modelIDs, "permission-mode": a.modeNames,
	}
	if cmd.Name() == "run" {
		flags["output"] = func(*cobra.Command) []cobra.Completion { return outputFormats }
		flags["resume"] = func(*cobra.Command) []cobra.Completion {
			return []cobra.Completion{cobra.CompletionWithDesc(runnel.ResumeLast, "the last conversation in --dir")}
		}
	}
	for name, values := range flags {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, offers(values, -1)) // the flag exists
		}
	}
	switch {
	case takesSession(cmd):
		cmd.ValidArgsFunction = offers(a.sessionIDs, 1)
	case cmd.Name() == "agents":
		cmd.ValidArgsFunction = offers(a.agentNames, 1)
	}
	for _, sub := range cmd.Commands() {
		a.completions(sub)
	}
}

// takesSession reports whether the argument of a command is the id of a session.
func takesSession(cmd *cobra.Command) bool {
	of := cmd.HasParent() && cmd.Parent().Name() == "sessions" || slices.Contains([]string{"attach", "logs"}, cmd.Name())
	return of && slices.Contains(strings.Fields(cmd.Use), "ID")
}

// offers returns values as a completion for the first args arguments; for a flag
// if args is negative. It leaves out values that are no plain words: a server or
// an agent has chosen them, and the script for bash puts them into the line
// without quotes, where they would run at the next completion.
func offers(values completer, args int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, before []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if args >= 0 && len(before) >= args {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		plain := slices.DeleteFunc(values(cmd), func(c cobra.Completion) bool {
			value, _, _ := strings.Cut(c, "\t")
			return !isPlain(value)
		})
		return plain, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// isPlain reports whether a word means itself in every shell, and is no option.
// Brackets, with which names of models can end, only stand for names of files.
func isPlain(word string) bool {
	return word != "" && !strings.HasPrefix(word, "-") && !strings.ContainsFunc(word, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._:/@%+=,-[]", c)
	})
}

// askServer calls f with the running server, if there is one that answers soon.
// Completions report no errors, because they appear in the line that the user
// types.
func (a *app) askServer(cmd *cobra.Command, f func(ctx context.Context, ad *admin)) {
	c, err := loadConfig(cmd.Flags())
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	if ad, err := connect(ctx, c); err == nil {
		f(ctx, ad)
	}
}

// sessionIDs returns the sessions, newest activity first.
func (a *app) sessionIDs(cmd *cobra.Command) (out []cobra.Completion) {
	a.askServer(cmd, func(ctx context.Context, ad *admin) {
		rows, err := remoteSessions{ad}.list(ctx, gateway.Filter{Dead: true, Archived: true})
		if err != nil {
			return
		}
		for _, s := range rows {
			what := cell(stateWord(s)) + ", " + cell(s.CLIType) + ", " + cell(oneLine(s.Title, 60))
			out = append(out, cobra.CompletionWithDesc(cell(s.SessionID), what))
		}
	})
	return out
}

func (a *app) agentNames(cmd *cobra.Command) []cobra.Completion {
	if cmd.Flags().Lookup("config") != nil {
		_ = a.knowAgents(cmd.Flags()) // with an invalid file, the built-in agents are offered
	}
	return a.names()
}

// chosenAgent returns what the server knows about the agent of --agent, or about
// the first installed agent.
func (a *app) chosenAgent(cmd *cobra.Command) (found detect.Agent) {
	name, _ := cmd.Flags().GetString("agent")
	a.askServer(cmd, func(ctx context.Context, ad *admin) {
		var list struct {
			Agents []detect.Agent `json:"agents"`
		}
		if ad.get(ctx, "/api/agents", &list) != nil {
			return
		}
		for _, ag := range list.Agents {
			named := name != "" && (ag.CLIType == name || slices.Contains(ag.Aliases, name))
			if named || name == "" && ag.Installed && ag.CLIType != script.Name {
				found = ag
				return
			}
		}
	})
	return found
}

func (a *app) modelIDs(cmd *cobra.Command) (out []cobra.Completion) {
	for _, m := range a.chosenAgent(cmd).Models {
		out = append(out, cobra.CompletionWithDesc(cell(m.ID), cell(text.ShortenRunes(m.Name, 60))))
	}
	return out
}

// modeNames returns the modes of the agent, or all modes if they are unknown.
func (a *app) modeNames(cmd *cobra.Command) (out []cobra.Completion) {
	modes := a.chosenAgent(cmd).Modes
	if len(modes) == 0 {
		modes = []string{string(runnel.ModeDefault), string(runnel.ModeAcceptEdits), string(runnel.ModePlan), string(runnel.ModeDontAsk)}
	}
	for _, m := range modes {
		if m != string(runnel.ModeBypass) { // has a flag of its own
			out = append(out, cell(m))
		}
	}
	return out
}
