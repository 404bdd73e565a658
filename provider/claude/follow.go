package claude

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"

	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Follow implements [runnel.Follower].
func (p *Provider) Follow(_ context.Context, ref runnel.Conversation) (runnel.Following, error) {
	root, err := agentconn.OpenFolder(p.projectsDir())
	if err != nil {
		return nil, notStored(err)
	}
	name, err := lookup(root, ref)
	if err != nil {
		root.Close()
		return nil, err
	}
	return &following{
		root: root, ref: ref, names: append([]string{name}, otherFiles(root, name)...), listed: time.Now(), passed: make(map[string]int64),
		tails: make(map[string]*tail), left: maxStored, seen: make(map[string]bool), calls: make(map[string]bool),
	}, nil
}

// relist is how often files of the conversation in other folders are searched.
const relist = 2 * time.Second

// A following reads the files of a conversation from where it stopped before.
// It reads each line once, and a file from the beginning again if the agent has
// removed entries from it. Removed entries stay among those that were returned.
type following struct {
	root   *os.Root
	ref    runnel.Conversation
	names  []string         // files of the main thread
	listed time.Time        // when they were searched last
	passed map[string]int64 // sizes of files that do not continue them, by file
	tails  map[string]*tail // by file, also of subagents
	left   int64            // bytes that may still be read

	h     *historian      // nil before the first Next
	seen  map[string]bool // entries of the main thread, by id
	calls map[string]bool // calls that have been replayed, of which some may have started a subagent
}

// Next implements [runnel.Following].
func (f *following) Next(ctx context.Context) ([]event.Event, error) {
	first := f.h == nil
	files := make([][]*entry, len(f.names))
	for i, name := range f.names {
		var err error
		if files[i], err = f.read(ctx, name); err != nil {
			return nil, err
		}
	}
	if first {
		f.names, files = linked(f.names, files)
	} else {
		more, err := f.continued(ctx)
		if err != nil {
			return nil, err
		}
		files = append(files, more)
	}
	sides, err := f.readSidechains(ctx)
	if err != nil {
		return nil, err
	}
	main := slices.Concat(files...)
	if first {
		main = chain(joined(files))
		c := conversation{main: main}
		f.h = newHistorian(c.session(f.ref), main, sides)
		f.h.t.session.shown = f.ref.Shown
	} else {
		f.append(main, sides)
	}
	nameByAttachment(main)
	var evs []event.Event
	last := -1 // earlier turns end at the next prompt, as in a history
	if first {
		last = slices.Index(main, lastMessage(main))
	}
	for i, e := range main {
		if f.isNew(e) {
			evs = append(evs, f.entry(e, i >= last)...)
		}
	}
	return append(evs, f.subagents()...), nil
}

// continued returns the entries of files in other folders that now continue the
// conversation: the agent begins one when it is resumed there.
func (f *following) continued(ctx context.Context) (all []*entry, err error) {
	if time.Since(f.listed) < relist {
		return nil, nil
	}
	f.listed = time.Now()
	isKnown := func(id string) bool {
		return id != "" && slices.ContainsFunc(f.names, func(name string) bool { return f.tails[name].known[id] })
	}
	for _, name := range otherFiles(f.root, f.names[0]) {
		if slices.Contains(f.names, name) {
			continue
		}
		if st, err := f.root.Lstat(name); err != nil || st.Size() == f.passed[name] {
			continue
		}
		delete(f.tails, name)
		left := f.left
		entries, err := f.read(ctx, name)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil || !slices.ContainsFunc(entries, func(e *entry) bool {
			return isKnown(e.UUID) || isKnown(e.ParentUUID) || isKnown(e.LogicalParent)
		}) {
			if t := f.tails[name]; t != nil {
				f.passed[name] = t.at
			}
			f.left = left
			continue
		}
		all = append(all, slices.DeleteFunc(entries, func(e *entry) bool { return isKnown(e.UUID) })...)
		f.names = append(f.names, name)
	}
	return all, nil
}

// append adds entries that were stored since the first Next to the historian.
func (f *following) append(main []*entry, sides map[string][]*entry) {
	f.h.note(main)
	nameModels(main)
	for call, side := range sides {
		f.h.note(side)
		f.h.sidechains[call] = append(f.h.sidechains[call], side...)
	}
}

