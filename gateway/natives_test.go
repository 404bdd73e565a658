package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
)

// filing is a provider whose agent stores conversations in files. A file has
// one turn for each of its texts.
type filing struct {
	runnel.Provider
	mu    sync.Mutex
	files map[string]*filed
	reads map[string]int
	lost  error // of StoredFiles
}

type filed struct {
	dir   string
	size  int64
	texts []string
	at    time.Time
}

func newFiling() *filing {
	return &filing{Provider: script.New(), files: make(map[string]*filed), reads: make(map[string]int)}
}

func (*filing) Name() string { return "script" }
func (*filing) ReadsFiles()  {}

// put stores a conversation.
func (p *filing) put(id, dir string, texts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Date(2026, 1, 2, 3, len(p.files), 0, 0, time.UTC)
	if f := p.files[id]; f != nil {
		at = f.at.Add(time.Second)
	}
	p.files[id] = &filed{dir: dir, size: int64(len(texts)), texts: texts, at: at}
}

func (p *filing) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *filing) StoredFiles(context.Context) iter.Seq2[runnel.StoredFile, error] {
	p.mu.Lock()
	defer p.mu.Unlock()
	files, lost := maps.Clone(p.files), p.lost
	return func(yield func(runnel.StoredFile, error) bool) {
		if lost != nil {
			yield(runnel.StoredFile{}, lost)
			return
		}
		for id, f := range files {
			if !yield(runnel.StoredFile{Path: "/agent/" + id, Size: f.size, ModTime: f.at}, nil) {
				return
			}
		}
	}
}

func (p *filing) Summarize(_ context.Context, f runnel.StoredFile) (runnel.Conversation, error) {
	return p.Find(context.Background(), strings.TrimPrefix(f.Path, "/agent/"))
}

func (p *filing) Find(_ context.Context, id string) (runnel.Conversation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.files[id]
	if f == nil {
		return runnel.Conversation{}, runnel.Fail(runnel.SessionNotFound, "no such conversation")
	}
	return runnel.Conversation{AgentSessionID: id, Dir: f.dir, Title: "title of " + id, File: "/agent/" + id, Size: f.size, UpdatedAt: f.at}, nil
}

func (p *filing) History(_ context.Context, c runnel.Conversation) iter.Seq2[event.Event, error] {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.files[c.AgentSessionID]
	p.reads[c.AgentSessionID]++
	return func(yield func(event.Event, error) bool) {
		for i, text := range f.texts {
			turn := fmt.Sprint(c.AgentSessionID, "-", i)
			for _, b := range []event.Body{
				event.ItemStart{ItemID: runnel.UserItemID(turn), ItemType: event.TypeMessage},
				event.ItemDone{ItemID: runnel.UserItemID(turn), FinalItem: event.Message{Content: text, Origin: event.OriginUser}},
				event.ResponseStart{ModelID: "m", ProviderID: "script"},
				event.ItemStart{ItemID: turn + ":1:0", ItemType: event.TypeFunctionCall},
				event.ItemDone{ItemID: turn + ":1:0", FinalItem: event.FunctionCall{CallID: "c", Name: "Bash", Arguments: []byte(`{"command":"call of ` + text + `"}`)}},
				event.ItemStart{ItemID: turn + ":1:0:output", ItemType: event.TypeFunctionCallOutput},
				event.ItemDone{ItemID: turn + ":1:0:output", FinalItem: event.FunctionCallOutput{CallID: "c", Output: "output of " + text}},
				event.ResponseDone{Status: event.StatusCompleted},
			} {
				if !yield(event.Event{At: f.at.Add(time.Duration(i) * time.Second), Turn: turn, Body: b}, nil) {
					return
				}
			}
		}
	}
}

// openNatives opens a gateway that indexes the conversations of p.
func openNatives(t *testing.T, d *disk, x *searched, p *filing) *Gateway {
	t.Helper()
	return d.open(t, x.use, func(c *Config) {
		c.Conversations, c.Providers = true, []runnel.Provider{p}
		c.Filter = func(runnel.Options) runnel.Filter { return censor{"hunter2"} }
	})
}

