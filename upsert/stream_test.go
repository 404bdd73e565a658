package upsert_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
	"pgregory.net/rapid"
)

// events draws the events of a session with successive turns. The items of a
// turn interleave, repeat, end in any way, or never end. There are only a few
// ids, so that calls and outputs collide.
func events(t *rapid.T) []event.Event {
	var evs []event.Event
	add := func(turn string, b event.Body) {
		n := int64(len(evs) + 1)
		evs = append(evs, event.Event{Session: "s", Seq: n, At: epoch.Add(time.Duration(n) * time.Millisecond), Turn: turn, Body: b})
	}
	for n := range rapid.IntRange(1, 3).Draw(t, "turns") {
		turn := fmt.Sprint("t", n)
		add(turn, event.ResponseStart{ProviderID: "p" + turn})
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			add(turn, step(t, turn))
		}
		if rapid.IntRange(0, 5).Draw(t, "ends") > 0 {
			add(turn, rapid.SampledFrom([]event.Body{
				finished, cancelled, event.ResponseError{Error: fault}, event.ResponseDone{Status: event.StatusError, FinishReason: "why"},
			}).Draw(t, "end"))
		}
	}
	return evs
}

var itemTypes = []event.ItemType{event.TypeMessage, event.TypeReasoning, event.TypeFunctionCall, event.TypeFunctionCallOutput, event.TypePlan}

// step draws one event of a turn. The id of an item contains its type. In one
// of ten draws the event has a random type instead, as from an agent that
// contradicts itself.
func step(t *rapid.T, turn string) event.Body {
	typ := rapid.SampledFrom(itemTypes).Draw(t, "type")
	id := fmt.Sprintf("%s:%s%d", turn, typ, rapid.IntRange(0, 2).Draw(t, "item"))
	if rapid.IntRange(0, 9).Draw(t, "liar") == 0 {
		typ = rapid.SampledFrom(itemTypes).Draw(t, "lie")
	}
	callID := fmt.Sprint("c", rapid.IntRange(0, 2).Draw(t, "call"))
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1:
		s := event.ItemStart{ItemID: id, ItemType: typ, InitialContent: rapid.SampledFrom([]string{"", "", "init "}).Draw(t, "initial")}
		if typ == event.TypeFunctionCall || typ == event.TypeFunctionCallOutput {
			s.CallID, s.Name = callID, "tool"
		}
		return s
	case 2, 3, 4:
		return delta(id, rapid.SampledFrom([]string{"", "a", "word ", "é", strings.Repeat("long ", 30), strings.Repeat("x", 80)}).Draw(t, "delta"))
	case 5, 6:
		return event.ItemDone{ItemID: id, FinalItem: final(typ, callID)}
	case 7:
		return rapid.SampledFrom([]event.Body{
			event.ItemError{ItemID: id, Error: fault}, event.ItemCancelled{ItemID: id, Reason: event.ReasonUserCancel},
			event.ItemCancelled{ItemID: id}, event.ItemCancelled{ItemID: id, Reason: event.ReasonProcessDeath},
		}).Draw(t, "bad end")
	case 8:
		return rapid.SampledFrom([]event.Body{question, event.ApprovalResolved{ApprovalID: "a1", Choice: "yes", By: event.ByUser}}).Draw(t, "approval")
	}
	return rapid.SampledFrom([]event.Body{event.Notice{Code: "N"}, event.UsageUpdated{ContextTokens: 3}, event.SessionUpdated{Title: "x"}}).Draw(t, "aside")
}

func final(typ event.ItemType, callID string) event.FinalItem {
	switch typ {
	case event.TypeReasoning:
		return event.Reasoning{Content: "thought"}
	case event.TypeFunctionCall:
		return event.FunctionCall{Name: "tool", CallID: callID, Arguments: json.RawMessage(`{"a":"b"}`), Kind: event.KindEdit}
	case event.TypeFunctionCallOutput:
		return event.FunctionCallOutput{CallID: callID, Output: "result", IsError: callID == "c0"}
	case event.TypePlan:
		return event.Plan{Entries: []event.PlanEntry{{Content: "step"}}}
	}
	return event.Message{Content: "whole", Origin: event.OriginAgent}
}

