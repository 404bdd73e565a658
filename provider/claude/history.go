package claude

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// maxStored bounds what is read of one conversation, subagents included, in bytes.
const maxStored = 512 << 20

// History implements [runnel.Historian]: it feeds the translator from the
// agent's files instead of from its output.
func (p *Provider) History(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		c, err := p.load(ctx, ref)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		h := newHistorian(ref.AgentSessionID, c.main, c.sides)
		if c.short {
			h.t.notice(event.LevelWarning, "HISTORY_TOO_LARGE", "The conversation is so large that the work of some subagents was left out.")
		}
		for _, e := range c.main {
			if !yieldEach(h.entry(e), yield) {
				return
			}
			if ctx.Err() != nil {
				yield(event.Event{}, ctx.Err())
				return
			}
		}
		yieldEach(h.finish(), yield)
	}
}

// conversation is what the agent keeps of one: the main thread, and those of
// subagents by the call that started each.
type conversation struct {
	main  []*entry
	sides map[string][]*entry
	short bool // not all subagents are there
}

func (p *Provider) load(ctx context.Context, ref runnel.Conversation) (c conversation, err error) {
	dir := filepath.Join(configDir(p.parent()), "projects")
	if ref.Anywhere && ref.File != "" {
		dir = filepath.Dir(ref.File)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return c, notKept(err)
	}
	defer root.Close()
	name, err := lookup(root, ref)
	if err != nil {
		return c, err
	}
	left := int64(maxStored)
	entries, err := readFile(ctx, root, name, &left)
	if err != nil {
		return c, err
	}
	c.main = chain(entries)
	return c, c.loadSides(ctx, root, path.Join(strings.TrimSuffix(name, ".jsonl"), "subagents"), left)
}

// loadSides reads the subagents' threads below a directory, left bytes at most.
// One that cannot be read is left out.
func (c *conversation) loadSides(ctx context.Context, root *os.Root, below string, left int64) error {
	c.sides = make(map[string][]*entry)
	metas, err := fs.Glob(root.FS(), path.Join(below, "agent-*.meta.json"))
	if err != nil {
		return notKept(err)
	}
	for _, meta := range metas {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		data, err := readSmall(root, meta)
		if err != nil {
			continue
		}
		call := decodeLoose[struct{ ToolUseID string }](data).ToolUseID
		side, err := readFile(ctx, root, strings.TrimSuffix(meta, ".meta.json")+".jsonl", &left)
		if runnel.CodeOf(err) == runnel.PayloadTooLarge {
			c.short = true
		}
		if err == nil && call != "" {
			c.sides[call] = append(c.sides[call], side...)
		}
	}
	return ctx.Err()
}

func notKept(cause error) error {
	return runnel.Fail(runnel.SessionNotFound, "Claude Code keeps no such conversation", cause)
}

// lookup finds the file of a conversation below projects.
func lookup(root *os.Root, ref runnel.Conversation) (string, error) {
	if ref.File != "" {
		rel, err := filepath.Rel(root.Name(), ref.File)
		if err != nil || !filepath.IsLocal(rel) {
			return "", notKept(errors.New("claude: the file is not among the agent's own"))
		}
		return filepath.ToSlash(rel), nil
	}
	if uuid.Validate(ref.AgentSessionID) != nil {
		return "", notKept(errors.New("claude: not the id of a conversation"))
	}
	if ref.Dir != "" {
		name := path.Join(slug(ref.Dir), ref.AgentSessionID+".jsonl")
		if _, err := root.Stat(name); err == nil {
			return name, nil
		}
	}
	found, err := fs.Glob(root.FS(), "*/"+ref.AgentSessionID+".jsonl")
	if err != nil || len(found) == 0 {
		return "", notKept(err)
	}
	return found[0], nil
}

// readFile reads a file of entries and takes its size off what is left.
func readFile(ctx context.Context, root *os.Root, name string, left *int64) ([]*entry, error) {
	f, st, err := openPlain(root, name)
	if err != nil {
		return nil, notKept(err)
	}
	defer f.Close()
	if st.Size() > *left {
		return nil, runnel.Fail(runnel.PayloadTooLarge, "the conversation is too large to be read")
	}
	*left -= st.Size()
	entries, err := readEntries(ctx, io.LimitReader(f, st.Size())) // it may be growing
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, notKept(err)
	}
	return entries, nil
}

