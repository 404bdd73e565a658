package runnel_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/drawlog"
	"github.com/runnel-dev/runnel/upsert"
)

// keyOf identifies a frame: an item by its id, any other frame by its position.
func keyOf(o upsert.Out) string {
	if u, ok := o.(upsert.Upsert); ok {
		return u.ItemID
	}
	return fmt.Sprintf("%T %d", o, upsert.SeqOf(o))
}

// framesByKey returns frames by their keys. It fails if one is there twice.
func framesByKey(t interface{ Fatalf(string, ...any) }, outs []upsert.Out) map[string]upsert.Out {
	m := make(map[string]upsert.Out)
	for _, o := range outs {
		if u, ok := o.(upsert.Upsert); ok {
			u.EmittedAt = time.Time{}
			o = u
		}
		if m[keyOf(o)] != nil {
			t.Fatalf("%s is there twice", keyOf(o))
		}
		m[keyOf(o)] = o
	}
	return m
}

// withCheckpoints adds a checkpoint after every step events.
func withCheckpoints(t *rapid.T, log *runnel.Memory, evs []event.Event, step int) {
	outline := new(upsert.Outline)
	for i, ev := range evs {
		outline.Add(ev)
		if (i+1)%step == 0 {
			c := runnel.Checkpoint{Seq: ev.Seq, Events: outline.Events()}
			if err := log.PutCheckpoint(t.Context(), "s", c); err != nil {
				t.Fatal(err)
			}
			outline = upsert.OutlineOf(c.Events)
		}
	}
}

// However a log is divided into pages, and wherever it has checkpoints, the
// pages together have every frame of the history exactly once, in the state
// that a fold of the whole log gives.
func TestPagesTogetherAreTheWholeHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := drawlog.Draw(t, 60)
		log := new(runnel.Memory)
		if err := log.Append(t.Context(), "s", 0, evs...); err != nil {
			t.Fatal(err)
		}
		end := rapid.Int64Range(0, int64(len(evs))).Draw(t, "end")
		withCheckpoints(t, log, evs, rapid.IntRange(1, 20).Draw(t, "step"))
		changes, err := new(upsert.Pacer).Changes(func(yield func(event.Event, error) bool) {
			for _, ev := range evs[:end] {
				if !yield(ev, nil) {
					return
				}
			}
		}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var all []upsert.Out
		for _, c := range changes {
			all = append(all, c.Out)
		}
		want := framesByKey(t, all)

		past, limit := runnel.Past{Log: log, Session: "s"}, rapid.IntRange(1, 5).Draw(t, "limit")
		pacer := new(upsert.Pacer)
		tail, err := past.Tail(t.Context(), pacer, end, limit)
		if err != nil {
			t.Fatal(err)
		}
		again, err := past.TailFrom(t.Context(), new(upsert.Pacer), tail.First, end)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(framesByKey(t, tail.Outs), framesByKey(t, again.Outs)); d != "" || again.First != tail.First {
			t.Fatalf("log of %d from %d, read again from %d (-first +again):\n%s", end, tail.First, again.First, d)
		}
		got := framesByKey(t, tail.Outs)
		page := tail
		for page.More() {
			before := page.First - 1
			if page, err = past.Before(t.Context(), before, limit); err != nil {
				t.Fatal(err)
			}
			if page.Seq != before || page.First > before {
				t.Fatalf("the page before %d is of %d to %d", before, page.First, page.Seq)
			}
			for key, o := range framesByKey(t, page.Outs) {
				if other := got[key]; other != nil && !pacer.Open(other) {
					t.Fatalf("%s is on two pages", key)
				}
				got[key] = o
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("log of %d in pages of %d (-whole +pages):\n%s", end, limit, d)
		}

		// After the newest page, a reader receives the same upserts as a reader
		// of the whole history.
		whole := new(upsert.Pacer)
		for _, ev := range evs[:end] {
			whole.Push(ev, drawlog.Epoch)
		}
		now := time.Now().Add(time.Hour) // everything that waits is due
		whole.Flush(now)
		for _, ev := range evs[end:] {
			final := func(outs []upsert.Out) (kept []upsert.Out) {
				for _, o := range outs {
					if u, ok := o.(upsert.Upsert); ok && u.Status == upsert.StatusCreate {
						u.Status = upsert.StatusUpdate
						o = u
					}
					kept = append(kept, o)
				}
				return kept
			}
			live, n := pacer.PushPaired([]event.Event{ev}, now)
			if n == 0 {
				break
			}
			if d := cmp.Diff(framesByKey(t, final(whole.Push(ev, now))), framesByKey(t, final(live))); d != "" {
				t.Fatalf("event %d after a tail at %d (-whole +tail):\n%s", ev.Seq, end, d)
			}
		}
	})
}