func seq(evs []event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// A screen is the state of a reader that keeps the newest upsert of each item.
type screen struct {
	order []string
	items map[string]upsert.Upsert
	rest  []upsert.Out // all frames except upserts
	max   int64        // newest position seen
}

func (s *screen) show(outs []upsert.Out) {
	if s.items == nil {
		s.items = make(map[string]upsert.Upsert)
	}
	for _, o := range outs {
		switch o := o.(type) {
		case upsert.Upsert:
			if _, ok := s.items[o.ItemID]; !ok {
				s.order = append(s.order, o.ItemID)
			}
			s.items[o.ItemID], s.max = o, max(s.max, o.Seq)
		case upsert.Append:
			appendTo(s.items, o)
			s.max = max(s.max, o.Seq)
		case upsert.TurnEvent:
			s.rest, s.max = append(s.rest, o), max(s.max, o.Seq)
		case upsert.Approval:
			s.rest, s.max = append(s.rest, o), max(s.max, o.Seq)
		case upsert.Notice:
			s.rest, s.max = append(s.rest, o), max(s.max, o.Seq)
		case upsert.Usage:
			s.rest, s.max = append(s.rest, o), max(s.max, o.Seq)
		}
	}
}

func text(u upsert.Upsert) string {
	switch {
	case u.Message != nil:
		return u.Message.Content
	case u.Thinking != nil:
		return u.Thinking.Content
	case u.ToolCall != nil && u.ToolCall.ToolOutput != nil:
		return u.ToolCall.ToolArgumentsText + *u.ToolCall.ToolOutput
	case u.ToolCall != nil:
		return u.ToolCall.ToolArgumentsText
	}
	return ""
}

// same compares two screens. It ignores EmittedAt, and the end of the text of
// cancelled items, which live readers may lack.
func same(t *rapid.T, evs []event.Event, live, want screen, statuses bool) {
	t.Helper()
	gone := cancelledIn(evs)
	opts := cmp.Options{cmpopts.IgnoreFields(upsert.Upsert{}, "EmittedAt"), cmpopts.EquateEmpty()}
	if !statuses {
		opts = append(opts, cmp.Comparer(func(a, b upsert.Status) bool {
			more := func(s upsert.Status) bool { return s == upsert.StatusCreate || s == upsert.StatusUpdate }
			return a == b || more(a) && more(b)
		}))
	}
	if diff := cmp.Diff(want.rest, live.rest, opts); diff != "" {
		t.Fatalf("beside the items (-want +live):\n%s", diff)
	}
	for id, w := range want.items {
		l, ok := live.items[id]
		cancelled := gone[id] || gone[w.TurnID]
		if ok && cancelled && l.Seq < w.Seq && w.Status != upsert.StatusComplete && w.Status != upsert.StatusError {
			if w.ToolCall == nil && !strings.HasPrefix(text(w), text(l)) {
				t.Fatalf("item %s is %q, want a beginning of %q", id, text(l), text(w))
			}
			continue // text was held back when it was cancelled
		}
		if diff := cmp.Diff(w, l, opts); diff != "" {
			t.Fatalf("item %s (-want +live):\n%s", id, diff)
		}
	}
	if len(live.items) > len(want.items) {
		t.Fatalf("live has %d items, want %d", len(live.items), len(want.items))
	}
}

// cancelledIn returns the ids of the cancelled items and turns.
func cancelledIn(evs []event.Event) map[string]bool {
	gone := make(map[string]bool)
	for _, ev := range evs {
		switch b := ev.Body.(type) {
		case event.ItemCancelled:
			gone[b.ItemID] = true
		case event.ResponseDone:
			gone[ev.Turn] = gone[ev.Turn] || b.Status == event.StatusCancelled
		}
	}
	return gone
}

// After the last event, a reader that received the frames live has the same
// items as a reader of the history.
func TestLiveIsHistory(t *testing.T) { rapid.Check(t, liveIsHistory) }

func FuzzLiveIsHistory(f *testing.F) { f.Fuzz(rapid.MakeFuzz(liveIsHistory)) }

func liveIsHistory(t *rapid.T) {
	evs := events(t)
	var p upsert.Pacer
	var live, want screen
	now := epoch
	for _, ev := range evs {
		now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(t, "ms")) * time.Millisecond)
		live.show(p.Push(ev, now))
		if at, ok := p.Due(); ok && !at.After(now) {
			t.Fatalf("due at %v, and it is %v", at, now)
		}
	}
	live.show(p.Flush(now.Add(time.Hour)))
	if _, ok := p.Due(); ok {
		t.Fatal("something is due after everything was flushed")
	}
	outs, err := upsert.History(seq(evs), 0, now)
	if err != nil {
		t.Fatal(err)
	}
	want.show(outs)
	if len(want.items) != len(outs)-len(want.rest) {
		t.Fatal("an item is in the history twice")
	}
	same(t, evs, live, want, true)
	if diff := cmp.Diff(want.order, live.order); diff != "" {
		t.Fatalf("order of appearance (-history +live):\n%s", diff)
	}
}