// readSmall reads a file that is a few lines at most.
func readSmall(root *os.Root, name string) ([]byte, error) {
	f, _, err := openPlain(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// openPlain opens a regular file. It looks before it opens: opening a pipe
// would wait for its other end.
func openPlain(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	st, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, nil, errors.New("claude: not a regular file")
	}
	f, err := root.Open(name)
	return f, st, err
}

// historian replays stored entries. Where a live conversation has an init and a
// result around a turn, the next prompt ends the turn here.
type historian struct {
	t     *translator
	sides map[string][]*entry // what is left of each subagent's thread, by its call
	async map[string]bool     // calls whose subagent went on in the background
	live  []string            // calls of the turn in flight whose subagents have more to say
	last  time.Time
}

func newHistorian(session string, main []*entry, sides map[string][]*entry) *historian {
	t := newTranslator()
	t.session = session
	h := &historian{t: t, sides: sides, async: make(map[string]bool)}
	h.note(main)
	for _, side := range sides {
		h.note(side)
	}
	return h
}

// note keeps the calls that are answered before their subagent is done.
func (h *historian) note(entries []*entry) {
	for _, e := range entries {
		if !e.isResult() || !isAsync(e.StoredResult) {
			continue
		}
		for _, b := range e.Message.Content {
			h.async[b.ToolUseID] = true
		}
	}
}

// Text that the harness writes in the user's place.
const (
	interruptedByUser = "[Request interrupted by user"
	taskNotification  = "<task-notification>"
)

// entry replays one entry of the main thread, and what subagents did before it.
func (h *historian) entry(e *entry) []event.Event {
	at := e.time()
	if at.IsZero() {
		at = h.last
	}
	h.last = at
	evs := h.beside(e.Timestamp)
	h.t.at = at
	switch e.Type {
	case "user":
		h.user(e)
	case "assistant":
		if m := e.Message; m != nil && m.Model != "" && m.Model != syntheticModel {
			h.t.model = m.Model
		}
		if e.StoredStatus != nil && h.t.turn != nil {
			h.t.turn.status = *e.StoredStatus
		}
		h.t.assistant(e.frame)
		h.called(e)
	case "system":
		if e.Subtype == "compact_boundary" || e.Subtype == "informational" {
			h.t.system(e.frame)
		}
	case "attachment":
		h.queued(e)
	}
	return append(evs, h.t.take()...)
}

// user replays a user entry: results of tools, a prompt, or neither.
func (h *historian) user(e *entry) {
	if e.IsMeta && e.Message != nil {
		h.t.skill(e.Message.Content.text())
	}
	if e.Message == nil || e.IsMeta || e.IsCompactSummary {
		return
	}
	if e.isResult() {
		f := e.frame
		f.ToolUseResult = e.StoredResult
		h.t.user(f)
		return
	}
	text := e.Message.Content.text()
	switch {
	case strings.HasPrefix(text, interruptedByUser):
		if tn := h.t.running(""); tn != nil {
			tn.interrupted = true
		}
	case strings.HasPrefix(text, taskNotification), e.Origin != nil && e.Origin.Kind == "task-notification":
		h.close()
		h.task(text)
		h.t.taskOver(tagged(text, "summary"))
	case strings.HasPrefix(text, "<command-name>"), strings.HasPrefix(text, "<local-command-"):
		// what a slash command left
	default:
		h.close()
		h.t.waiting = append(h.t.waiting, e.UUID)
		h.t.userMessage(e.UUID, e.UUID+":0:0", *e.Message)
	}
}

// queued replays a prompt that the agent took up in the middle of a turn. That
// happens in a terminal; we never send one.
func (h *historian) queued(e *entry) {
	a := e.Attachment
	if a == nil || a.Type != "queued_command" {
		return
	}
	if a.CommandMode == "task-notification" {
		h.task(a.Prompt.text())
		h.t.taskOver(tagged(a.Prompt.text(), "summary"))
		return
	}
	if tn := h.t.running(""); tn != nil {
		h.t.userMessage(tn.id, tn.thread("").item("queued "+e.UUID, 0), message{Content: a.Prompt})
	}
}

// called keeps the calls of an entry that started subagents.
func (h *historian) called(e *entry) {
	if e.Message == nil {
		return
	}
	for _, b := range e.Message.Content {
		if b.Type == "tool_use" && len(h.sides[b.ID]) > 0 && !h.async[b.ID] && !slices.Contains(h.live, b.ID) {
			h.live = append(h.live, b.ID)
		}
	}
}

// next returns the call whose subagent is the first to go on by a time, given
// as in the entries; "" for until means whenever. It returns "" if there is none.
func (h *historian) next(until string) string {
	call, at := "", ""
	h.live = slices.DeleteFunc(h.live, func(c string) bool { return len(h.sides[c]) == 0 })
	for _, c := range h.live {
		first := h.sides[c][0].Timestamp
		if (until == "" || first <= until) && (call == "" || first < at) {
			call, at = c, first
		}
	}
	return call
}

// beside replays what subagents had done by a time.
func (h *historian) beside(until string) []event.Event {
	var evs []event.Event
	for call := h.next(until); call != ""; call = h.next(until) {
		h.side(call)
		evs = append(evs, h.t.take()...)
	}
	return evs
}

// side replays the next entry of a subagent's thread.
func (h *historian) side(call string) {
	e := h.sides[call][0]
	h.sides[call] = h.sides[call][1:]
	if at := e.time(); !at.IsZero() {
		h.t.at = at
	}
	f := e.frame
	f.ParentToolUseID = call
	switch {
	case e.Type == "assistant":
		h.t.assistant(f)
		h.called(e)
	case e.Type == "user" && e.isResult():
		f.ToolUseResult = e.StoredResult
		h.t.user(f)
	}
}

// task replays what a subagent did in the background, where its end is told.
func (h *historian) task(told string) {
	call, status := tagged(told, "tool-use-id"), tagged(told, "status")
	if !h.async[call] {
		return
	}
	h.inBackground(call)
	if k := h.t.tasks[call]; k != nil {
		h.t.release(k, taskEnd(status))
	}
}

// inBackground replays what is left of a task, with its own subagents.
func (h *historian) inBackground(call string) {
	before := h.live
	h.live = []string{call}
	for c := h.next(""); c != ""; c = h.next("") {
		h.t.hold(h.t.background(call), func() { h.side(c) })
	}
	h.live = before
}

// tagged returns what text has in an element.
func tagged(text, name string) string {
	_, rest, _ := strings.Cut(text, "<"+name+">")
	in, _, ok := strings.Cut(rest, "</"+name+">")
	if !ok {
		return ""
	}
	return strings.TrimSpace(in)
}

// finish replays what is left and ends the last turn.
func (h *historian) finish() []event.Event {
	evs := append(h.beside(""), h.t.take()...)
	h.close()
	for _, call := range slices.Sorted(maps.Keys(h.async)) { // whose end was not told
		if len(h.sides[call]) > 0 {
			h.inBackground(call)
		}
	}
	return append(append(evs, h.t.take()...), h.t.Gone()...)
}

// close ends the turn in flight as its entries say that it ended.
func (h *historian) close() {
	t := h.t
	h.live = nil
	if t.turn == nil && len(t.waiting) == 0 {
		return
	}
	tn := t.running("")
	if tn == nil {
		t.turn = nil
		return
	}
	f := frame{StopReason: tn.stop, Subtype: "success", IsError: tn.failure != ""}
	if tn.status != 0 {
		f.APIErrorStatus = &tn.status
	}
	switch {
	case tn.interrupted:
		f.TerminalReason = "aborted"
	case f.IsError:
	case tn.stop == "" || tn.stop == "tool_use":
		t.end(event.ResponseError{Error: runnel.Fail(runnel.ProcessCrash, "The agent ended before it had finished this turn.").Fault()})
		t.turn = nil
		return
	}
	t.end(outcome(f, tn, t.keyed, tn.sum()))
	t.turn = nil
}

// Translate implements [runnel.Translator]. Beside what Next gave, it yields
// what the session records on its own account: the prompts and the decisions.
func (p *Provider) Translate(lines iter.Seq2[runnel.Line, error]) iter.Seq2[event.Event, error] {
	return agentconn.Translate(newTranslator(), lines)
}

func yieldEach(evs []event.Event, yield func(event.Event, error) bool) bool {
	for _, ev := range evs {
		if !yield(ev, nil) {
			return false
		}
	}
	return true
}

// kept are the fields of an entry that name a conversation.
type kept struct {
	title, lastPrompt, cwd string
	created                time.Time
	spoken                 bool
}

func (k *kept) add(line []byte) {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			return
		}
	}
	if k.cwd == "" {
		k.cwd = e.CWD
	}
	if at := e.time(); k.created.IsZero() && !at.IsZero() {
		k.created = at
	}
	switch {
	case e.CustomTitle != "":
		k.title = e.CustomTitle
	case e.AITitle != "" && k.title == "":
		k.title = e.AITitle
	case e.LastPrompt != "":
		k.lastPrompt = e.LastPrompt
	case e.Type == "user" && !e.IsMeta && !e.isResult() && e.Message != nil:
		k.spoken = true
		if text := e.Message.Content.text(); k.lastPrompt == "" && !strings.HasPrefix(text, "<") {
			k.lastPrompt = text
		}
	}
}
