package translate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// notices returns the turn and the text of each notice.
func notices(events []event.Event) (out []string) {
	for _, ev := range events {
		n, _ := ev.Body.(event.Notice)
		out = append(out, ev.Turn+" "+n.Message)
	}
	return out
}

func TestEmitterKeepsOrder(t *testing.T) {
	at := time.Unix(1, 0)
	var e translate.Emitter
	e.Begin(at)
	e.Notice("", event.LevelInfo, "X", "one")
	inner := e.Capture(func() { e.ForTurn("u").Notice(event.LevelInfo, "X", "captured") })
	e.Defer(inner...)
	e.Notice("t", event.LevelInfo, "X", "two")
	e.Reply("a")
	if d := cmp.Diff([]string{" one", "t two"}, notices(e.Take())); d != "" {
		t.Error(d)
	}
	e.Begin(at.Add(time.Second))
	e.EmitDeferred()
	e.Notice("", event.LevelInfo, "X", "three")
	evs, replies := e.Results()
	if d := cmp.Diff([]string{"u captured", " three"}, notices(evs)); d != "" {
		t.Error(d)
	}
	if !evs[0].At.Equal(at) {
		t.Errorf("the deferred event has the time %v", evs[0].At)
	}
	if len(replies) != 1 || replies[0] != "a" {
		t.Errorf("replies %v", replies)
	}
	if evs, replies := e.Results(); evs != nil || replies != nil {
		t.Errorf("again: %v %v", evs, replies)
	}
}

func TestHeldEventsAreEmittedTogether(t *testing.T) {
	var e translate.Emitter
	var h translate.Held
	held := e.ForTurn("t").Holding(func(ev event.Event) { h.Add(ev, 10) })
	held.Notice(event.LevelInfo, "X", "one")
	held.Notice(event.LevelInfo, "X", "two")
	if evs := e.Take(); len(evs) > 0 || h.Size() != 20 {
		t.Errorf("%d events, size %d", len(evs), h.Size())
	}
	e.Add(h.Take()...)
	if d := cmp.Diff([]string{"t one", "t two"}, notices(e.Take())); d != "" {
		t.Error(d)
	}
	if h.Size() != 0 || h.Take() != nil {
		t.Error("Take left events in Held")
	}
}

