package runnel_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// appendTexts appends n messages of the given size after position head.
func appendTexts(t *testing.T, log runnel.Log, head int64, n, size int) {
	t.Helper()
	evs := make([]event.Event, n)
	for i := range evs {
		evs[i] = event.Event{Session: "s", Seq: head + int64(i) + 1, At: time.Unix(1e9, 0), Turn: "t",
			Body: event.ItemDelta{ItemID: "t:0", DeltaContent: strings.Repeat("x", max(size, 1))}}
	}
	if err := log.Append(t.Context(), "s", head, evs...); err != nil {
		t.Fatal(err)
	}
}

func TestCursorReturnsBoundedBatches(t *testing.T) {
	for name, c := range map[string]struct{ events, size, most int }{
		"by count": {2000, 1, 512},
		"by bytes": {40, 100 << 10, 6},
	} {
		t.Run(name, func(t *testing.T) {
			log := new(runnel.Memory)
			appendTexts(t, log, 0, c.events, c.size)
			cursor, seen := runnel.NewCursor(log, "s", 0), 0
			for {
				evs, err := cursor.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(evs) > c.most {
					t.Errorf("a batch has %d events, want at most %d", len(evs), c.most)
				}
				if len(evs) == 0 {
					break
				}
				for _, ev := range evs {
					if seen++; ev.Seq != int64(seen) {
						t.Fatalf("event %d follows %d", ev.Seq, seen-1)
					}
				}
			}
			if seen != c.events || cursor.Position() != int64(seen) {
				t.Errorf("read %d of %d events, position %d", seen, c.events, cursor.Position())
			}
		})
	}
}

func TestCursorReplaysThenFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(runnel.Memory)
		appendTexts(t, log, 0, 3, 1)
		cursor := runnel.NewCursor(log, "s", 1)
		evs, err := cursor.Next(t.Context())
		if err != nil || len(evs) != 2 || evs[0].Seq != 2 {
			t.Fatalf("replay: %v, %v", evs, err)
		}
		got := make(chan []event.Event)
		go func() {
			evs, _ := cursor.Next(t.Context())
			got <- evs
		}()
		synctest.Wait() // it waits for more
		appendTexts(t, log, 3, 1, 1)
		if evs := <-got; len(evs) != 1 || evs[0].Seq != 4 {
			t.Fatalf("live: %v", evs)
		}
	})
}

// growing is a log that grows once at the end of a Read. A reader that calls
// Grown after Read would miss the wake-up.
type growing struct {
	runnel.Memory
	atEnd func()
}

func (g *growing) Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for ev, err := range g.Memory.Read(ctx, session, after) {
			if !yield(ev, err) {
				return
			}
		}
		if f := g.atEnd; f != nil {
			g.atEnd = nil
			f()
		}
	}
}

func TestCursorMissesNoWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(growing)
		log.atEnd = func() { appendTexts(t, &log.Memory, 0, 1, 1) }
		evs, err := runnel.NewCursor(log, "s", 0).NextUntil(t.Context(), time.Now().Add(time.Hour))
		if err != nil || len(evs) != 1 {
			t.Fatalf("got %v, %v", evs, err)
		}
	})
}

func TestCursorEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		log := new(runnel.Memory)
		cursor := runnel.NewCursor(log, "s", 0)
		time.AfterFunc(time.Minute, func() { cancel(why) })
		if evs, err := cursor.Next(ctx); !errors.Is(err, why) || evs != nil {
			t.Fatalf("while it waits: %v, %v", evs, err)
		}
		appendTexts(t, log, 0, 3, 1)
		if evs, err := cursor.Next(ctx); !errors.Is(err, why) || evs != nil {
			t.Fatalf("with events to read: %v, %v", evs, err)
		}
		if cursor.Position() != 0 {
			t.Errorf("at %d without having returned anything", cursor.Position())
		}
	})
}

func TestCursorWakesAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(runnel.Memory)
		cursor := runnel.NewCursor(log, "s", 0)
		for range 3 { // the cursor reuses its timer
			began := time.Now()
			evs, err := cursor.NextUntil(t.Context(), began.Add(time.Second))
			if took := time.Since(began); err != nil || evs != nil || took != time.Second {
				t.Fatalf("got %v, %v after %v", evs, err, took)
			}
		}
		appendTexts(t, log, 0, 1, 1)
		if evs, err := cursor.NextUntil(t.Context(), time.Now().Add(-time.Second)); err != nil || len(evs) != 1 {
			t.Fatalf("a deadline that is over hides events: %v, %v", evs, err)
		}
	})
}

// damaged is a log whose events after a position cannot be read.
type damaged struct {
	runnel.Memory
	after int64
}

var errDamaged = errors.New("damaged")

func (d *damaged) Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for ev, err := range d.Memory.Read(ctx, session, after) {
			if ev.Seq > d.after {
				yield(event.Event{}, errDamaged)
				return
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

func TestCursorReturnsEventsBeforeAnError(t *testing.T) {
	log := &damaged{after: 2}
	appendTexts(t, log, 0, 5, 1)
	cursor := runnel.NewCursor(log, "s", 0)
	if evs, err := cursor.Next(t.Context()); err != nil || len(evs) != 2 {
		t.Fatalf("got %v, %v", evs, err)
	}
	if evs, err := cursor.Next(t.Context()); !errors.Is(err, errDamaged) || evs != nil {
		t.Fatalf("got %v, %v", evs, err)
	}
}
