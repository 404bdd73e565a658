package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/internal/translate"
)

// pages are the numbers of turns that one response may have. A smaller number is
// requested if the response is too large.
var pages = []int{50, 10, 1}

// History implements [runnel.Historian]. It asks an app-server for the stored
// turns and does not read Codex's files: their format differs from the
// messages, a conversation has several files after a revert, and part of it is
// in a database. The stored items equal those of the live conversation byte for
// byte, and the same translator processes them.
func (p *Provider) History(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		opt, id, clean, err := p.locate(ref)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		defer clean()
		errStopped := errors.New("stopped")
		err = p.query(ctx, opt, func(a *asker) error {
			h := newHistorian(id, a.all)
			h.t.out.Pictures = ref.Pictures
			h.took = func() int64 { return a.took }
			return h.all(func(evs []event.Event) error {
				for _, ev := range evs {
					if !yield(ev, nil) {
						return errStopped
					}
				}
				return ctx.Err()
			})
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(event.Event{}, historyFault(err))
		}
	}
}

func historyFault(err error) error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		if isMissing(e) {
			return runnel.Fail(runnel.SessionNotFound, "Codex has no such conversation.", err)
		}
		return runnel.Fail(runnel.AgentError, "Codex did not return the turns of the conversation.", err)
	}
	return err
}

// isMissing reports whether an error means that the conversation does not
// exist.
func isMissing(e *jsonrpc.Error) bool {
	for _, words := range []string{"no rollout found", "thread not found", "thread not loaded", "invalid thread id", "not found"} {
		if strings.Contains(e.Message, words) {
			return true
		}
	}
	return false
}

// all returns one page of turns, as [asker.turns] does. The agent (0.169.0)
// lists no turns of a file that is not in its database yet, and adds the file
// when the conversation is opened. So all opens such a conversation, outside
// any project and without MCP servers.
func (a *asker) all(thread string, cursor *string) ([]nativeTurn, *string, error) {
	turns, next, err := a.turns(thread, cursor)
	if err != nil || len(turns) > 0 || cursor != nil {
		return turns, next, err
	}
	servers, err := a.noServers()
	if err == nil {
		err = a.ask(methodResume, map[string]any{"threadId": thread, "excludeTurns": true, "cwd": agentconn.EmptyDir(), "config": map[string]any{"mcp_servers": servers}}, nil)
	}
	if _, refused := errors.AsType[*jsonrpc.Error](err); refused {
		return turns, next, nil // another process has the conversation open, or it has no turns
	}
	if err != nil {
		return nil, nil, err
	}
	return a.turns(thread, nil)
}

// noServers returns the configuration that disables each configured MCP server
// by name. The agent (0.169.0) merges a request with the user's configuration,
// so an empty list of servers would start all of them.
func (a *asker) noServers() (map[string]any, error) {
	var r struct {
		Config struct {
			Servers map[string]json.RawMessage `json:"mcp_servers"`
		} `json:"config"`
	}
	if err := a.ask(methodConfig, map[string]any{}, &r); err != nil {
		return nil, err
	}
	off := make(map[string]any)
	for name := range r.Config.Servers {
		off[name] = map[string]bool{"enabled": false}
	}
	return off, nil
}

// turns returns one page of a thread's turns, oldest first, and the cursor of
// the next page. The cursor is nil after the last page.
func (a *asker) turns(thread string, cursor *string) ([]nativeTurn, *string, error) {
	return a.listed(thread, cursor, "asc", pages[0])
}