func TestNumbering(t *testing.T) {
	n := translate.NewNumbering("t", "")
	sub := translate.NewNumbering("t", translate.Key("p", "call one"))
	for _, c := range []struct{ got, want string }{
		{n.ID("m", 0), "t:1:0"}, {n.ID("m", 2), "t:1:2"}, {n.Next("c"), "t:2:0"}, {n.Next("c"), "t:2:1"}, {n.ID("m", 0), "t:1:0"},
		{sub.Next("m"), "t:" + translate.Derive("p", "call one") + "/1:0"},
		{translate.NewNumbering("t", "c1").Next("m"), "t:c1/1:0"},
		{translate.NewOutput("t:1:0", "", "", "").Start.ItemID, "t:1:0:output"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// shapes returns a short text for each event.
func shapes(events []event.Event) string {
	var out []string
	for _, ev := range events {
		switch b := ev.Body.(type) {
		case event.ItemStart:
			out = append(out, "start")
		case event.ItemDelta:
			out = append(out, "+"+b.DeltaContent)
		case event.ItemDone:
			out = append(out, "done")
		case event.ItemCancelled:
			out = append(out, "cancelled")
		}
	}
	return strings.Join(out, " ")
}

func TestOutputEndsOnce(t *testing.T) {
	done := func(o *translate.Output, e translate.TurnEmitter) { o.Done(e, event.FunctionCallOutput{CallID: "c"}) }
	cancel := func(o *translate.Output, e translate.TurnEmitter) { o.Cancel(e, event.ReasonUserCancel) }
	add := func(text string) func(*translate.Output, translate.TurnEmitter) {
		return func(o *translate.Output, e translate.TurnEmitter) { o.Append(e, text) }
	}
	grow := func(text string) func(*translate.Output, translate.TurnEmitter) {
		return func(o *translate.Output, e translate.TurnEmitter) {
			before, grows := o.Streamed(), o.Grows(text)
			if o.Grow(e, text); (o.Streamed() != before) != grows {
				t.Errorf("Grows(%q) after %q: %v", text, before, grows)
			}
		}
	}
	for _, c := range []struct {
		name string
		do   []func(*translate.Output, translate.TurnEmitter)
		want string
	}{
		{"at once", []func(*translate.Output, translate.TurnEmitter){done, done, cancel}, "start done"},
		{"grows", []func(*translate.Output, translate.TurnEmitter){grow("a"), grow("ab"), grow("ab"), grow("x"), done, grow("abc")}, "start +a +b done"},
		{"is added to", []func(*translate.Output, translate.TurnEmitter){add("a"), add(""), add("b"), grow("abc"), done, add("d")}, "start +a +b +c done"},
		{"too long", []func(*translate.Output, translate.TurnEmitter){add("a"), add(strings.Repeat("x", event.MaxOutput)), add("b"), done}, "start +a +b done"},
		{"cancelled", []func(*translate.Output, translate.TurnEmitter){grow("a"), cancel, done}, "start +a cancelled"},
		{"not started", []func(*translate.Output, translate.TurnEmitter){cancel}, ""},
	} {
		var e translate.Emitter
		o := translate.NewOutput("t:1:0", "c", "shell", "")
		for _, do := range c.do {
			do(&o, e.ForTurn("t"))
		}
		if got := shapes(e.Take()); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPlanEntries(t *testing.T) {
	for status, want := range map[string]string{"inProgress": "in_progress", "in_progress": "in_progress", "completed": "completed", "": "pending", "x": "pending"} {
		if got := translate.PlanEntry("a\nb", status, "high"); cmp.Diff(event.PlanEntry{Content: "a b", Status: want, Priority: "high"}, got) != "" {
			t.Errorf("%q: %+v", status, got)
		}
	}
}

func TestLongOutputIsTruncated(t *testing.T) {
	for _, c := range []struct {
		all       string
		total     int64
		size      int
		truncated bool
	}{
		{"ab", 2, 2, false}, {"", 0, 0, false}, {"ab", 7, 2, true},
		{strings.Repeat("x", event.MaxOutput+1), event.MaxOutput + 1, event.MaxOutput, true},
	} {
		var out event.FunctionCallOutput
		translate.SetOutput(&out, c.all, c.total)
		if len(out.Output) != c.size || out.Truncated != c.truncated || c.truncated && out.TotalBytes != c.total {
			t.Errorf("%d of %d bytes: %d, truncated %v, total %d", len(c.all), c.total, len(out.Output), out.Truncated, out.TotalBytes)
		}
	}
}

func TestLooseDecoding(t *testing.T) {
	type line struct {
		A string
		N int
	}
	if got := translate.DecodeLenient[line]([]byte(`{"A":"x","N":"not a number","Z":1}`)); got != (line{A: "x"}) {
		t.Errorf("%+v", got)
	}
	if got := translate.Each[line]([]byte(`[{"A":"x"},7,null,{"N":2}]`)); cmp.Diff([]line{{A: "x"}, {}, {}, {N: 2}}, got) != "" {
		t.Errorf("%+v", got)
	}
	if got := translate.Each[line]([]byte(`{"A":"x"}`)); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestObjectDecoding(t *testing.T) {
	for raw, want := range map[string]bool{`{"a":1}`: true, ` {"a":1}`: true, `{}`: false, ``: false, `null`: false, `[1]`: false, `"x"`: false} {
		if got := translate.IsObject(json.RawMessage(raw)); got != want {
			t.Errorf("IsObject(%s): %v", raw, got)
		}
	}
	for raw, want := range map[string]string{``: `{}`, `null`: `{}`, `{"a":1}`: `{"a":1}`, `"x"`: `"x"`} {
		if got := translate.Arguments(json.RawMessage(raw)); string(got) != want {
			t.Errorf("Arguments(%s): %s", raw, got)
		}
	}
	if got := translate.Object(func() {}); string(got) != "{}" {
		t.Errorf("a value that cannot be encoded: %s", got)
	}
	for raw, ok := range map[string]bool{`{"a":1}`: true, `{}`: true, ``: false, `null`: false, `[1]`: false, `{"a"`: false} {
		if _, err := translate.Values(json.RawMessage(raw)); (err == nil) != ok || err != nil && runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("Values(%s): %v", raw, err)
		}
	}
}

func TestKeysAreShortAndPlain(t *testing.T) {
	for native, plain := range map[string]bool{"toolu_1": true, "a b": false, "a/b": false, "é": false, strings.Repeat("x", 101): false} {
		if got := translate.Key("p", native); (got == native) != plain || len(got) > 100 {
			t.Errorf("%q: %q", native, got)
		}
	}
	const want = "8bffc221-d56a-542e-a6ce-663b4dbcba5f" // logs contain derived ids, so they must not change
	if translate.Derive("p", "x") != want || translate.Derive("q", "x") == want {
		t.Error("Derive returned another id, or ignores the provider")
	}
}

func TestBase64Size(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "=": 0, "YQ==": 1, "YWI=": 2, "YWJj": 3, "YWJjZA==": 4} {
		if got := translate.Base64Size(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestListsOfAgentsAreDecodedInPart(t *testing.T) {
	type element struct {
		Text string `json:"text"`
	}
	for _, further := range []string{"{}", "0", "null"} {
		got := translate.Each[element]([]byte(`[{"text":"first"}` + strings.Repeat(","+further, 100_000) + `]`))
		if len(got) != 10_000 || got[0].Text != "first" {
			t.Errorf("%s: %d elements", further, len(got))
		}
	}
	got := translate.Each[element]([]byte(`[1,{"text":"second"},{"text":3},{"text":"fourth"}]`))
	if len(got) != 4 || got[1].Text != "second" || got[3].Text != "fourth" {
		t.Errorf("elements of other types: %+v", got)
	}
	for _, other := range []string{"", "null", "{}", `"x"`, "[1", "]"} {
		if got := translate.Each[element]([]byte(other)); len(got) > 1 {
			t.Errorf("%s: %+v", other, got)
		}
	}
}
