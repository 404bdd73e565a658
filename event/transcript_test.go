package event_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/runnel-dev/runnel/event"
	"pgregory.net/rapid"
)

// fold applies bodies as the events 1, 2, 3 … of turn "t", a second apart.
func fold(tr *event.Transcript, bs ...event.Body) (changed []string) {
	for i, b := range bs {
		changed = append(changed, tr.Apply(event.Event{Session: "s", Seq: int64(i + 1), At: time.Unix(int64(i+1), 0), Turn: "t", Body: b}))
	}
	return changed
}

func start(id string) event.ItemStart {
	return event.ItemStart{ItemID: id, ItemType: event.TypeMessage}
}

func done(id, text string) event.ItemDone {
	return event.ItemDone{ItemID: id, FinalItem: event.Message{Content: text, Origin: event.OriginAgent}}
}

func TestTranscriptRules(t *testing.T) {
	fault := event.Fault{Code: "AGENT_ERROR", Message: "m"}
	call := event.FunctionCall{Name: "Bash", CallID: "c", Arguments: json.RawMessage(`{"a":1}`)}
	for _, c := range []struct {
		name    string
		bodies  []event.Body
		changed string // ids, in order
		want    event.Item
	}{
		{"open item grows",
			[]event.Body{event.ItemStart{ItemID: "i", ItemType: event.TypeMessage, InitialContent: "a", ParentCallID: "p"},
				event.ItemDelta{ItemID: "i", DeltaContent: "b"}, event.ItemDelta{ItemID: "i", DeltaContent: "c"}},
			"i i i", event.Item{Type: event.TypeMessage, Status: event.ItemOpen, Content: "abc", ParentCallID: "p", Seq: 3}},
		{"done overrides deltas",
			[]event.Body{start("i"), event.ItemDelta{ItemID: "i", DeltaContent: "draft"}, done("i", "final")},
			"i i i", event.Item{Type: event.TypeMessage, Status: event.ItemComplete, Content: "final", Final: done("i", "final").FinalItem, Seq: 3}},
		{"done without start is whole",
			[]event.Body{done("i", "x")},
			"i", event.Item{Type: event.TypeMessage, Status: event.ItemComplete, Content: "x", Final: done("i", "x").FinalItem, Seq: 1}},
		{"call", []event.Body{event.ItemStart{ItemID: "i", ItemType: event.TypeFunctionCall, Name: "Bash", CallID: "c"},
			event.ItemDelta{ItemID: "i", DeltaContent: `{"a"`}, event.ItemDone{ItemID: "i", FinalItem: call}},
			"i i i", event.Item{Type: event.TypeFunctionCall, Status: event.ItemComplete, Name: "Bash", CallID: "c", Content: `{"a":1}`, Final: call, Seq: 3}},
		{"error keeps the text", []event.Body{start("i"), event.ItemDelta{ItemID: "i", DeltaContent: "a"}, event.ItemError{ItemID: "i", Error: fault}},
			"i i i", event.Item{Type: event.TypeMessage, Status: event.ItemFailed, Content: "a", Fault: &fault, Seq: 3}},
		{"cancelled keeps the text", []event.Body{start("i"), event.ItemDelta{ItemID: "i", DeltaContent: "a"}, event.ItemCancelled{ItemID: "i", Reason: event.ReasonTimeout}},
			"i i i", event.Item{Type: event.TypeMessage, Status: event.ItemStopped, Content: "a", Reason: event.ReasonTimeout, Seq: 3}},
		{"a done item never changes", []event.Body{done("i", "x"), event.ItemDelta{ItemID: "i", DeltaContent: "y"}, start("i"), done("i", "z"),
			event.ItemError{ItemID: "i", Error: fault}, event.ItemCancelled{ItemID: "i"}},
			"i     ", event.Item{Type: event.TypeMessage, Status: event.ItemComplete, Content: "x", Final: done("i", "x").FinalItem, Seq: 1}},
		{"a failed item never changes", []event.Body{start("i"), event.ItemError{ItemID: "i", Error: fault}, done("i", "z"), event.ItemDelta{ItemID: "i", DeltaContent: "y"}},
			"i i  ", event.Item{Type: event.TypeMessage, Status: event.ItemFailed, Fault: &fault, Seq: 2}},
		{"a cancelled item never changes", []event.Body{start("i"), event.ItemCancelled{ItemID: "i"}, done("i", "z")},
			"i i ", event.Item{Type: event.TypeMessage, Status: event.ItemStopped, Seq: 2}},
		{"a second start changes nothing", []event.Body{start("i"), event.ItemDelta{ItemID: "i", DeltaContent: "a"}, start("i")},
			"i i ", event.Item{Type: event.TypeMessage, Status: event.ItemOpen, Content: "a", Seq: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tr event.Transcript
			if got := strings.Join(fold(&tr, c.bodies...), " "); got != c.changed {
				t.Errorf("changed %q, want %q", got, c.changed)
			}
			got, ok := tr.Item("i")
			if !ok {
				t.Fatal("no item")
			}
			c.want.ID, c.want.Turn = "i", "t"
			c.want.StartedAt, c.want.UpdatedAt = time.Unix(1, 0), time.Unix(c.want.Seq, 0)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if n := len(tr.Items()); n != 1 {
				t.Errorf("%d items, want 1", n)
			}
		})
	}
}

