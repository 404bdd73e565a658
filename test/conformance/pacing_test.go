//go:build unix

package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

var _ = register(36, pacing)

// pacing returns the table of when a reader receives frames.
func pacing() table {
	tab := table{
		name: "pacing", title: "Pacing", file: "pacing_test.go",
		intro: "When a reader receives an upsert. The pacer is a pure function of events and time: the checks call it, in the package `upsert`, with a clock of their own. " +
			"The rows of the library run a program's calls with the scripted agent. What needs slow connections or cuts at every event links the test that has them.",
		head: []string{"object", "rule", "when"},
	}
	for _, r := range slices.Concat(pacingChecks, pacingOfLibrary) {
		tab.add(r.object, r.rule, r.when, r.check)
	}
	for _, r := range pacingLinks {
		tab.link(r.object, r.rule, r.when, r.test)
	}
	return tab
}

// A pacingRow is a row with a check.
type pacingRow struct {
	object, rule, when string
	check              func(t *testing.T)
}

// A paced is a reader that drives a Pacer with a fake clock.
type paced struct {
	t   *testing.T
	p   upsert.Pacer
	seq int64
	now time.Time
	got []string // frames that the Pacer emitted since the last call of emits
}

func newPaced(t *testing.T, p upsert.Pacer) *paced {
	return &paced{t: t, p: p, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// bare returns a reader whose Pacer treats the first text like any other.
func bare(t *testing.T, gradient ...int) *paced {
	return newPaced(t, upsert.Pacer{NoFirstPaint: true, Gradient: gradient})
}

func (r *paced) event(b event.Body) event.Event {
	r.seq++
	return event.Event{Session: "s", Seq: r.seq, At: r.now, Turn: "t", Body: b}
}

func (r *paced) push(bodies ...event.Body) *paced {
	for _, b := range bodies {
		r.take(r.p.Push(r.event(b), r.now))
	}
	return r
}

// grow pushes a delta of n words, two bytes each, for the item "i".
func (r *paced) grow(n int) *paced { return r.text(strings.Repeat("w ", n)) }

func (r *paced) text(text string) *paced {
	return r.push(event.ItemDelta{ItemID: "i", DeltaContent: text})
}

func (r *paced) begin() *paced {
	return r.push(event.ItemStart{ItemID: "i", ItemType: event.TypeMessage})
}

func (r *paced) done(text string) *paced {
	return r.push(event.ItemDone{ItemID: "i", FinalItem: event.Message{Content: text, Origin: event.OriginAgent}})
}

// pass advances the clock by d, and calls Flush whenever it is due.
func (r *paced) pass(d time.Duration) *paced {
	for end := r.now.Add(d); ; {
		at, due := r.p.Due()
		if !due || at.After(end) {
			r.now = end
			return r
		}
		r.now = at
		r.take(r.p.Flush(at))
	}
}

// take records each frame as a short text: the item, its status, and its text
// or call.
func (r *paced) take(outs []upsert.Out) {
	for _, o := range outs {
		switch o := o.(type) {
		case upsert.Upsert:
			line := o.ItemID + " " + string(o.Status)
			switch c := o.ToolCall; {
			case o.Message != nil && len(o.Message.Content) > 20:
				line += fmt.Sprintf(" %d bytes", len(o.Message.Content))
			case o.Message != nil:
				line += fmt.Sprintf(" %q", o.Message.Content)
			case c != nil && c.ToolOutput != nil:
				line += fmt.Sprintf(" %s -> %s", c.CallID, *c.ToolOutput)
			}
			if o.ErrorCode != "" {
				line += " " + o.ErrorCode
			}
			r.got = append(r.got, line)
		case upsert.TurnEvent:
			r.got = append(r.got, string(o.Type))
		}
	}
}

// emits reports an error unless the Pacer emitted exactly these frames since
// the last call.
func (r *paced) emits(want ...string) *paced {
	r.t.Helper()
	if !slices.Equal(r.got, want) {
		r.t.Errorf("got %q, want %q", r.got, want)
	}
	r.got = nil
	return r
}

func callOf(id, call string) event.Body {
	return event.ItemDone{ItemID: id, FinalItem: event.FunctionCall{Name: "Bash", CallID: call, Arguments: json.RawMessage(`{}`)}}
}

func outputOf(id, call, text string) event.Body {
	return event.ItemDone{ItemID: id, FinalItem: event.FunctionCallOutput{CallID: call, Output: text}}
}

// pacingChecks use the exported functions of the Pacer.
var pacingChecks = []pacingRow{
	{"tool_call", "concurrent calls are independent", "tools run side by side", func(t *testing.T) {
		newPaced(t, upsert.Pacer{}).push(callOf("c", "1"), callOf("d", "2")).emits("c create", "d create").
			push(outputOf("o", "2", "two")).emits("d complete 2 -> two").push(outputOf("p", "1", "one")).emits("c complete 1 -> one")
	}},
	{"tool_call", "an output whose call is unknown is a `complete` of its own", "the call was lost", func(t *testing.T) {
		newPaced(t, upsert.Pacer{}).push(outputOf("o", "9", "text")).emits("o complete 9 -> text")
	}},
	{"tool_call", "a call that is never answered is not sent again", "the turn is cancelled", func(t *testing.T) {
		r := newPaced(t, upsert.Pacer{}).push(callOf("c", "1")).emits("c create")
		r.push(event.ResponseDone{Status: event.StatusCancelled}).pass(time.Hour).emits("turn_complete")
	}},
	{"pacer", "the gradient is 10, 20, 40, 80, 120 tokens since the last emission", "text grows", func(t *testing.T) {
		r := bare(t).begin()
		size := 0
		for _, step := range []int{10, 20, 40, 80, 120} {
			r.grow(step).emits()
			size += 2 * (step + 1)
			r.grow(1)
			r.emits(fmt.Sprintf("i %s %d bytes", map[bool]upsert.Status{true: upsert.StatusCreate, false: upsert.StatusUpdate}[step == 10], size))
		}
	}},
	{"pacer", "the last step repeats while it is more than a third of the item", "text grows", func(t *testing.T) {
		r := bare(t, 1, 3).begin().grow(2).emits(`i create "w w "`).grow(3).emits().grow(1).emits(`i update "w w w w w w "`)
		r.grow(3).emits().grow(1).emits(`i update "w w w w w w w w w w "`)
	}},
	{"pacer", "the last step grows with the item: what the gradient emits of an item stays within eight times its final size", "a long text grows", func(t *testing.T) {
		r := newPaced(t, upsert.Pacer{}).begin()
		sent, size := 0, 0
		for range 20_000 {
			size += 2
			for _, o := range r.p.Push(r.event(event.ItemDelta{ItemID: "i", DeltaContent: "w "}), r.now) {
				sent += len(o.(upsert.Upsert).Message.Content)
			}
		}
		if sent > 8*size || sent < size {
			t.Errorf("%d bytes were sent of an item of %d bytes", sent, size)
		}
	}},
	{"pacer", "it emits when there are strictly more tokens than that", "text grows", func(t *testing.T) {
		bare(t).begin().grow(10).emits().grow(1).emits("i create 22 bytes")
	}},
	{"pacer", "one large delta that crosses several thresholds emits once and advances past them", "text grows", func(t *testing.T) {
		bare(t).begin().grow(90).emits("i create 180 bytes").grow(120).emits().grow(1).emits("i update 422 bytes")
	}},
	{"pacer", "an empty gradient means the default", "text grows", func(t *testing.T) {
		r := newPaced(t, upsert.Pacer{NoFirstPaint: true, Gradient: []int{}}).begin()
		r.grow(10).emits().grow(1).emits("i create 22 bytes").grow(20).emits().grow(1).emits("i update 64 bytes")
	}},
	{"pacer", "a token is a run of characters that are not space", "text grows", func(t *testing.T) {
		bare(t, 2).begin().text("one\t\n  two ").emits().text("three").emits(`i create "one\t\n  two three"`)
	}},
	{"pacer", "a run longer than 16 bytes counts a token for each 4 bytes, rounded up", "text without spaces", func(t *testing.T) {
		bare(t, 4).begin().text(strings.Repeat("x", 16)).emits().text("x").emits(`i create "xxxxxxxxxxxxxxxxx"`)
		bare(t, 5).begin().text(strings.Repeat("x", 20)).emits().text("x").emits("i create 21 bytes")
		bare(t, 4).begin().text("世世世世世").emits().text("世").emits(`i create "世世世世世世"`)
	}},
	{"pacer", "a run that is cut by deltas is one run", "text grows", func(t *testing.T) {
		bare(t, 1).begin().text("loc").text("omot").text("ive").emits().text(" x").emits(`i create "locomotive x"`)
	}},
	{"pacer", "the first delta that is not empty emits `create` at once, and a setting turns that off", "text begins", func(t *testing.T) {
		newPaced(t, upsert.Pacer{}).begin().text("").emits().text("H").emits(`i create "H"`).text("i").emits()
		bare(t).begin().text("H").emits()
	}},
	{"pacer", "nothing waits longer than 1 s from the oldest delta that was not sent", "text grows slowly", func(t *testing.T) {
		r := newPaced(t, upsert.Pacer{}).begin().text("a").emits(`i create "a"`).text("b")
		r.pass(999 * time.Millisecond).emits().pass(time.Millisecond).emits(`i update "ab"`).pass(time.Hour).emits()
	}},
	{"pacer", "`batchTimeout` changes that time", "text grows slowly", func(t *testing.T) {
		r := newPaced(t, upsert.Pacer{BatchTimeout: 5 * time.Millisecond}).begin().text("a").emits(`i create "a"`).text("b")
		r.pass(4 * time.Millisecond).emits().pass(time.Millisecond).emits(`i update "ab"`)
	}},
	{"pacer", "new deltas do not put the time off", "text grows slowly", func(t *testing.T) {
		r := newPaced(t, upsert.Pacer{}).begin().text("a").emits(`i create "a"`).text("b").pass(600 * time.Millisecond)
		r.text("c").pass(399 * time.Millisecond).emits().pass(time.Millisecond).emits(`i update "abc"`)
	}},
	{"pacer", "`item_done` emits `complete` at once, also for empty content, and once", "an item is done", func(t *testing.T) {
		newPaced(t, upsert.Pacer{}).begin().text("dra").emits(`i create "dra"`).done("final").emits(`i complete "final"`).done("again").pass(time.Hour).emits()
		newPaced(t, upsert.Pacer{}).begin().done("").emits(`i complete ""`).pass(time.Hour).emits()
	}},
	{"pacer", "the end of a reader makes nothing `complete`: open items are errors with the content so far", "a reader ends", func(t *testing.T) {
		r := newPaced(t, upsert.Pacer{}).begin().text("a").text("b").emits(`i create "a"`)
		r.take(r.p.Close(r.now))
		r.emits(`i error "ab" PROTOCOL_ERROR`)
	}},
	{"pacer", "a reader that ends with `user_cancel` emits nothing", "a reader ends", func(t *testing.T) {
		r := newPaced(t, upsert.Pacer{}).begin().text("a").text("b").emits(`i create "a"`)
		r.take(r.p.Destroy(string(event.ReasonUserCancel), r.now))
		r.emits()
	}},
	{"pacer", "a slow reader gets fewer, larger upserts, and every end", "a reader is slow", func(t *testing.T) {
		r := newPaced(t, upsert.Pacer{})
		waiting := []event.Event{r.event(event.ItemStart{ItemID: "i", ItemType: event.TypeMessage})}
		for range 100 {
			waiting = append(waiting, r.event(event.ItemDelta{ItemID: "i", DeltaContent: "w w w w w w w w w w w w "}))
		}
		waiting = append(waiting, r.event(event.ItemDone{ItemID: "j", FinalItem: event.Message{Content: "one", Origin: event.OriginAgent}}),
			r.event(callOf("c", "1")), r.event(outputOf("o", "1", "two")))
		r.take(r.p.PushAll(waiting, r.now))
		r.emits("i create 2136 bytes", `j complete "one"`, "c complete 1 -> two").pass(time.Second).emits("i update 2400 bytes")
	}},
	{"pacer", "`sourceTimestamp` is that of the newest event folded in, `emittedAt` the time of the upsert, `seq` the position of that event", always, func(t *testing.T) {
		r := newPaced(t, upsert.Pacer{}).begin().text("a").text("b")
		source := r.now
		r.now = source.Add(time.Second)
		u := r.p.Flush(r.now)[0].(upsert.Upsert)
		equal(t, "times and position", []any{u.SourceTimestamp, u.EmittedAt, u.Seq}, []any{source, r.now, r.seq})
	}},
	{"pacer", "a character that is cut by deltas is whole in every upsert", "text in several bytes", func(t *testing.T) {
		r := newPaced(t, upsert.Pacer{}).begin().text("a\xe4\xb8").pass(time.Hour).emits(`i create "a"`)
		r.text("\x96").pass(time.Hour).emits(`i update "a世"`)
	}},
}

// pacingLinks are rows that need many readers, connections or random cuts;
// other tests prove them.
var pacingLinks = []struct{ object, rule, when, test string }{
	{"pacer", "a slow reader blocks no other", "a reader is slow", "httpapi.TestSlowReaderOfOthers"},
	{"pacer", "a client that reads slowly is not closed for it, as long as it reads", "a reader is slow", "httpapi.TestSlowReaderGetsFewerUpserts"},
	{"pacer", "live upserts end as history does", "any cut of the stream", "upsert.TestLiveIsHistory"},
	{"pacer", "a client that resumes after the `seq` of any upsert misses nothing", "any cut of the stream", "upsert.TestResumeMissesNothing"},
}

// pacingOfLibrary are rows about a program that embeds Runnel.
var pacingOfLibrary = []pacingRow{
	{"library", "`OnUpsert` and `OnTurn` see the run in order, beside the iterators", "a program embeds Runnel", handlersSeeTheRun},
	{"library", "`Destroy(reason)` closes the open items of a reader with the reason; the run goes on", "a program embeds Runnel", destroyClosesItems},
	{"library", "the upserts of a run are whole items up to the end of the turn", "a program embeds Runnel", upsertsAreWhole},
}
