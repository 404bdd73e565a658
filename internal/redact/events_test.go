package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

const (
	secretA = "correct-horse-battery-staple"
	secretB = "zwölf/Boxkämpfer+jagen=Eva"
	secretC = "ghp_0123456789abcdefABCDEF0123456789abcd"
)

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte("x" + s + "yz")) }

// Texts with secrets are cut into deltas at random places. The redacted deltas
// together are equal to the redacted final item, and neither contains a secret.
func TestDeltasAddUpToTheFinal(t *testing.T) {
	r := New(secretA, secretB)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		text := ""
		for range 1 + rng.IntN(5) {
			text += []string{"plain words ", secretA, secretB, secretC, encoded(secretA), secretA[:9], " sk-", "\n", "Authorization: Bearer abcdefgh"}[rng.IntN(9)]
		}
		e := r.Events()
		got := take(e, event.ItemStart{ItemID: "t:1:0", ItemType: event.TypeMessage})
		for rest := []rune(text); len(rest) > 0; {
			n := 1 + rng.IntN(min(12, len(rest)))
			got = append(got, take(e, event.ItemDelta{ItemID: "t:1:0", DeltaContent: string(rest[:n])})...)
			rest = rest[n:]
		}
		got = append(got, take(e, event.ItemDone{ItemID: "t:1:0", FinalItem: event.Message{Content: text, Origin: event.OriginAgent}})...)
		var sum string
		for _, ev := range got {
			noSecret(t, ev)
			switch b := ev.Body.(type) {
			case event.ItemDelta:
				sum += b.DeltaContent
			case event.ItemDone:
				if final := b.FinalItem.(event.Message).Content; final != sum {
					t.Fatalf("%q: the deltas are %q, the final item is %q", text, sum, final)
				}
			}
		}
	}
}

func take(e *Events, b event.Body) []event.Event {
	return append([]event.Event(nil), e.Event(event.Event{Turn: "t", Body: b})...)
}

func noSecret(t *testing.T, ev event.Event) {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(ev); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{secretA, secretB, secretC, encoded(secretA)[2:20], encoded(secretB)[2:20]} {
		if strings.Contains(buf.String(), s) {
			t.Fatalf("%s holds %q", buf.String(), s)
		}
	}
}

// The test puts secrets into every text that an agent can set.
func TestEveryFieldOfEveryEvent(t *testing.T) {
	r := New(secretA, secretB)
	dirty := "a " + secretA + " " + secretB + " " + secretC + " " + encoded(secretA)
	args, err := json.Marshal(map[string]any{"cmd": dirty, dirty: []string{dirty}, "n": 1})
	if err != nil {
		t.Fatal(err)
	}
	escaped := json.RawMessage(`{"x":"\u0063orrect-horse-battery-staple","y":1.50}`)
	changes := []event.Change{{
		Path: dirty, Kind: event.ChangeUpdate, MovedTo: dirty, OldText: &dirty, NewText: &dirty,
		Hunks: []event.Hunk{{OldStart: 1, OldLines: 1, NewStart: 1, NewLines: 1, Lines: []string{"-" + dirty, "+" + dirty, " same"}}},
	}}
	fault := event.Fault{Code: "X", Message: dirty}
	for _, b := range []event.Body{
		event.ResponseStart{ProviderID: "p"},
		event.ItemStart{ItemID: "1", ItemType: event.TypeFunctionCall, CallID: "c", Name: dirty, InitialContent: dirty},
		event.ItemDelta{ItemID: "1", DeltaContent: dirty},
		event.ItemDelta{ItemID: "never started", DeltaContent: dirty},
		event.ItemError{ItemID: "1", Error: fault},
		event.ItemDone{ItemID: "2", FinalItem: event.Message{Content: dirty, Origin: event.OriginAgent}},
		event.ItemDone{ItemID: "2", FinalItem: event.Reasoning{Content: dirty}},
		event.ItemDone{ItemID: "2", FinalItem: event.FunctionCall{Name: dirty, CallID: "c", Arguments: args, Title: dirty, Locations: []event.Location{{Path: dirty}}}},
		event.ItemDone{ItemID: "2", FinalItem: event.FunctionCall{Name: "n", CallID: "c", Arguments: escaped}},
		event.ItemDone{ItemID: "2", FinalItem: event.FunctionCallOutput{CallID: "c", Output: dirty, Detail: args, Changes: changes}},
		event.ItemDone{ItemID: "2", FinalItem: event.Plan{Entries: []event.PlanEntry{{Content: dirty}}}},
		event.ItemCancelled{ItemID: "1"},
		event.ApprovalRequested{Approval: event.Approval{
			ID: "a", Kind: event.ApprovalTool, Title: dirty, ToolName: dirty, Arguments: args, ArgumentsEditable: true, ArgumentsDigest: "d",
			Why: dirty, Changes: changes, Choices: []event.Choice{{ID: "y", Kind: event.ChoiceAllowOnce, Label: dirty}},
		}},
		event.ApprovalResolved{ApprovalID: "a", Choice: "y", By: event.ByAgent, Reason: dirty},
		event.SessionUpdated{Title: dirty, Tools: []string{dirty}, Commands: []event.AgentCommand{{Name: dirty, Description: dirty, Hint: dirty}}},
		event.SessionUpdated{Config: []event.ConfigOption{{ID: "o", Type: event.ConfigSelect, Name: dirty, Description: dirty, Value: dirty, Choices: []event.ConfigChoice{{Value: dirty, Name: dirty, Description: dirty, Group: dirty}}}}},
		event.Notice{Level: event.LevelInfo, Code: "X", Message: dirty},
		event.ResponseDone{Status: event.StatusCompleted, FinishReason: dirty, Error: &fault},
		event.ResponseError{Error: fault},
	} {
		for _, ev := range take(r.Events(), b) {
			noSecret(t, ev)
			if data, err := json.Marshal(ev); err != nil || !json.Valid(data) {
				t.Errorf("%T: not JSON any more: %v", b, err)
			}
			if a, ok := ev.Body.(event.ApprovalRequested); ok && (a.Approval.ArgumentsEditable || a.Approval.ArgumentsDigest != "d") {
				t.Errorf("arguments that are not all shown can be edited, or lost their digest: %+v", a.Approval)
			}
			if d, ok := ev.Body.(event.ItemDone); ok {
				if f, ok := d.FinalItem.(event.FunctionCall); ok && string(f.Arguments) == string(escaped) {
					t.Error("an escaped secret survives")
				}
			}
		}
	}
	if dirty != "a "+secretA+" "+secretB+" "+secretC+" "+encoded(secretA) || changes[0].Path != dirty || !strings.Contains(changes[0].Hunks[0].Lines[0], secretA) {
		t.Error("what the provider holds was changed")
	}
}

