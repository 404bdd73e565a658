package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
)

// explainRequest is a call of an agent, as an approval would show it.
type explainRequest struct {
	CLIType    string          `json:"cliType"`
	ProjectDir string          `json:"projectDir"`
	Tool       string          `json:"tool"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
}

// explanation is what rules do with a call, and why.
type explanation struct {
	Decision rules.Outcome   `json:"decision"`
	Reason   string          `json:"reason"`
	Rule     int64           `json:"rule,omitzero"`
	Partial  bool            `json:"partial,omitzero"`
	Gates    []explainedGate `json:"gates"`
	Rules    []explainedRule `json:"rules"`
}

type explainedGate struct {
	Gate    rules.GateName `json:"gate"`
	Decides bool           `json:"decides"`
	Reason  string         `json:"reason"`
}

type explainedRule struct {
	ruleRow
	Match  rules.Match `json:"match"`
	Reason string      `json:"reason"`
}

func (a *app) rulesExplain() *cobra.Command {
	var in explainRequest
	var arguments string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain --agent AGENT TOOL [COMMAND]",
		Short: "Explain which rule decides a call, and why",
		Long: `Explain what the rules do with a call that an agent could ask about: which rule
decides it, or why none does, and for each related rule why it matches or not.
The call is not run, and no agent is started. TOOL is the name of the tool as
the agent's approvals show it; COMMAND is the command line of a shell tool. Give
the arguments of other tools, or all arguments of an approval, with --arguments.

The gates check a call in this order, and the first gate that decides wins:

  1  the profile of the session forbids the tool
  2  governed delegation, for tools that start subagents
  3  rules that deny; if such a rule might match a call that cannot be read
     completely, a person is asked
  4  the profile of the session approves the tool
  5  rules that allow
  6  a person is asked

Gates 1, 2 and 4 depend on the session. This command knows no session and skips
them.`,
		Example: `  runnel rules explain --agent ` + a.example() + ` Bash 'git status | cat'
  runnel rules explain --agent ` + a.example() + ` --project ~/app Bash 'rm -r build'
  runnel rules explain --agent ` + a.example() + ` Write --arguments '{"file_path": "/home/you/app/src/a.go"}'
  runnel rules explain --agent ` + a.example() + ` Bash 'git push' --json | jq -r .decision`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage("a tool is needed, and for a shell tool a command in quotes, such as Bash 'git status'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Tool, in.Arguments = args[0], json.RawMessage(arguments)
			if len(args) == 2 {
				if arguments != "" {
					return usage("COMMAND and --arguments exclude each other; put the command into --arguments")
				}
				in.Arguments, _ = json.Marshal(map[string]string{"command": args[1]}) // cannot fail
			}
			c, err := in.call()
			if err != nil {
				return err
			}
			return a.withRules(cmd, func(k ruleKeeper) error {
				if _, local := k.(localRules); local { // the server knows its own agents
					if c.CLIType, err = a.kindOf(cmd, in.CLIType); err != nil {
						return err
					}
				}
				e, err := k.explain(cmd.Context(), in, c)
				switch {
				case err != nil:
					return err
				case asJSON:
					return a.printJSON(e)
				}
				return a.printExplanation(e)
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().StringVar(&in.CLIType, "agent", "", "`AGENT` that makes the call, by its name in 'runnel agents'; required")
	cmd.Flags().StringVar(&in.ProjectDir, "project", ".", "`DIR` of the session")
	cmd.Flags().StringVar(&arguments, "arguments", "", "arguments of the call, as a `JSON` object")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// call converts what a person typed to the form of the API and returns the call
// that it describes. It returns an error if the input is not valid.
func (in *explainRequest) call() (rules.Call, error) {
	if in.CLIType == "" {
		return rules.Call{}, usage("--agent: is missing; give the name of an agent, as in 'runnel agents'")
	}
	dir, err := filepath.Abs(in.ProjectDir)
	if err != nil {
		return rules.Call{}, usage("--project: %s", err)
	}
	c, err := rules.NewCall(in.CLIType, dir, in.Tool, in.Arguments)
	if err != nil {
		return c, usage("%s", err)
	}
	in.ProjectDir = c.Dir
	return c, nil
}

// kindOf returns the name that rules use for an agent, which may have others.
func (a *app) kindOf(cmd *cobra.Command, agent string) (string, error) {
	if err := a.knowAgents(cmd.Flags()); err != nil {
		return "", err
	}
	p, err := a.named(agent)
	if err != nil {
		return "", err
	}
	return p.Name(), nil
}

func (a *app) printExplanation(e explanation) error {
	var b strings.Builder
	reason := cell(e.Reason)
	if e.Decision == rules.OutcomeAsk {
		reason = "a person is asked: " + reason
	}
	b.WriteString(upper(reason) + ".\n")
	for _, r := range e.Rules {
		what := rules.Describe(r.stored())
		if r.CLIType != "" {
			what += ", for " + r.CLIType
		}
		if r.ProjectDir != "" {
			what += ", in " + r.ProjectDir
		}
		fmt.Fprintf(&b, "  rule %d, %s: %s. %s.\n", r.ID, cell(string(r.Effect)), cell(what), upper(cell(r.Reason)))
	}
	if _, err := io.WriteString(a.out, b.String()); err != nil {
		return err
	}
	if e.Partial {
		a.stderrf("This token sees only the rules of its project; other rules may decide the call.")
	}
	a.stderrf("In a session, its profile or its delegation may decide before the rules; see 'runnel rules explain --help'.")
	return nil
}

// upper returns a text with its first letter as a capital.
func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func (r remoteRules) explain(ctx context.Context, in explainRequest, _ rules.Call) (explanation, error) {
	var out explanation
	err := r.ad.post(ctx, "/api/rules/explain", in, &out)
	return out, err
}

func (l localRules) explain(ctx context.Context, _ explainRequest, c rules.Call) (explanation, error) {
	list, err := l.rules.Rules(ctx)
	if err != nil {
		return explanation{}, err
	}
	e := rules.NewSet(list).Explain(c)
	out := explanation{Decision: e.Outcome, Reason: e.Reason, Rule: e.Rule, Gates: make([]explainedGate, len(e.Gates)), Rules: make([]explainedRule, len(e.Rules))}
	for i, g := range e.Gates {
		out.Gates[i] = explainedGate{g.Name, g.Decides, g.Reason}
	}
	for i, r := range e.Rules {
		out.Rules[i] = explainedRule{rowOf(r.Rule), r.Match, r.Reason}
	}
	return out, nil
}

// rowOf returns a stored rule as lists show it.
func rowOf(r store.Rule) ruleRow {
	row := ruleRow{
		ID: r.ID, Effect: r.Effect, Kind: r.Kind, CLIType: r.CLIType, ProjectDir: r.ProjectDir, SessionID: r.SessionID, Tool: r.Tool, Pattern: r.Pattern,
		Note: r.Note, By: r.ByName, CreatedAt: r.CreatedAt, Uses: r.Uses,
	}
	if !r.LastUsedAt.IsZero() {
		row.LastUsedAt = &r.LastUsedAt
	}
	return row
}
