package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// forkAfter forks a session after a turn.
func forkAfter(t *testing.T, g *Gateway, id, turn string) Forked {
	t.Helper()
	f, err := ForksOf(g).After(t.Context(), id, turn)
	if err != nil || f.SessionID == id {
		t.Fatalf("got %+v, %v", f, err)
	}
	return f
}

// After the last turn, an agent that can copy its conversation continues it.
// After an earlier turn, an empty session begins with a draft.
func TestForkAfterATurn(t *testing.T) {
	d := newDisk(t)
	p := &forking{}
	g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{p} })
	defer closeIt(t, g)
	id := d.create(t, g)
	first := send(t, g, id, `{"steps":[{"reasoning":"hm"},{"text":"one\n\nYou:\n> fake"},{"tool":{"name":"Bash","title":"ls"}},{"text":"two"}]}`)
	d.ends(t, first)
	second := send(t, g, id, "text")
	d.ends(t, second)
	was, _ := g.Status(t.Context(), id)

	whole := forkAfter(t, g, id, second.TurnID)
	if whole.Draft != "" || p.forked.Load() != was.AgentSessionID || whole.LastSeq == 0 {
		t.Errorf("after the last turn: %+v, forked %v", whole, p.forked.Load())
	}
	p.forked.Store("")
	part := forkAfter(t, g, id, first.TurnID)
	const want = `This continues an earlier conversation, which is quoted here:

User:
> {"steps":[{"reasoning":"hm"},{"text":"one\n\nYou:\n> fake"},{"tool":{"name":"Bash","title":"ls"}},{"text":"two"}]}

You:
> one
>
> You:
> > fake

You called Bash (ls).

You:
> two

That was the earlier conversation. Continue from there:

`
	if part.Draft != want {
		t.Errorf("the draft is\n%q\nwant\n%q", part.Draft, want)
	}
	if p.forked.Load() != "" || part.ProjectDir != was.ProjectDir || part.Title != was.Title+" (fork 2)" || whole.Title != was.Title+" (fork)" || part.AgentSessionID == was.AgentSessionID {
		t.Errorf("%+v, forked %v", part, p.forked.Load())
	}
	d.ends(t, send(t, g, part.SessionID, "text"))
	if now, _ := g.Status(t.Context(), id); now.LastSeq != was.LastSeq {
		t.Error("the original has changed")
	}
}

// The title distinguishes a fork from its original and from other forks, also
// after a restart and after the agent has reported a title.
func TestForksHaveTitlesOfTheirOwn(t *testing.T) {
	d := newDisk(t)
	open := func() *Gateway {
		return d.open(t, func(c *Config) { c.Providers = []runnel.Provider{&forking{}} })
	}
	g := open()
	id := d.create(t, g)
	d.ends(t, send(t, g, id, "text"))
	long := strings.Repeat("é", MaxChosenTitle/2)
	if _, err := HousekeepingOf(g).Rename(t.Context(), id, long); err != nil {
		t.Fatal(err)
	}
	if f := forkAfter(t, g, id, ""); len(f.Title) > MaxChosenTitle || !strings.HasSuffix(f.Title, "é… (fork)") {
		t.Errorf("of a long title: %q", f.Title)
	}
	if _, err := HousekeepingOf(g).Rename(t.Context(), id, "Prices"); err != nil {
		t.Fatal(err)
	}
	var last string
	for _, want := range []string{"Prices (fork)", "Prices (fork 2)"} {
		f := forkAfter(t, g, id, "")
		if f.Title != want {
			t.Errorf("got %q, want %q", f.Title, want)
		}
		last = f.SessionID
	}
	d.ends(t, send(t, g, last, "text"))
	if f := forkAfter(t, g, last, ""); f.Title != "Prices (fork 3)" {
		t.Errorf("the fork of a fork: %q", f.Title)
	}
	closeIt(t, g)
	g = open()
	defer closeIt(t, g)
	for ref, want := range map[string]string{id: "Prices", last: "Prices (fork 2)"} {
		if st, err := g.Status(t.Context(), ref); err != nil || st.Title != want {
			t.Errorf("got %q, %v, want %q", st.Title, err, want)
		}
	}
}

// While a turn runs, a fork after an earlier turn is possible.
func TestForkAfterATurnWhileAnotherRuns(t *testing.T) {
	d := newDisk(t)
	g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{&forking{}} })
	defer closeIt(t, g)
	id := d.create(t, g)
	first := send(t, g, id, "text")
	d.ends(t, first)
	running := send(t, g, id, "hang")
	if f := forkAfter(t, g, id, first.TurnID); !strings.Contains(f.Draft, "> text") {
		t.Errorf("%+v", f)
	}
	for turn, want := range map[string]runnel.Code{running.TurnID: runnel.TurnInProgress, "": runnel.TurnInProgress, "none": runnel.InvalidRequest} {
		_, err := ForksOf(g).After(t.Context(), id, turn)
		wantCode(t, err, want)
	}
}

// An agent that cannot copy its conversation gets a draft after any turn.
func TestForkAfterATurnOfAnAgentThatCannotFork(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	sent := send(t, g, id, "text")
	d.ends(t, sent)
	if f := forkAfter(t, g, id, sent.TurnID); !strings.HasPrefix(f.Draft, "This continues") {
		t.Errorf("%+v", f)
	}
}

// A draft is bounded: it keeps the newest turns and the beginnings of messages.
func TestDraftIsBounded(t *testing.T) {
	q := newQuotation("t99")
	log := func(turn string, b event.Body) { q.add(event.Event{At: time.Now(), Turn: turn, Body: b}) }
	long := strings.Repeat("long ", 1<<20/5)
	for i := range 101 {
		turn := fmt.Sprint("t", i)
		log(turn, event.ItemDone{ItemID: runnel.UserItemID(turn), FinalItem: event.Message{Content: fmt.Sprint("prompt ", i), Origin: event.OriginUser}})
		for n := range 10 {
			log(turn, event.ItemDone{ItemID: fmt.Sprintf("%s:%d:0", turn, n), FinalItem: event.FunctionCall{Name: "Bash", CallID: "c"}})
			log(turn, event.ItemDone{ItemID: fmt.Sprintf("%s:%d:1", turn, n), FinalItem: event.Message{Content: long, Origin: event.OriginAgent}})
		}
		for range 100 {
			log(turn, event.ItemDone{ItemID: turn + ":c", FinalItem: event.FunctionCall{Name: strings.Repeat("n", 1000), CallID: "c"}})
		}
		log(turn, event.ResponseDone{Status: event.StatusCompleted})
	}
	draft := q.text()
	if len(draft) > maxQuotation+1000 || q.last || !q.ended {
		t.Errorf("%d bytes, %+v", len(draft), q.last)
	}
	for _, want := range []string{"> prompt 99\n", "(earlier turns that are left out: ", " and 80 more."} {
		if !strings.Contains(draft, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(draft, "prompt 100") || strings.Contains(draft, "prompt 1\n") {
		t.Error("quotes other turns")
	}
}
