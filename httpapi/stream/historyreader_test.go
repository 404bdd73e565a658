package stream

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/upsert"
)

// A state is what a reader knows after it has read all entries.
type state struct {
	items     map[string]upsert.Upsert
	approvals map[string]upsert.Approval
	others    []string
}

func (st *state) take(outs []upsert.Out) {
	if st.items == nil {
		st.items, st.approvals = make(map[string]upsert.Upsert), make(map[string]upsert.Approval)
	}
	for _, o := range outs {
		switch o := o.(type) {
		case upsert.Upsert:
			o.EmittedAt = time.Time{}
			if o.Status == upsert.StatusCreate {
				o.Status = upsert.StatusUpdate // how the item reached this state does not matter
			}
			st.items[o.ItemID] = o
		case upsert.Approval:
			st.approvals[o.Approval.ID] = o
		default:
			st.others = append(st.others, fmt.Sprintf("%T %d", o, upsert.SeqOf(o)))
		}
	}
}

// A client ends with the same state wherever the history is divided into chunks
// and wherever the client resumes. It gets each event, each approval and the
// end of each item once.
func TestHistoryIsTheSameHoweverItIsCut(t *testing.T) {
	log, id := new(runnel.Memory), "s"
	allow := func(_ context.Context, a event.Approval) runnel.Decision { return runnel.Decision{Choice: "allow"} }
	session, err := runnel.Open(t.Context(), script.New(), runnel.Options{Approve: allow}, runnel.Config{ID: id, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, prompt := range []string{
		"tools", `{"steps":[{"text":"word ","repeat":30}]}`, "approve",
		`{"steps":[{"tool":{"name":"A","output":"a"}},{"text":"b ","repeat":5},{"tool":{"name":"B","output":"b"}}]}`,
	} {
		turn, err := session.Send(t.Context(), runnel.Text(prompt))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// The last turn has not ended.
	last, err := session.Send(t.Context(), runnel.Text(`{"steps":[{"text":"one "},{"tool":{"name":"C","output":"c"}},{"text":"two "},{"hang":true}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var head int64
	for ev, err := range last.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		head = ev.Seq
		if d, ok := ev.Body.(event.ItemDelta); ok && d.DeltaContent == "two " {
			break
		}
	}
	// Copies of the log that do not grow, one of every length.
	var evs []event.Event
	for ev, err := range log.Read(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Seq <= head {
			evs = append(evs, ev)
		}
	}
	for n := 1; n <= len(evs); n += 1 + len(evs)/40 {
		log := new(runnel.Memory)
		if err := log.Append(t.Context(), id, 0, evs[:n]...); err != nil {
			t.Fatal(err)
		}
		var whole state
		outs, err := upsert.History(log.Read(t.Context(), id, 0), 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		whole.take(outs)
		for _, cut := range []int{1, 2, 3, 7, 50} {
			var got state
			p := newHistoryReader(log, id, runnel.Checkpoint{}, 0)
			p.events = cut
			for more := true; more; {
				c, err := p.next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got.take(c.entries)
				more = c.more
			}
			// The last upsert of a cancelled item may be one from an earlier
			// event. So Seq is compared only for complete items, below.
			opt := cmp.Options{cmp.AllowUnexported(state{}), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(upsert.Upsert{}, "Seq", "SourceTimestamp")}
			if d := cmp.Diff(whole, got, opt); d != "" {
				t.Fatalf("%d events in stretches of %d (-whole +cut):\n%s", n, cut, d)
			}
			for id, u := range got.items {
				if u.Status == upsert.StatusComplete && u.Seq != whole.items[id].Seq {
					t.Errorf("%s is of %d, want %d", id, u.Seq, whole.items[id].Seq)
				}
			}
		}
	}
	for after := int64(1); after < int64(len(evs)); after += 1 + int64(len(evs))/30 { // a reader that resumes
		log := new(runnel.Memory)
		if err := log.Append(t.Context(), id, 0, evs...); err != nil {
			t.Fatal(err)
		}
		outs, err := upsert.History(log.Read(t.Context(), id, 0), after, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var whole, got state
		whole.take(outs)
		p := newHistoryReader(log, id, runnel.Checkpoint{}, after)
		p.events = 5
		for more := true; more; {
			c, err := p.next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range c.entries {
				if upsert.SeqOf(o) <= after {
					t.Errorf("after %d: %T of %d again", after, o, upsert.SeqOf(o))
				}
			}
			got.take(c.entries)
			more = c.more
		}
		for id := range maps.Keys(whole.items) {
			if _, ok := got.items[id]; !ok {
				t.Errorf("after %d: %s is missing", after, id)
			}
		}
		if d := cmp.Diff(whole.others, got.others); d != "" {
			t.Errorf("after %d: %s", after, d)
		}
	}
}

// A longTurn is a log with one turn of many large items. It makes each item
// when it is read, so only a reader can hold them in memory.
type longTurn struct {
	runnel.Memory
	items, size int
}

func (l *longTurn) Read(_ context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for seq := after + 1; seq <= int64(2+2*l.items); seq++ {
			if !yield(event.Event{Session: session, Turn: "t", Seq: seq, At: time.Unix(1e9, 0).UTC(), Body: l.body(seq)}, nil) {
				return
			}
		}
	}
}

func (l *longTurn) body(seq int64) event.Body {
	id := fmt.Sprintf("t:1:%d", (seq-1)/2)
	switch {
	case seq == 1:
		return event.ResponseStart{ProviderID: "p"}
	case seq == 2: // an item that stays unfinished
		return event.ItemStart{ItemID: "t:0:0", ItemType: event.TypeFunctionCall, CallID: "task", Name: "Task"}
	case seq%2 == 1:
		return event.ItemStart{ItemID: id, ItemType: event.TypeMessage, ParentCallID: "task"}
	}
	return event.ItemDone{ItemID: id, FinalItem: event.Message{Content: strings.Repeat("a", l.size), Origin: event.OriginAgent}}
}

func TestHistoryOfALongTurnIsNotHeld(t *testing.T) {
	log := &longTurn{items: 600, size: 100 << 10}
	p := newHistoryReader(log, "s", runnel.Checkpoint{}, 0)
	before := heap()
	seen, stretches, most := 0, 0, 0
	for more := true; more; stretches++ {
		c, err := p.next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, o := range c.entries {
			if u, ok := o.(upsert.Upsert); ok && u.Message != nil {
				seen++
				n += len(u.Message.Content)
			}
		}
		most, more = max(most, n), c.more
	}
	if held := heap() - before; held > chunkBytes {
		t.Errorf("after %d items the reader holds %d KB", seen, held>>10)
	}
	if seen != log.items || stretches < 10 || most > 2*chunkBytes {
		t.Errorf("%d of %d items in %d stretches, the largest of %d bytes", seen, log.items, stretches, most)
	}
	runtime.KeepAlive(p)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
