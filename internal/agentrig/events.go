package agentrig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Dump formats events, one per line.
func Dump(evs []event.Event) string {
	var b strings.Builder
	for _, ev := range evs {
		body, err := event.MarshalBody(ev.Body)
		fmt.Fprintf(&b, "%.8s %s %v\n", ev.Turn, body, err)
	}
	return b.String()
}

// Last returns the body of the last event.
func Last(evs []event.Event) event.Body { return evs[len(evs)-1].Body }

// Bodies returns the event bodies of type T.
func Bodies[T event.Body](evs []event.Event) (found []T) {
	for _, ev := range evs {
		if b, ok := ev.Body.(T); ok {
			found = append(found, b)
		}
	}
	return found
}

// Items returns the items that the events fold to.
func Items(evs []event.Event) []event.Item {
	var tr event.Transcript
	for _, ev := range evs {
		tr.Apply(ev)
	}
	return tr.Items()
}

// Sound fails the test if a translator's events break the rules of a turn:
// items start once and end once, before their turn ends. The last turn may
// still be running.
func Sound(t testing.TB, evs []event.Event) {
	t.Helper()
	open, ended := map[string]bool{}, map[string]bool{}
	for i, ev := range evs {
		if err := ev.Validate(); err != nil {
			t.Errorf("event %d: %v", i, err)
		}
		if ev.Turn != "" && ended[ev.Turn] {
			t.Errorf("event %d: %s after the end of its turn", i, event.Type(ev.Body))
		}
		end := func(id string) {
			if !open[id] {
				t.Errorf("event %d: %s ends but is not open", i, id)
			}
			open[id] = false
		}
		switch b := ev.Body.(type) {
		case event.ItemStart:
			if _, seen := open[b.ItemID]; seen {
				t.Errorf("event %d: %s starts twice", i, b.ItemID)
			}
			if !strings.HasPrefix(b.ItemID, ev.Turn+":") {
				t.Errorf("event %d: %s is not of its turn", i, b.ItemID)
			}
			open[b.ItemID] = true
		case event.ItemDelta:
			if !open[b.ItemID] {
				t.Errorf("event %d: delta for %s, which is not open", i, b.ItemID)
			}
		case event.ItemDone:
			end(b.ItemID)
		case event.ItemCancelled:
			end(b.ItemID)
		case event.ResponseDone, event.ResponseError:
			ended[ev.Turn] = true
			for id, is := range open {
				if is && strings.HasPrefix(id, ev.Turn) {
					t.Errorf("event %d: the turn ends and %s is open", i, id)
				}
			}
		}
	}
}

// Ruled returns the events after the engine has applied the rules of a turn.
func Ruled(t testing.TB, provider string, evs []event.Event) (ruled []event.Event) {
	t.Helper()
	for ev, err := range runnel.Replay("s", provider, func(yield func(event.Event, error) bool) {
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
		ruled = append(ruled, ev)
	}
	return ruled
}

// Closed fails the test unless every turn in the result of [Ruled] ends exactly
// once, with its last event, and every item ends.
func Closed(t testing.TB, ruled []event.Event) {
	t.Helper()
	ended, open := map[string]int{}, map[string]bool{}
	for i, ev := range ruled {
		if err := ev.Validate(); err != nil {
			t.Errorf("event %d: %v", i, err)
		}
		switch b := ev.Body.(type) {
		case event.ItemStart:
			open[b.ItemID] = true
		case event.ItemDone:
			delete(open, b.ItemID)
		case event.ItemCancelled:
			delete(open, b.ItemID)
		case event.ItemError:
			delete(open, b.ItemID)
		}
		if ev.Turn == "" {
			continue
		}
		if ended[ev.Turn] > 0 {
			t.Errorf("event %d: %s after the end of its turn", i, event.Type(ev.Body))
		}
		if ended[ev.Turn] += 0; event.Ends(ev.Body) {
			ended[ev.Turn]++
		}
	}
	for turn, n := range ended {
		if n != 1 {
			t.Errorf("turn %s ends %d times", turn, n)
		}
	}
	if len(open) > 0 {
		t.Errorf("still open: %v", open)
	}
}