// isNew reports whether an entry of the main thread was not replayed yet.
func (f *following) isNew(e *entry) bool {
	if e.Type == unreadable {
		return true
	}
	if e.IsSidechain || e.TeamName != "" || f.seen[e.UUID] {
		return false
	}
	f.seen[e.UUID] = true
	return true
}

// lastMessage returns the last entry of the user or the model, or nil.
func lastMessage(main []*entry) *entry {
	for _, e := range slices.Backward(main) {
		if (e.Type == "user" || e.Type == "assistant") && !e.IsMeta {
			return e
		}
	}
	return nil
}

// entry replays an entry of the main thread. If ends is set, it ends the turn
// where the agent stores that the turn has ended.
func (f *following) entry(e *entry, ends bool) []event.Event {
	evs := f.h.entry(e)
	f.noteCalls(e)
	if !ends || !marksEnd(e) {
		return evs
	}
	if at := e.time(); !at.IsZero() {
		f.h.t.out.Begin(at)
	}
	f.h.close()
	clear(f.calls)
	return append(evs, f.h.t.out.Take()...)
}

// marksEnd reports whether an entry is the last one of its turn. The agent
// stores how long a turn took, at least in a terminal, and that the user
// interrupted a turn.
func marksEnd(e *entry) bool {
	return e.Type == "system" && e.Subtype == "turn_duration" ||
		e.Type == "user" && !e.IsMeta && !e.isResult() && e.Message != nil && strings.HasPrefix(e.Message.Content.text(), interruptedByUser)
}

// noteCalls records the calls of an entry.
func (f *following) noteCalls(e *entry) {
	if e.Type != "assistant" || e.Message == nil {
		return
	}
	for _, b := range e.Message.Content {
		if b.Type == "tool_use" {
			f.calls[b.ID] = true
		}
	}
}

// subagents replays the new entries of subagents that work in the turn.
func (f *following) subagents() []event.Event {
	for again := true; again; {
		again = false
		for call, side := range f.h.sidechains {
			if len(side) == 0 || !f.calls[call] || f.h.async[call] {
				continue
			}
			for _, e := range side {
				f.noteCalls(e)
			}
			if !slices.Contains(f.h.live, call) {
				f.h.live = append(f.h.live, call)
			}
			again = true
		}
		if again {
			f.h.subagents("")
		}
	}
	return f.h.t.out.Take()
}

// Finish implements [runnel.Following].
func (f *following) Finish() []event.Event {
	if f.h == nil {
		return nil
	}
	return f.h.finish()
}

// Close implements [runnel.Following].
func (f *following) Close() { f.root.Close() }

// nameByAttachment sets the model of entries whose answer is not stored yet.
// The agent stores the model with the prompt.
func nameByAttachment(main []*entry) {
	model := ""
	for _, e := range slices.Backward(main) {
		if a := e.Attachment; a != nil && a.Type == "model" && a.Identity.ModelID != "" {
			model = a.Identity.ModelID
		}
		e.model = cmp.Or(e.model, model)
	}
}

// readSidechains returns the new entries of the subagents' threads, by call.
func (f *following) readSidechains(ctx context.Context) (map[string][]*entry, error) {
	sides := make(map[string][]*entry)
	for _, name := range f.names {
		below := path.Join(strings.TrimSuffix(name, ".jsonl"), "subagents")
		for _, meta := range agentconn.ReadFolder(f.root, below) {
			base, isMeta := strings.CutSuffix(meta, ".meta.json")
			if !isMeta || !strings.HasPrefix(base, "agent-") {
				continue
			}
			file := path.Join(below, base+".jsonl")
			if t := f.tails[file]; t == nil || t.call == "" {
				data, err := readSmall(f.root, path.Join(below, meta))
				if err != nil {
					continue
				}
				call := translate.DecodeLenient[struct{ ToolUseID string }](data).ToolUseID
				if call == "" {
					continue
				}
				f.tails[file] = &tail{call: call}
			}
			side, err := f.read(ctx, file)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err == nil && len(side) > 0 {
				sides[f.tails[file].call] = append(sides[f.tails[file].call], side...)
			}
		}
	}
	return sides, nil
}