// censor is a Filter that hides one secret.
type censor struct{ secret string }

func (h censor) Text(s string) string { return strings.ReplaceAll(s, h.secret, "[hidden]") }
func (h censor) End() []event.Event   { return nil }
func (h censor) Event(ev event.Event) []event.Event {
	if done, ok := ev.Body.(event.ItemDone); ok {
		if m, ok := done.FinalItem.(event.Message); ok {
			m.Content = h.Text(m.Content)
			done.FinalItem = m
			ev.Body = done
		}
	}
	return []event.Event{ev}
}

var promptKind = []store.SearchKind{store.SearchPrompt}

func TestSearchFindsConversationsThatNobodyOpened(t *testing.T) {
	testload.TakesLong(t)
	d, x, p := newDisk(t), searchIn(t, t.TempDir()), newFiling()
	p.put("one", d.dir, "zebra one hunter2", "zebra two")
	p.put("two", "/other", "zebra three")
	g := openNatives(t, d, x, p)
	defer func() { closeIt(t, g) }()
	prompts := SearchQuery{Text: "zebra", Kinds: promptKind}
	hits := x.finds(t, g, t.Context(), prompts, "prompt: zebra three", "prompt: zebra two", "prompt: zebra one [hidden]")
	if h := hits[2]; h.SessionID != "" || h.AgentID != "one" || h.CLIType != "script" || h.Title != "title of one" || h.ProjectDir != d.dir || h.ItemID != runnel.UserItemID("one-0") || h.TurnID != "one-0" || h.Seq != 0 {
		t.Errorf("hit %+v", h)
	}
	x.finds(t, g, t.Context(), SearchQuery{Text: `"call of zebra three"`}, "command: Bash call of zebra three")
	x.finds(t, g, t.Context(), SearchQuery{Text: `"output of zebra three"`}, "command: output of zebra three")
	x.finds(t, g, WithProject(t.Context(), "/other"), prompts, "prompt: zebra three")
	x.finds(t, g, t.Context(), SearchQuery{Text: "hunter2", Kinds: promptKind})

	// Only a changed conversation is read again.
	p.put("two", "/other", "zebra three", "zebra four")
	x.finds(t, g, WithProject(t.Context(), "/other"), prompts, "prompt: zebra four", "prompt: zebra three")
	p.change(func() {
		if p.reads["one"] != 1 || p.reads["two"] != 2 {
			t.Errorf("reads %v", p.reads)
		}
	})

	// A conversation that becomes a session is found once, at the same item.
	st, err := g.Load(t.Context(), "script:one", "")
	if err != nil {
		t.Fatal(err)
	}
	one := WithProject(t.Context(), d.dir)
	imported := x.finds(t, g, one, prompts, "prompt: zebra two", "prompt: zebra one [hidden]")
	for i, h := range imported {
		if h.SessionID != st.SessionID || h.ItemID != hits[i+1].ItemID || h.Seq == 0 {
			t.Errorf("hit %+v", h)
		}
	}

	// A restarted server reads nothing again.
	closeIt(t, g)
	p.change(func() { clear(p.reads) })
	g = openNatives(t, d, x, p)
	for g.natives.behind.Load() {
		<-time.After(time.Millisecond)
	}
	p.change(func() {
		if len(p.reads) > 0 {
			t.Errorf("a restarted server read %v", p.reads)
		}
	})
	x.finds(t, g, t.Context(), prompts, "prompt: zebra four", "prompt: zebra three", "prompt: zebra two", "prompt: zebra one [hidden]")
}

// native returns the names of conversations in the index that are no sessions.
func (x *searched) natives(t *testing.T) string {
	t.Helper()
	at, err := x.Indexed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(slices.DeleteFunc(slices.Sorted(maps.Keys(at)), func(id string) bool { return !isNative(id) }), " ")
}