// A countedLog counts the events that are read from it.
type countedLog struct {
	*runnel.Memory
	read int
}

func (l *countedLog) Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for ev, err := range l.Memory.Read(ctx, session, after) {
			l.read++
			if !yield(ev, err) {
				return
			}
		}
	}
}

// longLog returns a log of n events: one turn with calls, below an item that
// stays open.
func longLog(t *testing.T, n int) *countedLog {
	t.Helper()
	log := &countedLog{Memory: new(runnel.Memory)}
	var evs []event.Event
	add := func(b event.Body) {
		evs = append(evs, event.Event{Session: "s", Turn: "t", Seq: int64(len(evs)) + 1, At: drawlog.Epoch, Body: b})
	}
	add(event.ResponseStart{ModelID: "m", ProviderID: "p"})
	add(event.ItemStart{ItemID: "t:task", ItemType: event.TypeFunctionCall, CallID: "task", Name: "Task"})
	for i := 0; len(evs) < n; i++ {
		id := fmt.Sprintf("t:%d:0", i)
		add(event.ItemStart{ItemID: id, ItemType: event.TypeMessage, ParentCallID: "task"})
		add(event.ItemDelta{ItemID: id, DeltaContent: strings.Repeat("x", 10)})
		add(event.ItemDone{ItemID: id, FinalItem: event.Message{Content: "text", Origin: event.OriginAgent}})
	}
	if err := log.Append(t.Context(), "s", 0, evs...); err != nil {
		t.Fatal(err)
	}
	return log
}

func TestPageReadsOnlyThePartThatItShows(t *testing.T) {
	log := longLog(t, 100_000)
	past := runnel.Past{Log: log, Session: "s"}
	st, err := log.State(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	end, events := st.Head, int(st.Head)
	for i, most := range []int{2 * events, 5000, 5000} { // the first reader makes the checkpoints
		log.read = 0
		page, err := past.Tail(t.Context(), new(upsert.Pacer), end, 50)
		if err != nil {
			t.Fatal(err)
		}
		if log.read > most {
			t.Errorf("reader %d read %d events for a page of %d to %d", i, log.read, page.First, page.Seq)
		}
		if n := len(page.Outs); n != 52 { // also the start of the turn and the open call
			t.Errorf("%d frames", n)
		}
		if u, ok := page.Outs[1].(upsert.Upsert); !ok || u.ItemID != "t:task" {
			t.Errorf("the open item is not there: %+v", page.Outs[:2])
		}
	}
	for end > int64(events/2) {
		log.read = 0
		page, err := past.Before(t.Context(), end, 1000)
		if err != nil || len(page.Outs) != 1000 || log.read > 12_000 {
			t.Fatalf("%d frames, %d events read, %v", len(page.Outs), log.read, err)
		}
		end = page.First - 1
	}
}

// All checkpoints of a log together are smaller than its events, even if an
// item with a long text stays open.
func TestCheckpointsAreSmallerThanTheLog(t *testing.T) {
	log := &sizedLog{Memory: new(runnel.Memory)}
	evs := []event.Event{{Session: "s", Turn: "t", Seq: 1, Body: event.ItemStart{ItemID: "t:1", ItemType: event.TypeMessage}}}
	size := 0
	for len(evs) < 60_000 {
		ev := event.Event{Session: "s", Turn: "t", Seq: int64(len(evs)) + 1, Body: event.ItemDelta{ItemID: "t:1", DeltaContent: strings.Repeat("x", 50)}}
		evs = append(evs, ev)
		size += event.Weight(ev.Body)
	}
	if err := log.Append(t.Context(), "s", 0, evs...); err != nil {
		t.Fatal(err)
	}
	c, err := runnel.CheckpointBefore(t.Context(), log, "s", int64(len(evs)))
	if err != nil || log.n < 3 || log.size > size {
		t.Errorf("%d checkpoints of %d bytes for events of %d, %v", log.n, log.size, size, err)
	}
	if left := int64(len(evs)) - c.Seq; left > 20_000 {
		t.Errorf("%d events after the last one", left)
	}
}

// A sizedLog sums up the checkpoints that are put into it.
type sizedLog struct {
	*runnel.Memory
	n, size int
}

func (l *sizedLog) PutCheckpoint(ctx context.Context, session string, c runnel.Checkpoint) error {
	l.n++
	for _, ev := range c.Events {
		l.size += event.Weight(ev.Body)
	}
	return l.Memory.PutCheckpoint(ctx, session, c)
}
