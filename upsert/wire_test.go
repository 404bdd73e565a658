package upsert_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

func TestWireForm(t *testing.T) {
	exit, empty := 0, ""
	start := call("c", "1").(event.ItemStart)
	start.ParentCallID = "p0"
	var r reader
	r.push(begin, start, delta("c", strings.Repeat("y", 44)),
		event.ItemDone{ItemID: "c", FinalItem: event.FunctionCall{
			Name: "Edit", CallID: "1", Arguments: json.RawMessage(`{"path":"a"}`), Kind: event.KindEdit, Title: "Edit a",
			Locations: []event.Location{{Path: "a"}}}},
		event.ItemDone{ItemID: "o", FinalItem: event.FunctionCallOutput{
			CallID: "1", ExitCode: &exit, Truncated: true, TotalBytes: 9,
			Changes: []event.Change{{Path: "a", Kind: event.ChangeUpdate, NewText: &empty, Hunks: []event.Hunk{}}}}},
		event.ItemDone{ItemID: "u", FinalItem: event.Message{Content: "hi", Origin: event.OriginUser, Attachments: []event.Attachment{{Name: "a.png", MediaType: "image/png", Size: 3}}}},
		event.ItemDone{ItemID: "r", FinalItem: event.Reasoning{}},
		event.ItemDone{ItemID: "l", FinalItem: event.Plan{}},
		event.ItemError{ItemID: "x"}, message("m"), event.ItemError{ItemID: "m", Error: fault},
		question, event.ApprovalResolved{ApprovalID: "a1", Choice: "yes", By: event.ByUser, Reason: "ok"},
		event.ApprovalResolved{ApprovalID: "a2", Choice: event.ChoiceWithdrawn, By: event.ByAgent},
		event.Notice{Level: event.LevelInfo, Code: "RETRY", Message: "again"},
		event.UsageUpdated{ContextTokens: 5, CostUSD: new(float64)},
		event.ResponseDone{Status: event.StatusCompleted, Usage: &event.Usage{InputTokens: 1}},
		event.ResponseError{Error: fault})
	late := r.event(event.ResponseError{Error: fault})
	late.Turn = "t2"
	r.got = append(r.got, r.p.Push(late, epoch)...)

	const head = `"turnId":"t","sessionId":"s",`
	item := func(typ, id, began, at, status string) string {
		return `{"type":"` + typ + `",` + head + `"itemId":"` + id + `","startedAt":"2026-11-01T00:00:00.` + began + `Z","sourceTimestamp":"2026-11-01T00:00:00.` + at +
			`Z","emittedAt":"2026-11-01T00:00:00Z","status":"` + status + `"`
	}
	want := []string{
		`session:turn {"type":"turn_started",` + head + `"seq":1,"timestamp":"2026-11-01T00:00:00.001Z","modelId":"m1","providerId":"script"}`,
		`session:upsert ` + item("tool_call", "c", "002", "002", "create") + `,"seq":2,"parentCallId":"p0","tool_call":{"toolName":"Bash","callId":"1","parentCallId":"p0"}}`,
		`session:upsert ` + item("tool_call", "c", "002", "003", "update") + `,"seq":3,"parentCallId":"p0","tool_call":{"toolName":"Bash","toolArgumentsText":"` +
			strings.Repeat("y", 44) + `","callId":"1","parentCallId":"p0"}}`,
		`session:upsert ` + item("tool_call", "c", "002", "004", "update") + `,"seq":4,"parentCallId":"p0","tool_call":{"toolName":"Edit","toolArguments":{"path":"a"},"callId":"1",` +
			`"kind":"edit","title":"Edit a","locations":[{"path":"a"}],"parentCallId":"p0"}}`,
		`session:upsert ` + item("tool_call", "c", "002", "005", "complete") + `,"seq":5,"parentCallId":"p0","tool_call":{"toolName":"Edit","toolArguments":{"path":"a"},"callId":"1",` +
			`"toolOutput":"","toolOutputIsError":false,"kind":"edit","title":"Edit a","locations":[{"path":"a"}],` +
			`"changes":[{"path":"a","kind":"update","newText":"","hunks":[]}],"exitCode":0,"truncated":true,"totalBytes":9,"parentCallId":"p0"}}`,
		`session:upsert ` + item("message", "u", "006", "006", "complete") + `,"seq":6,"message":{"content":"hi","origin":"user","attachments":[{"name":"a.png","mediaType":"image/png","size":3}]}}`,
		`session:upsert ` + item("thinking", "r", "007", "007", "complete") + `,"seq":7,"thinking":{"content":"","providerId":"script"}}`,
		`session:upsert ` + item("plan", "l", "008", "008", "complete") + `,"seq":8,"plan":{"entries":[]}}`,
		`session:upsert ` + item("message", "m", "01", "011", "error") + `,"errorCode":"AGENT_ERROR","errorMessage":"boom","seq":11,"message":{"content":"","origin":"agent"}}`,
		`session:approval {"turnId":"t","seq":12,"timestamp":"2026-11-01T00:00:00.012Z","status":"pending","approval":{"id":"a1","kind":"tool","title":"run?","choices":[{"id":"yes","kind":"","label":""}]}}`,
		`session:approval {"turnId":"t","seq":13,"timestamp":"2026-11-01T00:00:00.013Z","status":"resolved","approval":{"id":"a1","kind":"tool","title":"run?","choices":[{"id":"yes","kind":"","label":""}]},"choice":"yes","by":"user","reason":"ok"}`,
		`session:approval {"turnId":"t","seq":14,"timestamp":"2026-11-01T00:00:00.014Z","status":"resolved","approval":{"id":"a2","kind":"","title":"","choices":[]},"choice":"withdrawn","by":"agent"}`,
		`session:notice {"turnId":"t","seq":15,"timestamp":"2026-11-01T00:00:00.015Z","level":"info","code":"RETRY","message":"again"}`,
		`session:usage {"turnId":"t","seq":16,"timestamp":"2026-11-01T00:00:00.016Z","contextTokens":5,"costUsd":0}`,
		`session:turn {"type":"turn_complete",` + head + `"seq":17,"timestamp":"2026-11-01T00:00:00.017Z","status":"completed","usage":{"inputTokens":1,"outputTokens":0}}`,
		`session:turn {"type":"turn_error","turnId":"t2","sessionId":"s","seq":19,"timestamp":"2026-11-01T00:00:00.019Z","errorCode":"AGENT_ERROR","errorMessage":"boom"}`,
	}
	var got []string
	for _, o := range r.got {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o.Frame()+" "+string(data))
		if u, ok := o.(upsert.Upsert); ok { // a client reads back what was written
			var back upsert.Upsert
			if err := json.Unmarshal(data, &back); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(back)
			if err != nil || string(again) != string(data) {
				t.Errorf("%s reads back as %s (%v)", data, again, err)
			}
			if back.ItemID != u.ItemID {
				t.Errorf("itemId %q, want %q", back.ItemID, u.ItemID)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHistoryAfter(t *testing.T) {
	var r reader
	evs := []event.Event{
		r.event(begin), r.event(said("m", "old")), r.event(call("c", "1")), r.event(message("n")), r.event(delta("n", "a")),
		r.event(question), r.event(called("c", "1")), r.event(delta("n", "b")),
	}
	for _, c := range []struct {
		after int64
		want  string
	}{
		{0, `1 turn_started m1 script
2 m complete message agent "old"
7 c update tool_call Bash(1) {"n":1}
8 n update message agent "ab"
6 approval a1 pending "run?"
`},
		{2, `7 c update tool_call Bash(1) {"n":1}
8 n update message agent "ab"
6 approval a1 pending "run?"
`},
		{6, `7 c update tool_call Bash(1) {"n":1}
8 n update message agent "ab"
`},
		{8, ""},
		{99, ""},
	} {
		outs, err := upsert.History(seq(evs), c.after, epoch)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, (&reader{got: outs}).String()); diff != "" {
			t.Errorf("after %d:\n%s", c.after, diff)
		}
	}
}

func TestHistoryStopsAtAnError(t *testing.T) {
	boom := errors.New("boom")
	outs, err := upsert.History(func(yield func(event.Event, error) bool) {
		_ = yield(event.Event{Seq: 1, Body: event.Notice{}}, nil) && yield(event.Event{}, boom)
	}, 0, epoch)
	if err != boom || outs != nil {
		t.Errorf("got %v, %v", outs, err)
	}
}

// A Pacer needs no more memory after thousands of turns than after a few.
func TestMemoryIsThatOfTheRunningTurn(t *testing.T) {
	var p upsert.Pacer
	heap := func(turns int) uint64 {
		big := strings.Repeat("word ", 2000)
		for i := range turns {
			for _, b := range []event.Body{begin, message("m"), delta("m", big), question, call("c", "1"), delta("c", big), event.ItemCancelled{ItemID: "c"}, said("m", big), answer("o", "2", big), finished} {
				p.Push(event.Event{Turn: fmt.Sprint(turns, "/", i), Body: b}, epoch)
			}
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	few := heap(10)
	if many := heap(3000); many > few+256<<10 {
		t.Errorf("%d bytes after 10 turns, %d after 3000 more", few, many)
	}
	runtime.KeepAlive(&p)
}

// Sending a growing item does not copy its earlier text.
func TestLongItemIsNotCopied(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var p upsert.Pacer
	p.Push(event.Event{Turn: "t", Body: message("m")}, epoch)
	for range 1 << 18 {
		p.Push(event.Event{Turn: "t", Body: event.ItemDelta{ItemID: "m", DeltaContent: "abc "}}, epoch)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("allocated %d bytes for an item of 1 MiB", n)
	}
}

// BenchmarkMillionByteItem sends an item of 1 MiB in deltas of four bytes. The
// cost of a delta must not depend on the length of the earlier text.
func BenchmarkMillionByteItem(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(1 << 20)
	for b.Loop() {
		var p upsert.Pacer
		p.Push(event.Event{Turn: "t", Body: message("m")}, epoch)
		n := 0
		for range 1 << 18 {
			n += len(p.Push(event.Event{Turn: "t", Body: event.ItemDelta{ItemID: "m", DeltaContent: "abc "}}, epoch))
		}
		if n < 2000 {
			b.Fatalf("%d upserts", n)
		}
	}
}

// BenchmarkManyOpenItems has many items wait at once. The Pacer must inspect
// only the oldest of them.
func BenchmarkManyOpenItems(b *testing.B) {
	b.ReportAllocs()
	ids := make([]string, 20000)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	for b.Loop() {
		var p upsert.Pacer
		for _, text := range []string{"", "a", "b", "c"} {
			for _, id := range ids {
				if text == "" {
					p.Push(event.Event{Turn: "t", Body: message(id)}, epoch)
				}
				p.Push(event.Event{Turn: "t", Body: event.ItemDelta{ItemID: id, DeltaContent: text}}, epoch)
				p.Due()
			}
		}
		if n := len(p.Flush(epoch.Add(time.Minute))); n != len(ids) {
			b.Fatalf("%d upserts", n)
		}
	}
}

func BenchmarkHistory(b *testing.B) {
	var evs []event.Event
	var r reader
	for i := range 1000 {
		for _, body := range []event.Body{begin, message("m"), words("m", 3), words("m", 3), said("m", "x"), call("c", "1"), called("c", "1"), answer("o", "1", "y"), finished} {
			ev := r.event(body)
			ev.Turn = fmt.Sprint(i)
			evs = append(evs, ev)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if outs, err := upsert.History(seq(evs), 0, epoch); err != nil || len(outs) != 4000 {
			b.Fatal(len(outs), err)
		}
	}
}