func TestUsersOwnWordsStay(t *testing.T) {
	evs := take(New(secretA).Events(), event.ItemDone{ItemID: "1", FinalItem: event.Message{Content: secretA, Origin: event.OriginUser}})
	if got := evs[0].Body.(event.ItemDone).FinalItem.(event.Message).Content; got != secretA {
		t.Errorf("got %q", got)
	}
}

func TestWhatWasHeldBackIsToldBeforeTheEnd(t *testing.T) {
	for name, end := range map[string]func(*Events) []event.Event{
		"cancelled": func(e *Events) []event.Event {
			return e.Event(event.Event{Turn: "t", Body: event.ItemCancelled{ItemID: "i"}})
		},
		"error": func(e *Events) []event.Event {
			return e.Event(event.Event{Turn: "t", Body: event.ItemError{ItemID: "i"}})
		},
		"turn":  func(e *Events) []event.Event { return e.Event(event.Event{Turn: "t", Body: event.ResponseDone{}}) },
		"agent": func(e *Events) []event.Event { return e.End() },
	} {
		e := New(secretA).Events()
		take(e, event.ItemStart{ItemID: "i", ItemType: event.TypeMessage})
		if got := take(e, event.ItemDelta{ItemID: "i", DeltaContent: secretA[:8]}); len(got) != 0 {
			t.Errorf("%s: %v came too early", name, got)
		}
		got := end(e)
		if len(got) == 0 || got[0].Turn != "t" || got[0].Body != (event.ItemDelta{ItemID: "i", DeltaContent: secretA[:8]}) {
			t.Errorf("%s: %v", name, got)
		}
		if len(e.open) != 0 {
			t.Errorf("%s: %d items are still open", name, len(e.open))
		}
	}
}