// listed is turns for an order (asc or desc) and a maximum number of turns.
func (a *asker) listed(thread string, cursor *string, order string, limit int) ([]nativeTurn, *string, error) {
	var r struct {
		Data []nativeTurn `json:"data"`
		Next *string      `json:"nextCursor"`
	}
	var err error
	for _, most := range pages {
		r.Data, r.Next = nil, nil
		err = a.ask(methodTurns, map[string]any{"threadId": thread, "cursor": cursor, "limit": min(limit, most), "sortDirection": order, "itemsView": "full"}, &r)
		if !errors.Is(err, errTooLarge) {
			break
		}
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code == jsonrpc.CodeMethodNotFound {
		return nil, nil, nil // 0.169.0 returns this for a thread without turns
	}
	return r.Data, r.Next, err
}

// historian passes stored turns through the translator.
type historian struct {
	t     *translator
	list  func(thread string, cursor *string) ([]nativeTurn, *string, error)
	known map[string][]nativeTurn // turns of subagents, by thread

	took  func() int64 // memory of all turns that list has returned, in bytes
	kept  int64        // memory of those in known
	most  int64        // bound of kept
	short bool         // some turns of subagents were left out, because they are too large

	warned bool // a notice has reported that

	places *places // of a following, else nil
}

func newHistorian(thread string, list func(string, *string) ([]nativeTurn, *string, error)) *historian {
	t := newTranslator()
	t.thread, t.announced = thread, true
	return &historian{t: t, list: list, known: make(map[string][]nativeTurn), took: func() int64 { return 0 }, most: maxKept}
}

// all calls emit with the events of each turn.
func (h *historian) all(emit func([]event.Event) error) error {
	var cursor *string
	for {
		turns, next, err := h.list(h.t.thread, cursor)
		if err != nil {
			return err
		}
		for _, tn := range turns {
			evs, err := h.turn(tn)
			if err != nil {
				return err
			}
			if err := emit(evs); err != nil {
				return err
			}
		}
		if next == nil || cursor != nil && *next == *cursor {
			return nil
		}
		cursor = next
	}
}

// threadItem is an item with its thread and its turn.
type threadItem struct {
	thread, turn string
	item         *item
}

// key identifies the item in its conversation.
func (s threadItem) key() string { return s.thread + " " + s.item.ID }

// moment is the start or the end of an item.
type moment struct {
	threadItem
	at  int64 // unix milliseconds
	end bool
}

// moments returns the starts and the ends of items in order of time. Items are
// stored in the order in which they ended.
func moments(all []threadItem) []moment {
	var out []moment
	var before int64
	for _, s := range all {
		from := cmp.Or(s.item.StartedAt, before)
		before = max(from, s.item.CompletedAt)
		out = append(out, moment{s, from, false}, moment{s, before, true})
	}
	slices.SortStableFunc(out, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return out
}

// turn returns the events of a stored turn.
func (h *historian) turn(native nativeTurn) ([]event.Event, error) {
	t := h.t
	all, err := h.gather(t.thread, native, 0)
	if err != nil {
		return nil, err
	}
	if h.places != nil {
		h.places.keep(all)
	}
	t.out.Begin(time.Unix(native.StartedAt, 0))
	if h.short && !h.warned {
		h.warned = true
		t.out.Notice("", event.LevelWarning, "HISTORY_TOO_LARGE", "The conversation is so large that the work of some subagents was left out.")
	}
	tn := h.begin(native, all)
	tn.interrupted, tn.unfinished = native.wasCancelled(), native.Status == "inProgress"
	for _, m := range moments(all) {
		t.out.Begin(milli(m.at, t.out.At()))
		h.item(tn, m)
	}
	if end := time.Unix(native.EndedAt, 0); native.EndedAt > 0 && end.After(t.out.At()) {
		t.out.Begin(end)
	}
	for _, other := range slices.Sorted(maps.Keys(t.subagents.running)) {
		t.subagents.running[other].close()
	}
	switch {
	case native.Status == "inProgress": // another process runs the turn: it has no end yet
	case native.Status == "interrupted" && !tn.interrupted: // the agent was killed
		tn.close(native.Status)
		tn.out.Emit(event.ResponseError{Error: runnel.Fail(runnel.ProcessCrash, translate.FaultKilled).Fault()})
	default:
		tn.close(native.Status)
		tn.out.Emit(outcome(&native, tn.interrupted, nil))
	}
	clear(t.turns.running)
	clear(t.subagents.running)
	return t.out.Take(), nil
}

// begin emits the prompt and the start of a turn. The turn gets the id that
// Runnel sent with the prompt. If another client sent the prompt, the id is
// derived from the native one.
func (h *historian) begin(native nativeTurn, all []threadItem) *turn {
	t := h.t
	i := slices.IndexFunc(all, func(s threadItem) bool { return s.thread == t.thread && s.item.Type == "userMessage" })
	var prompt item
	if i >= 0 {
		prompt = *all[i].item
		t.out.Begin(milli(prompt.StartedAt, t.out.At()))
	}
	id := ""
	if uuid.Validate(prompt.ClientID) == nil {
		id = prompt.ClientID
	}
	tn := t.turns.bind(t.thread, native.ID, id)
	tn.began, tn.prompt = true, prompt.ID
	if i >= 0 {
		asked, warning := userMessage(translate.DecodeLenient[[]userInput](prompt.Content), t.out.Picture)
		t.out.UserMessage(tn.id, translate.ItemID(tn.prefix, 0, 0), asked, warning)
	}
	tn.out.Emit(event.ResponseStart{ProviderID: providerID})
	return tn
}

func (h *historian) item(main *turn, m moment) {
	t := h.t
	r := &main.run
	if m.thread != t.thread {
		if r = t.runOf(note{ThreadID: m.thread, TurnID: m.turn}); r == nil {
			return
		}
	}
	if m.end && main.interrupted && m.item.wasStopped() {
		if c := r.pieces[m.item.ID]; c != nil && c.called {
			c.output.Append(r.out, m.item.Output) // the end of the turn cancels it, as in a live session
		}
		return
	}
	if m.end && main.unfinished && m.item.Status == "inProgress" {
		return
	}
	if m.end {
		t.whole(r, *m.item)
		return
	}
	if r.pieces[m.item.ID] == nil {
		begun := *m.item
		begun.Text = ""
		t.begins(r, begun)
	}
}

// maxDepth bounds the nesting of subagents.
const maxDepth = 8

// gather returns the items of a turn and of the subagents that it started.
func (h *historian) gather(thread string, native nativeTurn, depth int) ([]threadItem, error) {
	var out []threadItem
	seen := make(map[string]bool)
	for i := range native.Items {
		it := &native.Items[i]
		out = append(out, threadItem{thread, native.ID, it})
		if it.Type != "subAgentActivity" || it.AgentID == "" || seen[it.AgentID] || depth >= maxDepth || len(h.known) >= maxSubagents {
			continue
		}
		seen[it.AgentID] = true
		turns, err := h.turnsOf(it.AgentID)
		if err != nil {
			return nil, err
		}
		for _, inner := range turns {
			if inner.Root != cmp.Or(native.Root, native.ID) {
				continue
			}
			more, err := h.gather(it.AgentID, inner, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

// maxKept bounds the memory of the turns of all subagents, in bytes.
const maxKept = 512 << 20

// turnsOf returns the turns of a subagent, none if they are not stored. It
// leaves out those beyond maxKept.
func (h *historian) turnsOf(thread string) ([]nativeTurn, error) {
	if turns, ok := h.known[thread]; ok {
		return turns, nil
	}
	var all []nativeTurn
	var cursor *string
	for {
		if h.kept > h.most {
			h.short = true
			break
		}
		before := h.took()
		turns, next, err := h.list(thread, cursor)
		h.kept += h.took() - before
		if _, missing := errors.AsType[*jsonrpc.Error](err); missing {
			break
		}
		if errors.Is(err, errTooLarge) {
			h.short = true
			break
		}
		if err != nil {
			return nil, err
		}
		all = append(all, turns...)
		if next == nil || cursor != nil && *next == *cursor {
			break
		}
		cursor = next
	}
	h.known[thread] = all
	return all, nil
}

func milli(ms int64, before time.Time) time.Time {
	if ms <= 0 {
		return before
	}
	return time.UnixMilli(ms)
}

// locate returns the options of an app-server that can read a conversation, and
// the conversation's id. A file must be in Codex's own folder. A file elsewhere
// is read only if ref.Anywhere is true: locate copies it into a new folder that
// contains no user configuration. clean removes that folder.
func (p *Provider) locate(ref runnel.Conversation) (opt runnel.Options, thread string, clean func(), err error) {
	clean = func() {}
	if ref.File == "" {
		if !token().MatchString(ref.AgentSessionID) {
			err = runnel.Fail(runnel.SessionNotFound, "Codex has no such conversation.")
		}
		return opt, ref.AgentSessionID, clean, err
	}
	id, models, err := threadOf(ref.File)
	if err != nil {
		return opt, "", clean, err
	}
	home := homeOf(p.program)
	if within(filepath.Join(home, "sessions"), ref.File) || within(filepath.Join(home, "archived_sessions"), ref.File) {
		return opt, id, clean, nil
	}
	if !ref.Anywhere {
		return opt, "", clean, runnel.Fail(runnel.InvalidRequest, "the file is not in Codex's own folder")
	}
	dir, err := copyOf(ref.File, id, models)
	if errors.Is(err, errContinues) {
		return opt, "", clean, runnel.Fail(runnel.InvalidRequest, "the file continues another file of its conversation; put that file into the same folder under its original name", err)
	}
	if err != nil {
		return opt, "", clean, runnel.Fail(runnel.InvalidRequest, "the file cannot be read", err)
	}
	opt.Env = []string{"CODEX_HOME=" + dir}
	return opt, id, func() { os.RemoveAll(dir) }, nil
}

func within(dir, file string) bool {
	a, errA := filepath.EvalSymlinks(dir)
	b, errB := filepath.EvalSymlinks(file)
	return errA == nil && errB == nil && subpath.Within(b, a)
}

// Translate implements [runnel.Translator].
func (p *Provider) Translate(lines iter.Seq2[runnel.Line, error]) iter.Seq2[event.Event, error] {
	return agentconn.Translate(newTranslator(), lines)
}
