package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// enqueue queues a prompt behind a running turn and returns its id.
func enqueue(t *testing.T, g *Gateway, id, text string) string {
	t.Helper()
	sent, err := g.Send(t.Context(), id, Prompt{Text: text, Queue: true})
	if err != nil || !sent.Queued {
		t.Fatalf("%+v, %v", sent, err)
	}
	return sent.TurnID
}

// asked returns the prompts in a session's log, in order.
func (d *disk) asked(t *testing.T, id string) (out []string) {
	t.Helper()
	for ev, err := range d.log.Read(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := ev.Body.(event.ItemDone); ok {
			if m, ok := b.FinalItem.(event.Message); ok && m.Origin == event.OriginUser {
				out = append(out, m.Content)
			}
		}
	}
	return out
}

// wantQueue checks the queue, the status and both lists of sessions, once the
// agent emits nothing more: it could change the session between the two lists.
func wantQueue(t *testing.T, g *Gateway, id string, held bool, want ...string) {
	t.Helper()
	synctest.Wait()
	q, err := QueuesOf(g).Queue(t.Context(), id)
	if err != nil || q.SessionID != id || q.Held != held || !slices.Equal(texts(q.Prompts), want) {
		t.Errorf("the queue is %+v, %v; want %q, held: %v", q, err, want, held)
	}
	st, err := g.Status(t.Context(), id)
	if err != nil || st.Queued != len(want) || st.QueueHeld != held || !slices.Equal(texts(st.Queue), want) {
		t.Errorf("the status has %d prompts %q, held: %v, %v; want %q, held: %v", st.Queued, texts(st.Queue), st.QueueHeld, err, want, held)
	}
	sameLists(t, g, Filter{}, "a change of the queue")
	list, err := g.List(t.Context(), Filter{})
	at := slices.IndexFunc(list, func(st Status) bool { return st.SessionID == id })
	if err != nil || at < 0 || list[at].Queued != len(want) || list[at].QueueHeld != held || list[at].Queue != nil {
		t.Errorf("listed %+v, %v", list, err)
	}
}

func texts(queue []QueuedPrompt) (out []string) {
	for _, p := range queue {
		out = append(out, p.Text)
	}
	return out
}

func hold(t *testing.T, g *Gateway, id string, held bool) {
	t.Helper()
	if q, err := QueuesOf(g).Hold(t.Context(), id, held); err != nil || q.Held != held {
		t.Errorf("%+v, %v", q, err)
	}
}

func cancel(t *testing.T, g *Gateway, id string) {
	t.Helper()
	if err := g.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func TestStopHoldsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t)
		defer closeIt(t, g)
		id := d.create(t, g)
		send(t, g, id, "hang")
		enqueue(t, g, id, "text 1")
		enqueue(t, g, id, "text 2")
		wantQueue(t, g, id, false, "text 1", "text 2")
		cancel(t, g, id)
		if rec, err := d.cat.Session(t.Context(), id); err != nil || !rec.QueueHeld {
			t.Errorf("a crash after the response would continue the queue: %+v, %v", rec, err)
		}
		synctest.Wait()
		wantQueue(t, g, id, true, "text 1", "text 2")

		// A prompt that is sent now does not wait for the held ones.
		send(t, g, id, "hang on")
		enqueue(t, g, id, "text 3")
		synctest.Wait()
		wantQueue(t, g, id, true, "text 1", "text 2", "text 3")
		hold(t, g, id, false)
		synctest.Wait()
		wantQueue(t, g, id, false, "text 1", "text 2", "text 3")
		hold(t, g, id, true) // without stopping the turn
		synctest.Wait()
		if st, err := g.Status(t.Context(), id); err != nil || st.TurnID == "" {
			t.Errorf("%+v, %v", st, err)
		}
		if err := QueuesOf(g).Skip(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantQueue(t, g, id, false)
		if got, want := d.asked(t, id), []string{"hang", "hang on", "text 1", "text 2", "text 3"}; !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
		hold(t, g, id, false) // of an empty queue
		if q, err := QueuesOf(g).Hold(t.Context(), id, true); err != nil || q.Held {
			t.Errorf("an empty queue is held: %+v, %v", q, err)
		}
	})
}

func TestHeldQueueSurvivesACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t)
		id := d.create(t, g)
		send(t, g, id, "hang")
		enqueue(t, g, id, "text 1")
		enqueue(t, g, id, "text 2")
		cancel(t, g, id)
		synctest.Wait()
		dead, _ := d.copied(t, id)
		queue, _ := d.cat.Queue(t.Context(), id)
		for _, q := range queue {
			q.Input, _ = d.cat.QueuedInput(t.Context(), id, q.Turn)
			q.About = nil // as an earlier version stored it
			_ = dead.cat.Enqueue(t.Context(), q)
		}
		closeIt(t, g)

		g = dead.open(t)
		defer func() { closeIt(t, g) }()
		synctest.Wait()
		wantQueue(t, g, id, true, "text 1", "text 2")
		if g.sessions.peek(id) != nil {
			t.Error("the session is open before anybody uses it")
		}
		if p, err := QueuesOf(g).Prompt(t.Context(), id, queue[0].Turn); err != nil || p.Text != "text 1" {
			t.Errorf("%+v, %v", p, err)
		}
		hold(t, g, id, false)
		synctest.Wait()
		wantQueue(t, g, id, false)
		if got, want := dead.asked(t, id), []string{"hang", "text 1", "text 2"}; !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
	})
}

func TestQueuedPromptsAreEditedMovedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t)
		defer closeIt(t, g)
		id := d.create(t, g)
		first := send(t, g, id, "hang")
		a, b, c := enqueue(t, g, id, "text a"), enqueue(t, g, id, "text b"), enqueue(t, g, id, "text c")
		qs := QueuesOf(g)
		edit := func(turn string, ed PromptEdit, want ...string) {
			t.Helper()
			if q, err := qs.Edit(t.Context(), id, turn, ed); err != nil || !slices.Equal(texts(q.Prompts), want) {
				t.Errorf("%q, %v; want %q", texts(q.Prompts), err, want)
			}
			wantQueue(t, g, id, false, want...)
		}
		edit(c, PromptEdit{Before: &a}, "text c", "text a", "text b")
		edit(c, PromptEdit{Before: new("")}, "text a", "text b", "text c")
		edit(a, PromptEdit{Before: &c}, "text b", "text a", "text c")
		edit(a, PromptEdit{Before: &a}, "text b", "text a", "text c")
		edit(a, PromptEdit{}, "text b", "text a", "text c")
		edit(a, PromptEdit{Text: new("text A"), Before: new("")}, "text b", "text c", "text A")
		long := "text " + strings.Repeat("é", 1000)
		edit(b, PromptEdit{Text: &long}, long[:239], "text c", "text A")
		p, err := qs.Prompt(t.Context(), id, b)
		if st, _ := g.Status(t.Context(), id); err != nil || p.Text != long || p.Truncated || !st.Queue[0].Truncated {
			t.Errorf("%d bytes, %v, %+v", len(p.Text), err, st.Queue[0])
		}

		for what, ed := range map[string]PromptEdit{
			"blank": {Text: new(" \n")}, "NUL": {Text: new("a\x00b")}, "not queued": {Text: new("lost?"), Before: &first.TurnID},
		} {
			_, err := qs.Edit(t.Context(), id, a, ed)
			if wantCode(t, err, runnel.InvalidRequest); err == nil {
				t.Error(what)
			}
		}
		wantQueue(t, g, id, false, long[:239], "text c", "text A")

		if q, err := qs.Remove(t.Context(), id, c); err != nil || len(q.Prompts) != 2 {
			t.Errorf("%+v, %v", q, err)
		}
		for turn, started := range map[string]bool{c: false, "none": false, first.TurnID: true} {
			_, removed := qs.Remove(t.Context(), id, turn)
			_, edited := qs.Edit(t.Context(), id, turn, PromptEdit{Text: new("x"), Before: new("")})
			_, read := qs.Prompt(t.Context(), id, turn)
			for _, err := range []error{removed, edited, read} {
				wantCode(t, err, runnel.PromptGone)
				details, _ := json.Marshal(runnel.Safe(err).Details)
				if want := fmt.Sprintf(`{"sessionId":%q,"started":%v,"turnId":%q}`, id, started, turn); string(details) != want {
					t.Errorf("details %s, want %s", details, want)
				}
			}
		}
		cancel(t, g, id)
		for i, turn := range []string{a, b} {
			if q, err := qs.Remove(t.Context(), id, turn); err != nil || q.Held != (i == 0) {
				t.Errorf("%+v, %v", q, err)
			}
		}
		synctest.Wait()
		wantQueue(t, g, id, false) // an empty queue is not held
		send(t, g, id, "hang")
		enqueue(t, g, id, "text last")
		wantQueue(t, g, id, false, "text last")
		if err := qs.Skip(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := d.asked(t, id); got[len(got)-1] != "text last" {
			t.Errorf("asked %q", got)
		}
		_, err = qs.Queue(t.Context(), "00000000-0000-7000-8000-00000000000f")
		wantCode(t, err, runnel.SessionNotFound)
	})
}

