package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// ruleRow is a rule as lists print it. It is also the input for adding a rule.
type ruleRow struct {
	ID         int64          `json:"id,omitzero"`
	Effect     store.Effect   `json:"effect"`
	Kind       store.RuleKind `json:"kind"`
	CLIType    string         `json:"cliType,omitzero"`
	ProjectDir string         `json:"projectDir,omitzero"`
	SessionID  string         `json:"sessionId,omitzero"`
	Tool       string         `json:"tool,omitzero"`
	Pattern    string         `json:"pattern,omitzero"`
	Note       string         `json:"note,omitzero"`
	By         string         `json:"by,omitzero"`
	CreatedAt  time.Time      `json:"createdAt,omitzero"`
	Uses       int64          `json:"uses,omitzero"`
	LastUsedAt *time.Time     `json:"lastUsedAt,omitzero"`

	change *gateway.SandboxChange // what a change of the rule has done; not part of the row
}

// A ruleKeeper keeps the rules, through the server or without one.
type ruleKeeper interface {
	list(ctx context.Context) ([]ruleRow, error)
	add(ctx context.Context, r ruleRow) (ruleRow, error)
	remove(ctx context.Context, id int64) (*gateway.SandboxChange, error)              // the change is nil for a rule that is not about sandboxes
	explain(ctx context.Context, in explainRequest, c rules.Call) (explanation, error) // c is the call that in describes
}

func (a *app) rulesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Manage rules that allow or deny what agents ask for",
		Long: `List, add, remove and explain rules. A rule allows or denies a call that an
agent asks about, so that nobody has to answer. Rules that deny come before
rules that allow. If no rule decides a call, a person is asked as usual. The
commands use the running server, or the data directory if no server runs.

KIND and PATTERN select the calls to which a rule applies:

  execute  one command, such as 'git status', or 'git log *' for any further
           words. A rule never allows a command with operators, substitutions,
           redirections or variables. A rule that denies checks every command
           of a line; if it cannot read the line, a person is asked.
  edit     changes of a file, or of a folder and everything below it, after
           symbolic links are resolved
  read     reading a file or folder, as for edit
  fetch    requests to a host such as example.com, or *.example.com for the
           hosts below it
  connect  connections from a sandbox whose egress mode is ask, to a host such
           as example.com (ports 443 and 80), example.com:8443 or *.example.com
  tool     all calls of one tool, such as mcp__server__tool

Two kinds decide no calls, but let the sandboxes of a project (--project) or of
a session (--session) reach a file or folder outside of the project. They take
effect when the agent starts the next time: the server stops the agents of idle
sessions, and the next prompt starts and resumes them.

  sandbox_read   programs can read the path
  sandbox_write  programs can read and write it

'runnel denials ID' lists paths that the programs of a session seem to need.`,
		Example: `  runnel rules list
  runnel rules add allow execute 'git status' --project .
  runnel rules add allow edit src --project .
  runnel rules add deny execute 'rm *'
  runnel rules add allow tool mcp__tickets__list
  runnel rules add allow sandbox_read ~/datasets --project .
  runnel rules explain --agent ` + a.example() + ` Bash 'git status | cat'
  runnel rules remove 3`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q; use list, add, remove or explain", termtext.Clean(args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.rulesList(), a.rulesAdd(), a.rulesRemove(), a.rulesExplain())
	return cmd
}