// A reader that receives several events at once gets no more upserts than a
// reader that receives them one by one, and finally has the same items.
func TestBusyReaderIsHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := events(t)
		var one, lumps upsert.Pacer
		var live, want screen
		single, batched := 0, 0
		for rest := evs; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "lump")
			for _, ev := range rest[:n] {
				single += len(one.Push(ev, epoch))
			}
			outs := lumps.PushAll(rest[:n], epoch)
			batched += len(outs)
			live.show(outs)
			rest = rest[n:]
		}
		live.show(lumps.Flush(epoch.Add(time.Hour)))
		outs, err := upsert.History(seq(evs), 0, epoch)
		if err != nil {
			t.Fatal(err)
		}
		want.show(outs)
		same(t, evs, live, want, false)
		if batched > single {
			t.Fatalf("%d in lumps, %d one by one", batched, single)
		}
	})
}

// A reader that disconnects at any frame, even between two frames of one event,
// and resumes from its newest position misses nothing.
func TestResumeMissesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := events(t)
		var p upsert.Pacer
		var outs []upsert.Out
		now := epoch
		for _, ev := range evs[:rapid.IntRange(0, len(evs)).Draw(t, "seen")] {
			now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(t, "ms")) * time.Millisecond)
			outs = append(outs, p.Push(ev, now)...)
		}
		var live, want screen
		live.show(outs[:rapid.IntRange(0, len(outs)).Draw(t, "received")])

		resumed := new(upsert.Pacer)
		head := max(int(live.max), rapid.IntRange(0, len(evs)).Draw(t, "head"))
		missed, err := resumed.History(seq(evs[:head]), live.max, now)
		if err != nil {
			t.Fatal(err)
		}
		live.show(missed)
		for _, ev := range evs[head:] {
			live.show(resumed.Push(ev, now))
		}
		live.show(resumed.Flush(now.Add(time.Hour)))

		all, err := upsert.History(seq(evs), 0, now)
		if err != nil {
			t.Fatal(err)
		}
		want.show(all)
		same(t, evs, live, want, false)
	})
}

// After the last event, a live reader has the items that event.Transcript has.
func TestFinalStateIsTheTranscript(t *testing.T) { rapid.Check(t, finalState) }

func FuzzFinalState(f *testing.F) { f.Fuzz(rapid.MakeFuzz(finalState)) }

