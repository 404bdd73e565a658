package upsert_test

import (
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

func all(evs []event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// items returns the last upsert of each item, without the differences between
// create and update.
func items(outs []upsert.Out) map[string]upsert.Upsert {
	m := make(map[string]upsert.Upsert)
	for _, o := range outs {
		if u, ok := o.(upsert.Upsert); ok {
			u.EmittedAt = time.Time{}
			if u.Status == upsert.StatusCreate {
				u.Status = upsert.StatusUpdate
			}
			m[u.ItemID] = u
		}
	}
	return m
}

func toolOutput(id, text string) event.ItemDone {
	return event.ItemDone{ItemID: id, FinalItem: event.FunctionCallOutput{CallID: "c", Output: text}}
}

func TestHistoryInStretchesPairsLikeOneStretch(t *testing.T) {
	callStart := event.ItemStart{ItemID: "call", ItemType: event.TypeFunctionCall, CallID: "c", Name: "Bash"}
	outStart := event.ItemStart{ItemID: "out", ItemType: event.TypeFunctionCallOutput, CallID: "c"}
	for name, bodies := range map[string][]event.Body{
		"output after its call":    {callStart, called("call", "c"), outStart, toolOutput("out", "x")},
		"output before its call":   {callStart, outStart, toolOutput("out", "x"), called("call", "c")},
		"two outputs of one call":  {callStart, called("call", "c"), toolOutput("out", "x"), toolOutput("again", "y")},
		"output of cancelled call": {callStart, event.ItemCancelled{ItemID: "call", Reason: event.ReasonUserCancel}, toolOutput("out", "x")},
		"second output for cancelled one": {callStart, called("call", "c"), outStart,
			event.ItemCancelled{ItemID: "out", Reason: event.ReasonUserCancel}, toolOutput("again", "y")},
	} {
		t.Run(name, func(t *testing.T) {
			var r reader
			evs := []event.Event{r.event(event.ResponseStart{ProviderID: "p"})}
			for _, b := range bodies {
				evs = append(evs, r.event(b))
			}
			whole, err := upsert.History(all(evs), 0, epoch)
			if err != nil {
				t.Fatal(err)
			}
			var p upsert.Pacer
			var cut []upsert.Out
			for i := range evs {
				outs, err := p.History(all(evs[i:i+1]), 0, epoch)
				if err != nil {
					t.Fatal(err)
				}
				cut = append(cut, outs...)
			}
			if d := cmp.Diff(items(whole), items(cut)); d != "" {
				t.Errorf("(-whole +cut):\n%s", d)
			}
		})
	}
}

func TestHistoryInStretchesKeepsOrderOfAppearance(t *testing.T) {
	var r reader
	first := []event.Event{
		r.event(event.ItemStart{ItemID: "a", ItemType: event.TypeMessage, InitialContent: "a"}),
		r.event(event.ItemStart{ItemID: "b", ItemType: event.TypeMessage, InitialContent: "b"}),
	}
	second := []event.Event{
		r.event(event.ItemDelta{ItemID: "b", DeltaContent: "b"}),
		r.event(event.ItemDelta{ItemID: "a", DeltaContent: "a"}),
	}
	var p upsert.Pacer
	for _, evs := range [][]event.Event{first, second} {
		outs, err := p.History(all(evs), 0, epoch)
		if err != nil || len(outs) != 2 || outs[0].(upsert.Upsert).ItemID != "a" || outs[1].(upsert.Upsert).ItemID != "b" {
			t.Errorf("got %+v, %v", outs, err)
		}
	}
}