// A hunk of a diff may begin within a key.
func TestHunkThatBeginsWithinAKey(t *testing.T) {
	body := strings.Repeat("Ab+/", 16)
	for _, tt := range []struct{ lines, want []string }{
		{
			[]string{" " + body, "-" + body + "2", "+" + body[:20], " -----END RSA PRIVATE KEY-----", " after"},
			[]string{" " + Marker, "-" + Marker, "+" + Marker, " " + Marker, " after"},
		},
		{[]string{" word", " -----END CERTIFICATE-----"}, []string{" word", " -----END CERTIFICATE-----"}},
		{[]string{" two words", " -----END PRIVATE KEY-----"}, []string{" two words", " -----END PRIVATE KEY-----"}},
	} {
		if got := New().hunk(event.Hunk{Lines: tt.lines}).Lines; !slices.Equal(got, tt.want) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// An agent may start any number of items and end none. The memory for them is
// bounded, and no part of a secret is shown.
func TestOpenItemsAreBounded(t *testing.T) {
	e := New(secretA).Events()
	id := func(i int) string { return fmt.Sprint("i", i) }
	for i := range 2 * maxOpen {
		take(e, event.ItemStart{ItemID: id(i), ItemType: event.TypeMessage, InitialContent: secretA[:8]})
	}
	if len(e.open) != maxOpen {
		t.Errorf("%d items are open", len(e.open))
	}
	if got := take(e, event.ItemDelta{ItemID: id(maxOpen), DeltaContent: secretA[8:]}); len(got) != 0 {
		t.Errorf("shown: %v", got)
	}
	done := event.ItemDone{ItemID: id(maxOpen), FinalItem: event.Message{Content: secretA + " text", Origin: event.OriginAgent}}
	if got, want := take(e, done), Marker+" text"; len(got) != 1 || got[0].Body.(event.ItemDone).FinalItem.(event.Message).Content != want {
		t.Errorf("got %v", got)
	}
	got := e.Event(event.Event{Turn: "t", Body: event.ResponseDone{}})
	if len(got) != maxOpen+1 || len(e.open) != 0 {
		t.Errorf("%d events, %d items are still open", len(got), len(e.open))
	}
	take(e, event.ItemStart{ItemID: "next", ItemType: event.TypeMessage})
	if got := take(e, event.ItemDelta{ItemID: "next", DeltaContent: "text "}); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestAKeyOverTheLinesOfAHunk(t *testing.T) {
	body := strings.Repeat("Ab+/", 16)
	lines := []string{" before", "+-----BEGIN PRIVATE KEY-----", "+" + body, "+" + body + "2", "+-----END PRIVATE KEY-----", " after"}
	h := new(Redactor).hunk(event.Hunk{Lines: lines})
	want := []string{" before", "+" + Marker, "+" + Marker, "+" + Marker, "+" + Marker, " after"}
	if fmt.Sprint(h.Lines) != fmt.Sprint(want) {
		t.Errorf("got %q", h.Lines)
	}
}

type holder struct{ Secret string }

func TestLogsHoldNoSecrets(t *testing.T) {
	r := New(secretA, secretB)
	for name, h := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var buf bytes.Buffer
		log := slog.New(r.Handler(h(&buf)))
		log.With("with", secretA).WithGroup("g").With("x", errors.New(secretB)).Error("message "+secretA,
			"string", secretB, "error", fmt.Errorf("wrapped: %w", errors.New(secretA)), "bytes", []byte(secretA), "struct", holder{secretA},
			"pointer", &holder{secretB}, "nested", []any{&holder{secretA}}, "group", slog.GroupValue(slog.String("k", secretA)),
			"valuer", slogValuer{}, "token", secretC, "n", 7, secretA, 1)
		for _, s := range []string{secretA, secretB, secretC, base64.StdEncoding.EncodeToString([]byte(secretA))[:20]} {
			if strings.Contains(buf.String(), s) {
				t.Errorf("%s: the log holds %q:\n%s", name, s, buf.String())
			}
		}
		if !strings.Contains(buf.String(), "message "+Marker) || !strings.Contains(buf.String(), "7") {
			t.Errorf("%s: the log lost more than its secrets:\n%s", name, buf.String())
		}
	}
}

type slogValuer struct{}

func (slogValuer) LogValue() slog.Value { return slog.StringValue(secretB) }

func BenchmarkEventDelta(b *testing.B) {
	e := New(benchValues()...).Events()
	e.Event(event.Event{Turn: "t", Body: event.ItemStart{ItemID: "t:1:0", ItemType: event.TypeMessage}})
	ev := event.Event{Turn: "t", Body: event.ItemDelta{ItemID: "t:1:0", DeltaContent: "the quick brown fox jumps over it "}}
	b.ReportAllocs()
	for b.Loop() {
		e.Event(ev)
	}
}

// FuzzRedactedJSONStaysJSON checks that a redacted JSON value is valid JSON and
// that none of its strings contains a secret.
func FuzzRedactedJSONStaysJSON(f *testing.F) {
	for _, doc := range []string{
		`{"cmd":"echo correct-horse-battery-staple"}`, `["\u0063orrect-horse-battery-staple",1e5,null,{"a":[]}]`,
		`"-----BEGIN PRIVATE KEY-----\nMIIE"`, `{"correct-horse-battery-staple":{"x":"zwölf/Boxkämpfer+jagen=Eva\\"}}`,
		`{"a":"Authorization: Bearer \"abcdefgh\"","b":"correct-horse-","c":"battery-staple"}`, `"\ud800correct-horse-battery-staple"`,
	} {
		f.Add([]byte(doc))
	}
	r := New(secretA, secretB)
	f.Fuzz(func(t *testing.T, doc []byte) {
		if !json.Valid(doc) {
			t.Skip()
		}
		out := r.raw(doc)
		var v any
		dec := json.NewDecoder(bytes.NewReader(out))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil || !json.Valid(out) {
			t.Fatalf("%q became %q: %v", doc, out, err)
		}
		var walk func(v any)
		walk = func(v any) {
			switch v := v.(type) {
			case string:
				if strings.Contains(v, secretA) || strings.Contains(v, secretB) {
					t.Fatalf("%q became %q", doc, out)
				}
			case []any:
				for _, e := range v {
					walk(e)
				}
			case map[string]any:
				for k, e := range v {
					walk(k)
					walk(e)
				}
			}
		}
		walk(v)
		if again := r.raw(out); string(again) != string(out) && !strings.Contains(string(out), "BEGIN") {
			t.Fatalf("%q became %q, and then %q", doc, out, again)
		}
	})
}