// A client stops while the turn of a queued prompt is about to start: the queue
// was not held when that was checked, and no turn runs yet.
func TestStopWhileAQueuedPromptStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t)
		defer closeIt(t, g)
		id := d.create(t, g)
		send(t, g, id, "hang")
		next := enqueue(t, g, id, "hang on")
		enqueue(t, g, id, "text")
		starting, pass := make(chan struct{}), make(chan struct{})
		inUse, once := g.queue.inUse, sync.Once{}
		g.queue.inUse = func(ctx context.Context, e *entry) error {
			once.Do(func() { close(starting); <-pass })
			return inUse(ctx, e)
		}
		if err := QueuesOf(g).Skip(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		<-starting
		if st, err := g.Status(t.Context(), id); err != nil || st.TurnID != "" {
			t.Fatalf("%+v, %v", st, err)
		}
		cancel(t, g, id)
		close(pass)
		end := d.ends(t, Sent{SessionID: id, TurnID: next})
		if b, ok := end.Body.(event.ResponseDone); !ok || b.Status != event.StatusCancelled {
			t.Errorf("the turn ended with %+v", end.Body)
		}
		synctest.Wait()
		wantQueue(t, g, id, true, "text")
	})
}

// An edit either changes the prompt before its turn starts, or fails.
func TestEditRacesWithTheStart(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	changed := 0
	for i := range 40 {
		id := d.create(t, g)
		send(t, g, id, "hang")
		turn := enqueue(t, g, id, "text before")
		var work sync.WaitGroup
		work.Go(func() {
			if err := QueuesOf(g).Skip(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
		var edited error
		work.Go(func() {
			if i%2 == 0 {
				d.until(t, id, func(ev event.Event) bool { return event.Ends(ev.Body) })
			}
			_, edited = QueuesOf(g).Edit(t.Context(), id, turn, PromptEdit{Text: new("text after")})
		})
		work.Wait()
		d.ends(t, Sent{SessionID: id, TurnID: turn})
		want := "text before"
		if edited == nil {
			want = "text after"
			changed++
		} else {
			wantCode(t, edited, runnel.PromptGone)
		}
		if got := d.asked(t, id); len(got) != 2 || got[1] != want {
			t.Errorf("asked %q after %v", got, edited)
		}
		if err := g.Kill(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 40 edits came in time", changed)
}

func TestDenyAndStopHoldsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t)
		defer closeIt(t, g)
		id := d.create(t, g)
		for _, tt := range []struct {
			approval, choice string
			held             bool
		}{{"", "deny", false}, {"none", "deny_stop", false}, {"", "deny_stop", true}} {
			send(t, g, id, "approve")
			enqueue(t, g, id, "hang")
			synctest.Wait()
			st, err := g.Status(t.Context(), id)
			if err != nil || len(st.PendingApprovals) != 1 {
				t.Fatalf("%+v, %v", st, err)
			}
			approval := st.PendingApprovals[0].ID
			if tt.approval != "" {
				approval = tt.approval
			}
			err = g.Approvals().Decide(t.Context(), id, approval, runnel.Decision{Choice: tt.choice})
			if (err == nil) != (tt.approval == "") {
				t.Errorf("%+v: %v", tt, err)
			}
			synctest.Wait()
			if st, err = g.Status(t.Context(), id); err != nil || st.QueueHeld != tt.held {
				t.Errorf("%+v: %+v, %v", tt, st, err)
			}
			if err := g.Kill(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			id = d.create(t, g)
		}
	})
}

func TestCancelOfOneTurnLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t)
		defer closeIt(t, g)
		id := d.create(t, g)
		first := send(t, g, id, "hang")
		second := enqueue(t, g, id, "hang on")
		enqueue(t, g, id, "text")
		if err := QueuesOf(g).CancelTurn(t.Context(), id, first.TurnID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantQueue(t, g, id, false, "text")
		for _, turn := range []string{first.TurnID, "none"} {
			if err := QueuesOf(g).CancelTurn(t.Context(), id, turn); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if st, err := g.Status(t.Context(), id); err != nil || st.TurnID != second {
			t.Errorf("%+v, %v", st, err)
		}
		hold(t, g, id, true)
		if err := QueuesOf(g).CancelTurn(t.Context(), id, second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantQueue(t, g, id, true, "text")
	})
}

func TestIdleSessionWithHeldQueueIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t, func(c *Config) { c.IdleTimeout = time.Minute })
		defer closeIt(t, g)
		id := d.create(t, g)
		send(t, g, id, "hang")
		enqueue(t, g, id, "text")
		cancel(t, g, id)
		<-time.After(2 * time.Minute) // virtual time
		synctest.Wait()
		if g.sessions.peek(id) != nil {
			t.Error("the session stays open")
		}
		wantQueue(t, g, id, true, "text")
		hold(t, g, id, false)
		synctest.Wait()
		wantQueue(t, g, id, false)
	})
}