func TestTranscriptIgnoresWhatHasNoItem(t *testing.T) {
	var tr event.Transcript
	for _, id := range fold(&tr, event.ItemDelta{ItemID: "i", DeltaContent: "x"}, event.ItemError{ItemID: "i"}, event.ItemCancelled{ItemID: "i"},
		event.ItemDone{ItemID: "i"}, event.ResponseStart{}, event.Notice{}, event.ResponseDone{}, nil) {
		if id != "" {
			t.Errorf("changed %q", id)
		}
	}
	if items := tr.Items(); len(items) != 0 {
		t.Errorf("items %v", items)
	}
}

func TestTranscriptKeepsTheOrderOfStarts(t *testing.T) {
	var tr event.Transcript
	fold(&tr, start("b"), start("a"), start("c"), done("a", ""), done("d", ""))
	var ids []string
	for _, it := range tr.Items() {
		ids = append(ids, it.ID)
	}
	if diff := cmp.Diff([]string{"b", "a", "c", "d"}, ids); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[string]bool{"b": true, "a": false, "c": true, "d": false, "e": false} {
		if tr.Open(id) != want {
			t.Errorf("item %s: open is %v", id, !want)
		}
	}
}

func TestTranscriptReleasesContent(t *testing.T) {
	var tr event.Transcript
	fold(&tr, start("ended"), done("ended", "text"), start("open"), event.ItemDelta{ItemID: "open", DeltaContent: "text"})
	for _, id := range []string{"ended", "open", "unknown"} {
		tr.Release(id)
	}
	if it, ok := tr.Item("ended"); !ok || it.Content != "" || it.Final != nil || it.Status != event.ItemComplete {
		t.Errorf("the ended item is %+v", it)
	}
	if it, _ := tr.Item("open"); it.Content != "text" {
		t.Errorf("the open item is %+v", it)
	}
	if got := fold(&tr, start("ended"), done("ended", "again")); strings.Join(got, "") != "" {
		t.Errorf("late events changed %q", got)
	}
	if len(tr.Items()) != 2 {
		t.Errorf("there are %d items", len(tr.Items()))
	}
}

func TestTranscriptForget(t *testing.T) {
	var tr event.Transcript
	tr.DropTurn("nothing yet")
	for i := range 6 {
		tr.Apply(event.Event{Turn: fmt.Sprint("t", i%2), Body: start(fmt.Sprint(i))})
	}
	tr.DropTurn("t0")
	var ids []string
	for _, it := range tr.Items() {
		ids = append(ids, it.ID)
	}
	if diff := cmp.Diff([]string{"1", "3", "5"}, ids); diff != "" {
		t.Error(diff)
	}
	if _, ok := tr.Item("0"); ok {
		t.Error("item 0 is still there")
	}
	if tr.Apply(event.Event{Turn: "t0", Body: event.ItemDelta{ItemID: "0", DeltaContent: "late"}}) != "" {
		t.Error("a forgotten item changed")
	}
}

// An item that Item has returned does not change when later events are applied.
func TestTranscriptItemIsASnapshot(t *testing.T) {
	var tr event.Transcript
	fold(&tr, start("i"), event.ItemDelta{ItemID: "i", DeltaContent: "ab"})
	before, _ := tr.Item("i")
	fold(&tr, event.ItemDelta{ItemID: "i", DeltaContent: "cd"}, done("i", "other"))
	if before.Content != "ab" || before.Status != event.ItemOpen {
		t.Errorf("snapshot became %+v", before)
	}
}

// For any sequence of events, an item has the text that was appended before its
// end, in order, or the text of its ItemDone.
func TestTranscriptAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr event.Transcript
		text, ended := map[string]string{}, map[string]bool{}
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
			_, known := text[id]
			var b event.Body
			var changes bool
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				b, changes = start(id), !known
				if changes {
					text[id] = ""
				}
			case 1:
				d := rapid.StringN(0, 3, -1).Draw(t, "delta")
				b, changes = event.ItemDelta{ItemID: id, DeltaContent: d}, known && !ended[id]
				if changes {
					text[id] += d
				}
			case 2:
				d := rapid.StringN(0, 3, -1).Draw(t, "final")
				b, changes = done(id, d), !ended[id]
				if changes {
					text[id], ended[id] = d, true
				}
			case 3:
				b, changes = event.ItemError{ItemID: id}, known && !ended[id]
				ended[id] = ended[id] || known
			case 4:
				b, changes = event.ItemCancelled{ItemID: id}, known && !ended[id]
				ended[id] = ended[id] || known
			}
			if got := tr.Apply(event.Event{Turn: "t", Body: b}); (got == id) != changes {
				t.Fatalf("%T %s: changed %q, want change %v", b, id, got, changes)
			}
			for id, want := range text {
				if got, _ := tr.Item(id); got.Content != want || (got.Status == event.ItemOpen) == ended[id] {
					t.Fatalf("item %s is %q (%s), want %q", id, got.Content, got.Status, want)
				}
			}
		}
	})
}

func BenchmarkTranscriptMillionByteItem(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var tr event.Transcript
		tr.Apply(event.Event{Body: start("i")})
		for range 1 << 18 {
			tr.Apply(event.Event{Body: event.ItemDelta{ItemID: "i", DeltaContent: "abc "}})
			if it, _ := tr.Item("i"); it.ID == "" {
				b.Fatal("no item")
			}
		}
	}
}
