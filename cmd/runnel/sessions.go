package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/upsert"
)

// sessions reads stored sessions, from the server or from the data directory.
type sessions interface {
	list(ctx context.Context, f gateway.Filter) ([]gateway.Status, error)
	// conversations returns all conversations that agents have stored.
	conversations(ctx context.Context) (gateway.ConversationPage, error)
	// whole returns row completed by what only a server knows about the
	// session.
	whole(ctx context.Context, row gateway.Status) (gateway.Status, error)
	items(ctx context.Context, id string, f func(frame) error) error
	// events yields the history of a session.
	events(ctx context.Context, row gateway.Status) iter.Seq2[event.Event, error]
}

// frame is an item or another fact about a session, in the format of the API.
type frame struct {
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

func (a *app) sessionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List, read, rename, archive and delete sessions",
		Long: `List sessions and read their items: prompts, answers, tool calls and plans. The
commands use the running server, or the data directory if no server runs.
'export', 'import', 'fork', 'rename', 'archive', 'delete', 'budget', 'capture'
and 'worktree' need the running server.`,
		Example: `  runnel sessions list
  runnel sessions items 0192f0c1
  runnel sessions rename 0192f0c1 "Fix the login"
  runnel sessions items --json 0192f0c1 |
    jq -r 'select(.payload.type == "message").payload.message.content'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q; use list, show, items, export, import, fork, rename, archive, delete, budget, capture or worktree", termtext.Clean(args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.sessionsList(), a.sessionsShow(), a.sessionsItems(), a.sessionsExport(), a.sessionsImport(), a.sessionsFork(), a.sessionsRename(), a.sessionsArchive(), a.sessionsDelete(), a.sessionsBudget(), a.sessionsCapture(), a.sessionsWorktree())
	return cmd
}

func (a *app) sessionsList() *cobra.Command {
	var all, archived, hidden, asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List sessions, newest activity first",
		Long: `List sessions, newest activity first. STATE is idle, working, waiting (for an
answer to an approval), failed (the last turn failed), loading, archived (listed
with --archived) or dead (ended; listed with --all). On a terminal, ids and long
columns are shortened; commands accept the beginning of an id.

With --all, the list also has the conversations that the agents of this machine
have stored and that are not sessions. Their STATE is elsewhere, or in use
while another program has them open. Their ID is the agent's own; 'runnel run
--agent AGENT --resume ID' continues them. Without a running server, the command
starts the agents that do not store conversations in files of their own, and
asks them.

The conversation of a deleted session stays in the agent's own files, but is
hidden: it is listed only with --all --hidden, and no search finds it. To show
it again, continue it as above.`,
		Example: "  runnel sessions list\n  runnel sessions list --all --json | jq -r '.[].sessionId // empty'",
		Args:    nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withSessions(cmd, func(s sessions) error {
				rows, err := s.list(cmd.Context(), gateway.Filter{Dead: all, Archived: archived})
				if err != nil {
					return err
				}
				var found gateway.ConversationPage
				if all {
					if found, err = s.conversations(cmd.Context()); err != nil {
						return err
					}
					a.tellUnlisted(found)
				}
				list := merged(rows, found.Conversations, hidden)
				if asJSON {
					values := []any{} // prints an empty array instead of null
					for _, r := range list {
						values = append(values, r.value())
					}
					return a.printJSON(values)
				}
				return a.printSessions(list, all)
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "also list ended sessions, and conversations that began outside of runnel")
	cmd.Flags().BoolVar(&archived, "archived", false, "also list archived sessions")
	cmd.Flags().BoolVar(&hidden, "hidden", false, "with --all, also list conversations whose session was deleted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func (a *app) printSessions(rows []listedRow, all bool) error {
	switch {
	case len(rows) == 0 && all:
		a.stderrf("There are no sessions yet.")
		return nil
	case len(rows) == 0:
		a.stderrf("There are no sessions; --all also lists ended ones.")
		return nil
	}
	t := table{columns: []column{{"ID", whole}, {"AGENT", cutEnd}, {"STATE", whole}, {"LAST ACTIVE", whole}, {"FOLDER", cutStart}, {"TITLE", cutEnd}}}
	var ids []string
	for _, r := range rows {
		if r.session != nil {
			ids = append(ids, r.session.SessionID)
		}
	}
	width := a.width()
	if width > 0 {
		ids = beginnings(ids)
	}
	for _, r := range rows {
		if c := r.conversation; r.session == nil {
			state := "elsewhere"
			switch {
			case c.Hidden:
				state = "hidden"
			case c.Writer != nil:
				state = "in use"
			}
			t.add(cell(c.AgentSessionID), cell(c.CLIType), state, when(c.UpdatedAt), cell(c.ProjectDir), cell(oneLine(c.Title, 60)))
			continue
		}
		s := r.session
		t.add(cell(ids[0]), cell(s.CLIType), cell(stateWord(*s)), when(s.LastActiveAt), cell(s.ProjectDir), cell(oneLine(s.Title, 60)))
		ids = ids[1:]
	}
	return t.write(a.out, width)
}

// beginnings shortens ids to the length at which they differ. Commands accept
// the beginning of an id.
func beginnings(ids []string) []string {
	const least = 13 // the timestamp in the id, to the millisecond
	for n := least; ; n++ {
		seen := make(map[string]bool)
		var short []string
		for _, id := range ids {
			id = id[:min(n, len(id))]
			seen[id] = true
			short = append(short, id)
		}
		if len(seen) == len(ids) || n >= 36 {
			return short
		}
	}
}

// stateWord returns the state of a session in one word.
func stateWord(s gateway.Status) string {
	switch {
	case s.Archived:
		return "archived"
	case s.State == event.StateDead || s.Activity == "":
		return string(s.State)
	case s.Activity == event.ActivityIdle && s.LastTurn == event.StatusError:
		return "failed" // the last turn failed; the session still accepts prompts
	}
	return string(s.Activity)
}

func (a *app) sessionsShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Print the details of a session as JSON",
		Example: "  runnel sessions show 0192f0c1\n  runnel sessions show 0192f0c1 | jq -r .projectDir",
		Args:    exactly(1, "the id of a session is needed; 'runnel sessions list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSessions(cmd, func(s sessions) error {
				row, err := pick(cmd.Context(), s, args[0])
				if err != nil {
					return err
				}
				if row, err = s.whole(cmd.Context(), row); err != nil {
					return err
				}
				return a.printJSON(row)
			})
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}

func (a *app) sessionsItems() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "items ID",
		Short: "Print the items of a session",
		Long: `Print the items of a session: prompts, answers, reasoning, tool calls with their
output, plans and errors. ID may be the beginning of an id.`,
		Example: "  runnel sessions items 0192f0c1\n  runnel sessions items --json 0192f0c1 | jq -r .payload.type",
		Args:    exactly(1, "the id of a session is needed; 'runnel sessions list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSessions(cmd, func(s sessions) error {
				row, err := pick(cmd.Context(), s, args[0])
				if err != nil {
					return err
				}
				show := a.printItem
				if asJSON {
					enc := a.encoder()
					show = func(f frame) error { return enc.Encode(f) }
				}
				return s.items(cmd.Context(), row.SessionID, show)
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

func (a *app) printJSON(v any) error {
	enc := a.encoder()
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// pick returns the session with this id, or the only session whose id begins
// with it.
func pick(ctx context.Context, s sessions, id string) (gateway.Status, error) {
	rows, err := s.list(ctx, gateway.Filter{Dead: true, Archived: true})
	if err != nil {
		return gateway.Status{}, err
	}
	var found []gateway.Status
	for _, r := range rows {
		if id != "" && strings.HasPrefix(r.SessionID, id) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return gateway.Status{}, runnel.Fail(runnel.SessionNotFound, "there is no such session; 'runnel sessions list --all' lists all")
	}
	return gateway.Status{}, usage("%d sessions have ids that begin with %s; give more of the id", len(found), termtext.Clean(id))
}

// printItem prints an item for a person.
func (a *app) printItem(f frame) error {
	var err error
	switch f.Type {
	case "session:upsert":
		var u upsert.Upsert
		if err = json.Unmarshal(f.Payload, &u); err == nil {
			_, err = fmt.Fprint(a.out, itemText(u))
		}
	case "session:turn":
		var t upsert.TurnEvent
		if err = json.Unmarshal(f.Payload, &t); err == nil && t.Type == upsert.TurnError {
			_, err = fmt.Fprintf(a.out, "! %s (%s)\n\n", oneLine(t.ErrorMessage, 400), oneLine(string(t.ErrorCode), 40))
		} else if err == nil && t.Status == event.StatusCancelled {
			_, err = fmt.Fprint(a.out, "! cancelled\n\n")
		}
	case "session:notice":
		var n upsert.Notice
		if err = json.Unmarshal(f.Payload, &n); err == nil {
			_, err = fmt.Fprintf(a.out, "%s: %s\n\n", oneLine(string(n.Level), 40), oneLine(n.Message, 400))
		}
	}
	return err
}

func itemText(u upsert.Upsert) string {
	indent := ""
	if u.ParentCallID != "" {
		indent = "    "
	}
	switch {
	case u.Message != nil && u.Message.Origin == event.OriginUser:
		return paragraph("> ", u.Message.Content)
	case u.Message != nil:
		return paragraph(indent, u.Message.Content)
	case u.Thinking != nil:
		return paragraph(indent+"  ~ ", u.Thinking.Content)
	case u.ToolCall != nil:
		t := u.ToolCall
		text := indent + call(event.FunctionCall{Name: t.ToolName, Title: t.Title, Arguments: t.ToolArguments}) + "\n"
		if t.ToolOutput != nil && *t.ToolOutput != "" {
			return text + paragraph(indent+"  ", *t.ToolOutput)
		}
		return text + "\n"
	case u.Plan != nil:
		var b strings.Builder
		for _, e := range u.Plan.Entries {
			fmt.Fprintf(&b, "%s[%s] %s\n", indent, mark(e), oneLine(e.Content, 160))
		}
		return b.String() + "\n"
	}
	return ""
}

// paragraph puts a prefix before each line of text and an empty line at the
// end.
func paragraph(prefix, text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(termtext.Clean(text), "\n")) {
		b.WriteString(prefix + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String() + "\n"
}

// withSessions calls f with the sessions of the data directory, read through
// the server if one runs.
func (a *app) withSessions(cmd *cobra.Command, f func(sessions) error) error {
	c, err := loadConfig(cmd.Flags())
	if err != nil {
		return err
	}
	ad, err := connect(cmd.Context(), c)
	if err == nil {
		return f(remoteSessions{ad})
	}
	if !errors.Is(err, errNoServer) {
		return err
	}
	if !exists(c.Data) {
		return f(noSessions{finder{a, c}}) // reading must not create a data directory
	}
	st, err := openStore(cmd.Context(), c.Data)
	if err != nil {
		return err
	}
	return errors.Join(f(localSessions{st, finder{a, c}}), st.Close())
}

type remoteSessions struct{ ad *admin }

func (r remoteSessions) list(ctx context.Context, f gateway.Filter) ([]gateway.Status, error) {
	path := "/api/session/list?projectId=*"
	if f.Dead {
		path += "&all=true"
	}
	if f.Archived {
		path += "&archived=true"
	}
	var out struct {
		Sessions []gateway.Status `json:"sessions"`
	}
	err := r.ad.get(ctx, path, &out)
	return out.Sessions, err
}

func (r remoteSessions) whole(ctx context.Context, row gateway.Status) (st gateway.Status, err error) {
	err = r.ad.get(ctx, "/api/session/"+url.PathEscape(row.SessionID)+"/status", &st)
	return st, err
}

func (r remoteSessions) items(ctx context.Context, id string, f func(frame) error) error {
	after := int64(0)
	for {
		var page struct {
			Items []frame `json:"items"`
			Seq   int64   `json:"seq"`
			More  bool    `json:"more"`
		}
		path := "/api/session/" + url.PathEscape(id) + "/items?after=" + strconv.FormatInt(after, 10)
		if err := r.ad.get(ctx, path, &page); err != nil {
			return err
		}
		for _, it := range page.Items {
			if err := f(it); err != nil {
				return err
			}
		}
		if !page.More || page.Seq <= after {
			return nil
		}
		after = page.Seq
	}
}

// noSessions represents a data directory that does not exist yet.
type noSessions struct{ find finder }

func (noSessions) list(context.Context, gateway.Filter) ([]gateway.Status, error) { return nil, nil }
func (noSessions) whole(_ context.Context, row gateway.Status) (gateway.Status, error) {
	return row, nil
}
func (noSessions) items(_ context.Context, _ string, _ func(frame) error) error { return nil }

// localSessions reads the sessions of a data directory that no server uses.
type localSessions struct {
	st   stored
	find finder
}

// stored is the part of a store that localSessions reads.
type stored interface {
	gateway.UsageStore
	Sessions(ctx context.Context, f store.SessionFilter) ([]store.Session, error)
	State(ctx context.Context, session string) (store.LogState, error)
	Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error]
}

func (l localSessions) list(ctx context.Context, f gateway.Filter) ([]gateway.Status, error) {
	recs, err := l.st.Sessions(ctx, store.SessionFilter{Dead: true, Trim: gateway.Described})
	if err != nil {
		return nil, err
	}
	rows := make([]gateway.Status, 0, len(recs))
	for _, r := range recs {
		row := gateway.Describe(r)
		if !f.Selects(row) {
			continue
		}
		log, err := l.st.State(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		row.LastSeq = log.Head
		rows = append(rows, row)
	}
	return rows, nil
}

func (l localSessions) whole(_ context.Context, row gateway.Status) (gateway.Status, error) {
	return row, nil
}

func (l localSessions) items(ctx context.Context, id string, f func(frame) error) error {
	outs, err := upsert.History(l.st.Read(ctx, id, 0), 0, time.Now())
	if err != nil {
		return err
	}
	for _, out := range outs {
		payload, err := json.Marshal(out)
		if err != nil {
			return err
		}
		if err := f(frame{out.Frame(), payload}); err != nil {
			return err
		}
	}
	return nil
}