func TestConversationsThatDisappearLeaveTheSearchIndex(t *testing.T) {
	testload.TakesLong(t)
	d, x, p := newDisk(t), searchIn(t, t.TempDir()), newFiling()
	p.put("one", d.dir, "zebra one")
	p.put("two", d.dir, "zebra two")
	p.put("huge", d.dir, "zebra huge")
	p.files["huge"].size = maxNative + 1
	g := openNatives(t, d, x, p)
	defer func() { closeIt(t, g) }()
	prompts := SearchQuery{Text: "zebra", Kinds: promptKind}
	x.finds(t, g, t.Context(), prompts, "prompt: zebra two", "prompt: zebra one")
	p.change(func() { delete(p.files, "one") })
	x.finds(t, g, t.Context(), prompts, "prompt: zebra two")
	for x.natives(t) != "script:huge script:two" {
		<-x.changes
	}

	// A folder that cannot be listed says nothing about its conversations.
	closeIt(t, g)
	p.change(func() { p.lost = runnel.Fail(runnel.AgentError, "the folder cannot be read") })
	g = openNatives(t, d, x, p)
	for g.natives.behind.Load() {
		<-time.After(time.Millisecond)
	}
	if got := x.natives(t); got != "script:huge script:two" {
		t.Errorf("the index has %q", got)
	}

	// Without the list of conversations, the index has none.
	closeIt(t, g)
	g = d.open(t, x.use)
	for x.natives(t) != "" {
		<-x.changes
	}
}

// The index has a conversation under its own name until it becomes a session. The
// deletion of that session also removes these texts, and soon.
func TestDeletedSessionsLeaveTheSearchIndexUnderEachName(t *testing.T) {
	d, x, p := newDisk(t), searchIn(t, t.TempDir()), newFiling()
	p.put("one", d.dir, "zebra one")
	p.put("two", d.dir, "zebra two")
	p.put("gone", d.dir, "zebra gone")
	g := openNatives(t, d, x, p)
	defer func() { closeIt(t, g) }()
	prompts := SearchQuery{Text: "zebra", Kinds: promptKind}
	x.finds(t, g, t.Context(), prompts, "prompt: zebra gone", "prompt: zebra two", "prompt: zebra one")
	p.change(func() { delete(p.files, "gone") }) // the next one that disappears is removed an hour later
	x.finds(t, g, t.Context(), prompts, "prompt: zebra two", "prompt: zebra one")
	for x.natives(t) != "script:one script:two" {
		<-x.changes
	}
	st, err := g.Load(t.Context(), "script:one", "")
	if err != nil {
		t.Fatal(err)
	}
	x.finds(t, g, t.Context(), prompts, "prompt: zebra two", "prompt: zebra one")
	if _, err := HousekeepingOf(g).Delete(t.Context(), st.SessionID); err != nil {
		t.Fatal(err)
	}
	for late := time.After(testload.Room(20 * time.Second)); x.natives(t) != "script:two"; {
		select {
		case <-x.changes:
		case <-late:
			t.Fatalf("the index still has %q", x.natives(t))
		}
	}
	x.finds(t, g, t.Context(), prompts, "prompt: zebra two")
}

// The disk may be full, or the server killed, while a conversation is added:
// every item is found once later.
func TestConversationsAreIndexedCompletelyAfterAnError(t *testing.T) {
	d, x, p := newDisk(t), searchIn(t, t.TempDir()), newFiling()
	var texts, want []string
	for i := range indexItems {
		texts = append(texts, fmt.Sprint("zebra ", i))
		want = append([]string{fmt.Sprint("prompt: zebra ", i)}, want...)
	}
	p.put("one", d.dir, texts...)
	calls, failed := 0, make(chan struct{})
	x.fail = func() error {
		if calls++; calls == 2 { // the first transaction has a part
			close(failed)
			return errors.New("the disk is full")
		}
		return nil
	}
	g := openNatives(t, d, x, p)
	defer func() { closeIt(t, g) }()
	<-failed
	closeIt(t, g)
	at, err := x.Indexed(t.Context())
	if err != nil || at["script:one"].State != partlyIndexed {
		t.Errorf("after the error: %+v, %v", at, err)
	}
	g = openNatives(t, d, x, p)
	x.finds(t, g, t.Context(), SearchQuery{Text: "zebra", Kinds: promptKind}, want...)
	if p.reads["one"] != 2 {
		t.Errorf("%d reads", p.reads["one"])
	}
}
