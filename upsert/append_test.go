package upsert_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
	"pgregory.net/rapid"
)

// appendTo applies an Append to the reader's copy of its item. It panics if the
// Append does not continue the item.
func appendTo(items map[string]upsert.Upsert, a upsert.Append) {
	u, ok := a.To(items[a.ItemID])
	if !ok {
		panic(fmt.Sprintf("%s has %q, and %+v does not continue it", a.ItemID, text(items[a.ItemID]), a))
	}
	items[a.ItemID] = u
}

// After every event, a reader of appends has the same items as a reader of
// whole items at the same pace. The reader of appends reconnects once, and
// continues from the history.
func TestAppendsAddUpToWholeItems(t *testing.T) { rapid.Check(t, appendsAddUp) }

func FuzzAppendsAddUp(f *testing.F) { f.Fuzz(rapid.MakeFuzz(appendsAddUp)) }

func appendsAddUp(t *rapid.T) {
	evs := events(t)
	// With this gradient every change is sent at once, so both readers have the
	// same pace.
	whole, growing := upsert.Pacer{Gradient: []int{0}}, upsert.Pacer{Gradient: []int{0}, Append: true}
	var want, got screen
	gap := rapid.IntRange(0, len(evs)).Draw(t, "the reader comes back after")
	for i, ev := range evs {
		if i == gap {
			growing = upsert.Pacer{Gradient: []int{0}, Append: true}
			missed, err := growing.History(seq(evs[:i]), got.max, epoch)
			if err != nil {
				t.Fatal(err)
			}
			got.show(missed)
		}
		want.show(append(whole.Push(ev, epoch), whole.Flush(epoch.Add(time.Hour))...))
		got.show(append(growing.Push(ev, epoch), growing.Flush(epoch.Add(time.Hour))...))
		if diff := cmp.Diff(want.items, got.items, cmpopts.IgnoreFields(upsert.Upsert{}, "EmittedAt", "SourceTimestamp", "Status"), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("after event %d (-whole +appends):\n%s", ev.Seq, diff)
		}
	}
}

// A busy reader receives several events at once. It ends with the same items as
// the history, and gets no more frames than a reader that receives the events
// one by one.
func TestAppendsOfABusyReaderAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := events(t)
		p := upsert.Pacer{Append: true, Gradient: []int{rapid.IntRange(0, 3).Draw(t, "gradient")}}
		var live, want screen
		single := upsert.Pacer{Append: true, Gradient: p.Gradient}
		one, batched := 0, 0
		for rest := evs; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "lump")
			for _, ev := range rest[:n] {
				one += len(single.Push(ev, epoch))
			}
			outs := p.PushAll(rest[:n], epoch)
			batched += len(outs)
			live.show(outs)
			rest = rest[n:]
		}
		live.show(p.Flush(epoch.Add(time.Hour)))
		outs, err := upsert.History(seq(evs), 0, epoch)
		if err != nil {
			t.Fatal(err)
		}
		want.show(outs)
		for id, u := range live.items { // an Append does not contain the time of its newest event
			u.SourceTimestamp = want.items[id].SourceTimestamp
			live.items[id] = u
		}
		same(t, evs, live, want, false)
		if batched > one {
			t.Fatalf("%d in lumps, %d one by one", batched, one)
		}
	})
}

func TestWholeItemsAmongAppends(t *testing.T) {
	for name, tt := range map[string]struct {
		events []event.Body
		want   string
	}{
		"at the start, when the text has doubled, and at the end": {
			[]event.Body{message("m"), words("m", 200), words("m", 121), words("m", 121), delta("m", "the end"), said("m", "all")},
			`2 m create message agent "w w w w …[400]"
3 m 400+"w w w w …[242]"
4 m update message agent "w w w w …[884]"
6 m complete message agent "all"
`},
		"when the arguments of a call are final": {
			[]event.Body{call("c", "1"), words("c", 200), words("c", 121), called("c", "1"), output("o", "1"), words("o", 130), words("o", 125), answer("o", "1", "out")},
			`1 c create tool_call Bash(1)
2 c update tool_call Bash(1) w w w w …[400]…
3 c 400+"w w w w …[242]"
4 c update tool_call Bash(1) {"n":1}
6 c update tool_call Bash(1) {"n":1} -> "w w w w …[260]"
7 c 260+"w w w w …[250]"
8 c complete tool_call Bash(1) {"n":1} -> "out" failed=false
`},
	} {
		t.Run(name, func(t *testing.T) {
			r := reader{p: upsert.Pacer{Append: true}}
			r.push(tt.events...)
			if diff := cmp.Diff(tt.want, r.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A reader of appends receives at most five times as many bytes as an item has,
// including the envelopes.
func TestAppendsOfALongItemAreFewBytes(t *testing.T) {
	for _, size := range []int{40_000, 2_000_000} {
		p := upsert.Pacer{Append: true}
		total, now, n := 0, epoch, int64(1)
		send := func(b event.Body) {
			n++
			now = now.Add(5 * time.Millisecond)
			for _, o := range p.Push(event.Event{Session: "s", Turn: "t", Seq: n, At: now, Body: b}, now) {
				data, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				total += len(data)
			}
		}
		send(message("m"))
		piece := "four words and more "
		for range size / len(piece) {
			send(delta("m", piece))
		}
		send(said("m", strings.Repeat(piece, size/len(piece))))
		if most := 5 * size; total > most {
			t.Errorf("%d bytes of text: %d bytes were sent, more than %d", size, total, most)
		} else {
			t.Logf("%d bytes of text: %d bytes were sent, %.2f times as many", size, total, float64(total)/float64(size))
		}
	}
}

func TestAppendThatDoesNotContinueIsRefused(t *testing.T) {
	output := "out"
	item := upsert.Upsert{ItemID: "m", Seq: 3, Message: &event.Message{Content: "é"}}
	for name, tt := range map[string]struct {
		u  upsert.Upsert
		a  upsert.Append
		ok bool
	}{
		"at its end":                   {item, upsert.Append{ItemID: "m", Offset: 2, Text: "x", Seq: 4}, true},
		"at another place":             {item, upsert.Append{ItemID: "m", Offset: 1, Text: "x", Seq: 4}, false},
		"another item":                 {item, upsert.Append{ItemID: "n", Offset: 2, Text: "x", Seq: 4}, false},
		"a plan":                       {upsert.Upsert{ItemID: "m", Plan: &event.Plan{}}, upsert.Append{ItemID: "m", Text: "x"}, false},
		"arguments":                    {upsert.Upsert{ItemID: "m", ToolCall: &upsert.ToolCall{ToolArgumentsText: "{"}}, upsert.Append{ItemID: "m", Offset: 1, Text: "}"}, true},
		"output that did not begin":    {upsert.Upsert{ItemID: "m", ToolCall: &upsert.ToolCall{ToolArguments: json.RawMessage("{}")}}, upsert.Append{ItemID: "m", Text: "x"}, true},
		"output after final arguments": {upsert.Upsert{ItemID: "m", ToolCall: &upsert.ToolCall{ToolArguments: json.RawMessage("{}"), ToolOutput: &output}}, upsert.Append{ItemID: "m", Offset: 3, Text: "x"}, true},
	} {
		before := text(tt.u)
		u, ok := tt.a.To(tt.u)
		if ok != tt.ok || ok && (u.Seq != tt.a.Seq || text(u) != before+tt.a.Text) || text(tt.u) != before {
			t.Errorf("%s: got %v, %q", name, ok, text(u))
		}
	}
}