func TestSeenIsSharedBoundedAndNeverDecreases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		puts := &puttingCatalogue{Catalogue: d.cat}
		g := d.open(t, func(c *Config) { c.Catalogue = puts })
		id := d.create(t, g)
		send(t, g, id, "text")
		synctest.Wait()
		seen := func(seq, want int64) {
			t.Helper()
			if got, err := HousekeepingOf(g).Seen(t.Context(), id, seq); err != nil || got != want {
				t.Errorf("seen %d: %d, %v; want %d", seq, got, err, want)
			}
			st, err := g.Status(t.Context(), id)
			if err != nil || st.SeenSeq != want {
				t.Errorf("the status has %d, %v; want %d", st.SeenSeq, err, want)
			}
			sameLists(t, g, Filter{}, "a look at the session")
		}
		st, _ := g.Status(t.Context(), id)
		seen(0, 0)
		seen(2, 2)
		seen(1, 2)
		seen(-5, 2)
		_, version := g.Changes(-1)
		seen(1<<50, st.LastSeq)
		if ids, _ := g.Changes(version); len(ids) != 1 || ids[0] != id {
			t.Errorf("changed: %v", ids)
		}
		_, version = g.Changes(-1)
		seen(st.LastSeq, st.LastSeq)
		if ids, _ := g.Changes(version); len(ids) != 0 {
			t.Errorf("nothing was new, but changed: %v", ids)
		}
		closeIt(t, g)

		g = d.open(t, func(c *Config) { c.Catalogue = puts })
		defer func() { closeIt(t, g) }()
		seen(0, st.LastSeq) // of a session that is not open
		d.changeSeen(t, id, 1)
		before := puts.n.Load()
		if got, err := HousekeepingOf(g).Seen(t.Context(), id, 3); err != nil || got != 3 || puts.n.Load() != before+1 {
			t.Errorf("%d, %v, %d records written", got, err, puts.n.Load()-before)
		}
		if got, err := HousekeepingOf(g).Seen(t.Context(), id, 3); err != nil || got != 3 || puts.n.Load() != before+1 {
			t.Errorf("again: %d, %v, %d records written", got, err, puts.n.Load()-before)
		}
		_, err := HousekeepingOf(g).Seen(t.Context(), "00000000-0000-7000-8000-00000000000f", 1)
		wantCode(t, err, runnel.SessionNotFound)
	})
}

// puttingCatalogue counts the written records.
type puttingCatalogue struct {
	store.Catalogue
	n atomic.Int64
}

func (c *puttingCatalogue) PutSession(ctx context.Context, s store.Session) error {
	c.n.Add(1)
	return c.Catalogue.PutSession(ctx, s)
}

func (d *disk) changeSeen(t *testing.T, id string, seq int64) {
	t.Helper()
	rec, err := d.cat.Session(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	rec.SeenSeq = seq
	if err := d.cat.PutSession(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
}
