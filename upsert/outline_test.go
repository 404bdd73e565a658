package upsert_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/drawlog"
	"github.com/runnel-dev/runnel/upsert"
)

// A fold that starts with an Outline gives the same as a fold of the whole log,
// wherever the log is cut, and so does what a reader then receives live.
func TestFoldFromOutlineEqualsWholeFold(t *testing.T) {
	paired := 0
	rapid.Check(t, func(t *rapid.T) {
		evs := drawlog.Draw(t, 60)
		end := rapid.IntRange(0, len(evs)).Draw(t, "end")
		step := rapid.IntRange(1, 10).Draw(t, "step")
		outline := new(upsert.Outline)
		for cut := 0; cut <= end; cut++ {
			if cut > 0 {
				outline.Add(evs[cut-1])
			}
			if cut%step == 0 { // as a reader that continues after a checkpoint
				outline = upsert.OutlineOf(outline.Events())
			}
			start := outline.Events()
			for _, after := range []int{cut, (cut + end) / 2, end} {
				var whole, short upsert.Pacer
				want, err1 := whole.History(all(evs[:end]), int64(after), epoch)
				short.StartWith(start)
				got, err2 := short.History(all(append(start[:len(start):len(start)], evs[cut:end]...)), int64(after), epoch)
				if errors.Is(err2, upsert.ErrUnpaired) {
					continue
				}
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				paired++
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("log of %d, outline of %d, after %d (-whole +outline):\n%s", end, cut, after, d)
				}
				now := epoch.Add(time.Hour) // everything that waits is due
				for _, ev := range evs[end:] {
					live, n := short.PushPaired([]event.Event{ev}, now)
					if n == 0 {
						break
					}
					if d := cmp.Diff(items(whole.Push(ev, now)), items(live)); d != "" {
						t.Fatalf("log of %d, outline of %d, after %d: event %d (-whole +outline):\n%s", end, cut, after, ev.Seq, d)
					}
				}
			}
		}
	})
	if paired == 0 {
		t.Error("no log was compared")
	}
}

func TestOutlineIsSmall(t *testing.T) {
	var r reader
	o := new(upsert.Outline)
	add := func(b event.Body) { o.Add(r.event(b)) }
	add(event.ResponseStart{ProviderID: "p"})
	add(event.ItemStart{ItemID: "t:0:0", ItemType: event.TypeFunctionCall, CallID: "task", Name: "Task"})
	for i := range 1000 {
		id, call := fmt.Sprintf("t:%d:0", i+1), fmt.Sprintf("c%d", i)
		add(event.ItemStart{ItemID: id, ItemType: event.TypeFunctionCall, CallID: call, Name: "Bash"})
		add(event.ItemDelta{ItemID: id, DeltaContent: "{}"})
		add(event.ItemDone{ItemID: id, FinalItem: event.FunctionCall{Name: "Bash", CallID: call, Arguments: []byte("{}")}})
		add(event.ItemDelta{ItemID: "t:0:0", DeltaContent: "1234567890"})
		add(event.ItemDone{ItemID: id + ":output", FinalItem: event.FunctionCallOutput{CallID: call, Output: strings.Repeat("x", 1000)}})
	}
	evs := o.Events()
	if len(evs) != 4 { // the start of the turn and of the task, its first delta and all others
		t.Errorf("%d events: %v", len(evs), evs)
	}
	if size := o.Size(); size < 10_000 || size > 12_000 {
		t.Errorf("size %d", size)
	}
}

// Turns that are open at once may have approvals with the same id.
func TestOutlineKeepsApprovalsOfAllTurns(t *testing.T) {
	o := new(upsert.Outline)
	seq := int64(0)
	add := func(turn string, b event.Body) {
		seq++
		o.Add(event.Event{Seq: seq, Turn: turn, At: epoch, Body: b})
	}
	asked := func() (turns string) {
		for _, ev := range o.Events() {
			if _, ok := ev.Body.(event.ApprovalRequested); ok {
				turns += ev.Turn
			}
		}
		return turns
	}
	for _, turn := range []string{"a", "b", "c"} {
		add(turn, event.ResponseStart{ProviderID: "p"})
		add(turn, event.ApprovalRequested{Approval: event.Approval{ID: "1"}})
	}
	if got := asked(); got != "abc" {
		t.Errorf("got %q", got)
	}
	add("b", event.ApprovalResolved{ApprovalID: "1"})
	add("c", event.ResponseDone{Status: event.StatusCompleted})
	if got := asked(); got != "a" {
		t.Errorf("got %q", got)
	}
}