// A tail is how far a file was read.
type tail struct {
	at    int64           // bytes
	lines int             // lines
	inode uint64          // of the file
	head  []byte          // the first line of the file, at most compared bytes
	end   []byte          // what is before at, at most compared bytes
	known map[string]bool // ids of the entries that were read
	call  string          // that started the subagent; "" in the main thread
}

// compared is how many bytes at the beginning, and before the position, tell
// whether a file is still the one that was read.
const compared = 1 << 10

var errRewritten = errors.New("claude: the conversation's file was written anew")

// read returns the entries in the complete lines that a file has gained.
func (f *following) read(ctx context.Context, name string) ([]*entry, error) {
	t := f.tails[name]
	if t == nil {
		t = new(tail)
		f.tails[name] = t
	}
	st, err := f.root.Lstat(name)
	if err == nil && st.Size() == t.at && t.inode == agentconn.Inode(st) {
		return nil, nil
	}
	file, st, err := openPlain(f.root, name)
	if err != nil {
		return nil, notStored(err)
	}
	defer file.Close()
	again := t.inode != 0 && (t.inode != agentconn.Inode(st) || !hasAt(file, t.end, t.at-int64(len(t.end))))
	if again {
		if !hasAt(file, t.head[:min(int64(len(t.head)), st.Size())], 0) {
			return nil, errRewritten
		}
		t.at, t.lines = 0, 0
	}
	t.inode = agentconn.Inode(st)
	end, err := lastLine(file, t.at, st.Size())
	if err != nil || end == t.at {
		return nil, err
	}
	if end-t.at > f.left {
		return nil, tooLarge()
	}
	counted := &lineCounter{r: io.NewSectionReader(file, t.at, end-t.at)}
	entries, took, err := readEntries(ctx, counted, f.left, f.ref.Pictures)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		e.line += t.lines
		e.place = e.line
	}
	f.left -= max(end-t.at, took)
	t.at, t.lines = end, t.lines+counted.lines
	if err := t.remember(file); err != nil {
		return nil, err
	}
	return t.unknown(entries, again), nil
}

// remember stores the bytes that tell whether the file is the same later.
func (t *tail) remember(file io.ReaderAt) error {
	n := min(t.at, compared)
	t.head, t.end = make([]byte, n), make([]byte, n)
	_, err := file.ReadAt(t.head, 0)
	if err == nil {
		_, err = file.ReadAt(t.end, t.at-n)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return notStored(err)
	}
	if i := bytes.IndexByte(t.head, '\n'); i >= 0 {
		t.head = t.head[:i+1]
	}
	return nil
}

// unknown adds entries to those that were read. If again is set, it returns
// only those that were not read before.
func (t *tail) unknown(entries []*entry, again bool) (out []*entry) {
	if t.known == nil {
		t.known = make(map[string]bool)
	}
	for _, e := range entries {
		if again && (e.Type == unreadable || e.UUID != "" && t.known[e.UUID]) {
			continue
		}
		t.known[e.UUID] = true
		out = append(out, e)
	}
	return out
}

// hasAt reports whether a file has these bytes at a position.
func hasAt(file io.ReaderAt, want []byte, at int64) bool {
	got := make([]byte, len(want))
	n, err := file.ReadAt(got, at)
	return n == len(want) && (err == nil || errors.Is(err, io.EOF)) && bytes.Equal(got, want)
}

// lastLine returns the end of the last complete line between two positions of a
// file, or from if there is none.
func lastLine(r io.ReaderAt, from, to int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for to > from {
		n := min(int64(len(buf)), to-from)
		got, err := r.ReadAt(buf[:n], to-n)
		if err != nil && !errors.Is(err, io.EOF) {
			return from, notStored(err)
		}
		if i := bytes.LastIndexByte(buf[:got], '\n'); i >= 0 {
			return to - n + int64(i) + 1, nil
		}
		to -= n
	}
	return from, nil
}

// A lineCounter counts the lines that are read through it.
type lineCounter struct {
	r     io.Reader
	lines int
}

func (c *lineCounter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.lines += bytes.Count(p[:n], []byte("\n"))
	return n, err
}