func (a *app) rulesList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List rules, oldest first",
		Example: "  runnel rules list\n  runnel rules list --json | jq '.[] | select(.effect == \"deny\")'",
		Args:    nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withRules(cmd, func(k ruleKeeper) error {
				rows, err := k.list(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(append([]ruleRow{}, rows...)) // an empty array, not null
				}
				return a.printRules(rows)
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func (a *app) printRules(rows []ruleRow) error {
	if len(rows) == 0 {
		a.stderrf("There are no rules; 'runnel rules add' adds one.")
		return nil
	}
	t := table{columns: []column{
		{"ID", whole}, {"EFFECT", whole}, {"KIND", whole}, {"PATTERN", cutEnd}, {"AGENT", cutEnd}, {"FOLDER", cutStart}, {"USES", whole}, {"LAST USED", whole}, {"CREATED", whole}, {"BY", cutEnd},
	}}
	for _, r := range rows {
		used := "-"
		if r.LastUsedAt != nil {
			used = when(*r.LastUsedAt)
		}
		t.add(strconv.FormatInt(r.ID, 10), cell(string(r.Effect)), cell(string(r.Kind)), cell(strings.TrimSpace(r.Tool+" "+r.Pattern)),
			cell(orAll(r.CLIType)), cell(r.place()), strconv.FormatInt(r.Uses, 10), used, when(r.CreatedAt), cell(r.By))
	}
	return t.write(a.out, a.width())
}

// place returns to which sessions the rule applies.
func (r *ruleRow) place() string {
	if r.SessionID != "" {
		return "session " + r.SessionID
	}
	return orAll(r.ProjectDir)
}

func orAll(s string) string {
	if s == "" {
		return "all"
	}
	return s
}

func (a *app) rulesAdd() *cobra.Command {
	var in ruleRow
	cmd := &cobra.Command{
		Use:   "add allow|deny KIND PATTERN",
		Short: "Add a rule, which applies immediately",
		Long: `Add a rule and print its number. The rule applies immediately, also in running
turns. KIND is execute, edit, read, fetch, connect, tool, sandbox_read or
sandbox_write, which 'runnel rules --help' explains. With --project, the path of
an edit or read rule may be relative to that folder.

A rule of kind sandbox_read or sandbox_write needs the running server and
--project or --session. It takes effect when an agent starts the next time.`,
		Example: "  runnel rules add allow execute 'git status' --project .\n  runnel rules add deny fetch '*.example.com'",
		Args:    exactly(3, "allow or deny, a kind and a pattern are needed; 'runnel rules --help' explains them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Effect, in.Kind, in.Pattern = store.Effect(args[0]), store.RuleKind(args[1]), args[2]
			if in.SessionID != "" {
				err := a.withSession(cmd, in.SessionID, func(_ remoteSessions, id string) error { in.SessionID = id; return nil })
				if err != nil {
					return err
				}
			}
			if err := in.complete(); err != nil {
				return err
			}
			return a.withRules(cmd, func(k ruleKeeper) error {
				made, err := k.add(cmd.Context(), in)
				if err != nil {
					return err
				}
				a.printChange(made.change)
				_, err = fmt.Fprintln(a.out, made.ID)
				return err
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().StringVar(&in.CLIType, "agent", "", "apply only to this `AGENT`, by its name in 'runnel agents'; default: all agents")
	cmd.Flags().StringVar(&in.ProjectDir, "project", "", "apply only to sessions in `DIR` and the folders below it; default: all sessions")
	cmd.Flags().StringVar(&in.SessionID, "session", "", "with sandbox_read or sandbox_write: apply only to the session with this `ID`; default: all sessions of --project")
	cmd.Flags().StringVar(&in.Tool, "tool", "", "apply only to this `TOOL` of the agent; default: all tools of the kind")
	cmd.Flags().StringVar(&in.Note, "note", "", "`TEXT` that reminds you why the rule exists")
	return cmd
}

// complete converts what a person typed to the form of the API. It returns an
// error if the input is not valid.
func (r *ruleRow) complete() error {
	if r.Kind == store.RuleTool {
		r.Tool, r.Pattern = r.Pattern, ""
	}
	if r.ProjectDir != "" {
		dir, err := filepath.Abs(r.ProjectDir)
		if err != nil {
			return usage("--project: %s", err)
		}
		r.ProjectDir = dir
	}
	if r.Kind.IsSandbox() || r.ProjectDir == "" && (r.Kind == store.RuleEdit || r.Kind == store.RuleRead) && r.Pattern != "" {
		path, err := filepath.Abs(r.Pattern)
		if err != nil {
			return usage("%s", err)
		}
		r.Pattern = path
	}
	checked, err := rules.Check(r.stored())
	if err != nil {
		return usage("%s", err)
	}
	r.ProjectDir, r.Pattern = checked.ProjectDir, checked.Pattern
	return nil
}

func (r *ruleRow) stored() store.Rule {
	return store.Rule{Effect: r.Effect, Kind: r.Kind, CLIType: r.CLIType, ProjectDir: r.ProjectDir, SessionID: r.SessionID, Tool: r.Tool, Pattern: r.Pattern, Note: r.Note}
}

func (a *app) rulesRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove ID",
		Short: "Remove a rule, which stops applying immediately",
		Long: `Remove a rule, which stops applying immediately. A rule of kind sandbox_read or
sandbox_write stops applying when the agent ends: the server stops the agents of
idle sessions at once, and others before their next turn.`,
		Example: "  runnel rules list\n  runnel rules remove 3",
		Args:    exactly(1, "the number of a rule is needed; 'runnel rules list' shows the numbers"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil {
				return usage("%q is not the number of a rule; 'runnel rules list' shows the numbers", termtext.Clean(args[0]))
			}
			return a.withRules(cmd, func(k ruleKeeper) error {
				change, err := k.remove(cmd.Context(), id)
				a.printChange(change)
				return err
			})
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}

// withRules calls f with the rules of the data directory.
func (a *app) withRules(cmd *cobra.Command, f func(ruleKeeper) error) error {
	return a.withRecords(cmd,
		func(ad *admin) error { return f(remoteRules{ad}) },
		func(st *sqlite.Store, l localAudit) error { return f(localRules{st, l}) })
}

type remoteRules struct{ ad *admin }

func (r remoteRules) list(ctx context.Context) ([]ruleRow, error) {
	var out struct {
		Rules []ruleRow `json:"rules"`
	}
	err := r.ad.get(ctx, "/api/rules", &out)
	return out.Rules, err
}

func (r remoteRules) add(ctx context.Context, in ruleRow) (ruleRow, error) {
	var out struct {
		Rule      ruleRow                `json:"rule"`
		Sandboxes *gateway.SandboxChange `json:"sandboxes"`
	}
	err := r.ad.post(ctx, "/api/rules", in, &out)
	out.Rule.change = out.Sandboxes
	return out.Rule, err
}

func (r remoteRules) remove(ctx context.Context, id int64) (*gateway.SandboxChange, error) {
	var out struct {
		Sandboxes *gateway.SandboxChange `json:"sandboxes"`
	}
	err := r.ad.do(ctx, http.MethodDelete, "/api/rules/"+strconv.FormatInt(id, 10), nil, &out)
	return out.Sandboxes, err
}

// printChange says when a change of a rule about sandboxes takes effect.
func (a *app) printChange(c *gateway.SandboxChange) {
	if c == nil {
		return
	}
	for _, id := range c.Stopped {
		a.stderrf("Session %s: its agent was stopped; the next prompt starts it with the change and resumes the conversation", termtext.Clean(id))
	}
	for _, id := range c.NextTurn {
		a.stderrf("Session %s: a turn runs; the change takes effect with the next turn", termtext.Clean(id))
	}
}

type localRules struct {
	rules store.Rules
	audit localAudit
}

func (l localRules) list(ctx context.Context) ([]ruleRow, error) {
	list, err := l.rules.Rules(ctx)
	rows := make([]ruleRow, len(list))
	for i, r := range list {
		rows[i] = rowOf(r)
	}
	return rows, err
}

func (l localRules) add(ctx context.Context, in ruleRow) (ruleRow, error) {
	r := in.stored()
	if r.Kind.IsSandbox() {
		return in, errSandboxRule
	}
	r.ByName, r.CreatedAt = "command line", time.Now().UTC()
	if err := l.audit.record(audit.Record{Kind: audit.RuleAdded, What: rules.Text(r)}); err != nil {
		return in, err
	}
	id, err := l.rules.AddRule(ctx, r)
	in.ID = id
	return in, err
}

// errSandboxRule refuses a rule about sandboxes without a server, which knows
// the sessions and which paths are protected.
var errSandboxRule = errors.New("a rule of kind sandbox_read or sandbox_write needs the running server; start it with 'runnel serve'")

func (l localRules) remove(ctx context.Context, id int64) (*gateway.SandboxChange, error) {
	if err := l.audit.record(audit.Record{Kind: audit.RuleRemoved, Rule: id}); err != nil {
		return nil, err
	}
	err := l.rules.DeleteRule(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errors.New("there is no such rule; 'runnel rules list' lists all")
	}
	return nil, err
}