func finalState(t *rapid.T) {
	evs := events(t)
	var tr event.Transcript
	var p upsert.Pacer
	var live screen
	for _, ev := range evs {
		tr.Apply(ev)
		live.show(p.Push(ev, epoch))
	}
	live.show(p.Flush(epoch.Add(time.Hour)))
	for _, it := range tr.Items() {
		u, ok := live.items[it.ID]
		switch it.Type {
		case event.TypeFunctionCallOutput:
			continue // rendered with its call
		case event.TypeFunctionCall:
			if f, done := it.Final.(event.FunctionCall); done && string(u.ToolCall.ToolArguments) != string(f.Arguments) {
				t.Fatalf("%s: arguments %s, want %s", it.ID, u.ToolCall.ToolArguments, f.Arguments)
			}
			continue
		}
		switch it.Status {
		case event.ItemComplete:
			if u.Status != upsert.StatusComplete || text(u) != it.Content && it.Type != event.TypePlan {
				t.Fatalf("%s is %s %q, want complete %q", it.ID, u.Status, text(u), it.Content)
			}
		case event.ItemFailed:
			if u.Status != upsert.StatusError || u.ErrorCode != it.Fault.Code || it.Type != event.TypePlan && text(u) != it.Content {
				t.Fatalf("%s is %s %q, want error %q", it.ID, u.Status, text(u), it.Content)
			}
		default:
			if ok && !strings.HasPrefix(it.Content, text(u)) {
				t.Fatalf("%s is %q, want a beginning of %q", it.ID, text(u), it.Content)
			}
		}
	}
}

// Text is never held back longer than BatchTimeout.
func TestTextWaitsAtMostBatchTimeout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := upsert.Pacer{NoFirstPaint: rapid.Bool().Draw(t, "bare"), BatchTimeout: 300 * time.Millisecond}
		p.Push(event.Event{Turn: "t", Body: message("i")}, epoch)
		var oldest time.Time // time of the oldest text that was not sent
		now, sent, all := epoch, "", ""
		for range rapid.IntRange(1, 50).Draw(t, "deltas") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond)
			if at, ok := p.Due(); ok != (sent != all) || ok && !at.Equal(oldest.Add(300*time.Millisecond)) {
				t.Fatalf("due %v at %v; oldest unsent %v", ok, at, oldest)
			}
			d := rapid.SampledFrom([]string{"a", "b ", "c d e "}).Draw(t, "delta")
			if sent == all {
				oldest = now
			}
			all += d
			for _, o := range p.Push(event.Event{Turn: "t", Body: delta("i", d)}, now) {
				sent = text(o.(upsert.Upsert))
			}
			if sent != all && now.Sub(oldest) >= 300*time.Millisecond {
				t.Fatalf("unsent for %v", now.Sub(oldest))
			}
		}
	})
}

// Deltas may split a rune. No upsert ends within a rune, and the complete text
// arrives.
func TestRuneSplitAcrossDeltasIsNotShownInPart(t *testing.T) {
	full := strings.Repeat("é世😀 ", 40)
	for size := 1; size <= 7; size++ {
		p := upsert.Pacer{Gradient: []int{1}}
		var live screen
		live.show(p.Push(event.Event{Turn: "t", Body: message("i")}, epoch))
		for piece := range slices.Chunk([]byte(full), size) {
			outs := p.Push(event.Event{Turn: "t", Body: delta("i", string(piece))}, epoch)
			live.show(outs)
			for _, o := range outs {
				if s := text(o.(upsert.Upsert)); !utf8.ValidString(s) || !strings.HasPrefix(full, s) {
					t.Fatalf("pieces of %d: %q", size, s)
				}
			}
		}
		live.show(p.Flush(epoch.Add(time.Hour)))
		if got := text(live.items["i"]); got != full {
			t.Errorf("pieces of %d: %q", size, got)
		}
	}
}
