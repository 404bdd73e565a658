package event_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/runnel-dev/runnel/event"
	"pgregory.net/rapid"
)

func TestTypesAreTheGeneratedOnes(t *testing.T) {
	want := slices.Sorted(maps.Keys(bodies))
	got := slices.Sorted(slices.Values(event.Types()))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for typ, draw := range bodies {
		t.Run(typ, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := envelope(t, draw.Draw(t, "body"))
				if err := want.Validate(); err != nil {
					t.Fatal(err)
				}
				data, err := json.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				var got event.Event
				if err := json.Unmarshal(data, &got); err != nil {
					t.Fatalf("%v\n%s", err, data)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s\n%s", diff, data)
				}
			})
		})
	}
}

func TestJSONIsTheContract(t *testing.T) {
	at := time.Date(2026, 11, 1, 10, 0, 0, 1_000_000, time.FixedZone("CET", 3600))
	zero := 0
	empty := ""
	for _, c := range []struct {
		name string
		body event.Body
		want string
	}{
		{"item_start", event.ItemStart{ItemID: "t:0:0", ItemType: event.TypeFunctionCall, CallID: "c", Name: "Bash", ParentCallID: "p"},
			`{"type":"item_start","itemId":"t:0:0","itemType":"function_call","callId":"c","name":"Bash","parentCallId":"p"}`},
		{"empty delta", event.ItemDelta{ItemID: "i"}, `{"type":"item_delta","itemId":"i","deltaContent":""}`},
		{"message", event.ItemDone{ItemID: "i", FinalItem: event.Message{Origin: event.OriginAgent}},
			`{"type":"item_done","itemId":"i","finalItem":{"type":"message","content":"","origin":"agent"}}`},
		{"output", event.ItemDone{ItemID: "i", FinalItem: event.FunctionCallOutput{CallID: "c", ExitCode: &zero, Changes: []event.Change{
			{Path: "a", Kind: event.ChangeUpdate, OldText: &empty, Hunks: []event.Hunk{}}}}},
			`{"type":"item_done","itemId":"i","finalItem":{"type":"function_call_output","callId":"c","output":"","isError":false,` +
				`"changes":[{"path":"a","kind":"update","oldText":"","hunks":[]}],"exitCode":0}}`},
		{"usage", event.UsageUpdated{}, `{"type":"usage_updated"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(event.Event{Session: "s", Seq: 7, At: at, Turn: "t", Body: c.body})
			if err != nil {
				t.Fatal(err)
			}
			want := `{"eventId":"s:7","seq":7,"timestamp":"2026-11-01T09:00:00.001Z","sessionId":"s","turnId":"t","type":"` +
				event.Type(c.body) + `","payload":` + c.want + `}`
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestJSONKeepsEmptyApartFromAbsent(t *testing.T) {
	data := []byte(`{"type":"item_done","itemId":"i","finalItem":{"type":"function_call_output","callId":"c","output":"","isError":false,
		"changes":[{"path":"a","kind":"update","newText":"","hunks":[]}]}}`)
	b, err := event.UnmarshalBody(data)
	if err != nil {
		t.Fatal(err)
	}
	ch := b.(event.ItemDone).FinalItem.(event.FunctionCallOutput).Changes[0]
	if ch.NewText == nil || *ch.NewText != "" {
		t.Errorf("newText = %v, want an empty string", ch.NewText)
	}
	if ch.OldText != nil {
		t.Errorf("oldText = %q, want none", *ch.OldText)
	}
}

func TestJSONRejectsByName(t *testing.T) {
	for _, c := range []struct{ name, typ, payload, want string }{
		{"other type", "item_delta", `{"type":"item_done","itemId":"i","finalItem":{"type":"plan","entries":[]}}`, `payload.type "item_done" is not type "item_delta"`},
		{"payload without type", "item_delta", `{"itemId":"i"}`, "payload.type: missing"},
		{"no payload", "item_delta", `null`, "payload: missing"},
		{"payload is no object", "item_delta", `[]`, "payload"},
		{"unknown type", "item_deltas", `{"type":"item_deltas"}`, `type: unknown "item_deltas"`},
		{"item_start without itemId", "item_start", `{"type":"item_start","itemType":"message"}`, "item_start: itemId: missing"},
		{"item_start of unknown itemType", "item_start", `{"type":"item_start","itemId":"i","itemType":"poem"}`, `item_start: itemType: unknown "poem"`},
		{"call without name", "item_start", `{"type":"item_start","itemId":"i","itemType":"function_call","callId":"c"}`, "item_start: name: missing"},
		{"call without callId", "item_start", `{"type":"item_start","itemId":"i","itemType":"function_call","name":"n"}`, "item_start: callId: missing"},
		{"output without callId", "item_start", `{"type":"item_start","itemId":"i","itemType":"function_call_output"}`, "item_start: callId: missing"},
		{"item_delta without itemId", "item_delta", `{"type":"item_delta","deltaContent":"x"}`, "item_delta: itemId: missing"},
		{"deltaContent of wrong type", "item_delta", `{"type":"item_delta","itemId":"i","deltaContent":5}`, "deltaContent"},
		{"item_done without itemId", "item_done", `{"type":"item_done","finalItem":{"type":"plan","entries":[]}}`, "item_done: itemId: missing"},
		{"item_done without finalItem", "item_done", `{"type":"item_done","itemId":"i"}`, "item_done: finalItem: missing"},
		{"finalItem is null", "item_done", `{"type":"item_done","itemId":"i","finalItem":null}`, "item_done: finalItem: missing"},
		{"finalItem without type", "item_done", `{"type":"item_done","itemId":"i","finalItem":{}}`, "finalItem.type: missing"},
		{"finalItem of unknown type", "item_done", `{"type":"item_done","itemId":"i","finalItem":{"type":"poem"}}`, `finalItem.type: unknown "poem"`},
		{"message of unknown origin", "item_done", `{"type":"item_done","itemId":"i","finalItem":{"type":"message","content":"","origin":"me"}}`, `finalItem.origin: unknown "me"`},
		{"final call without arguments", "item_done", `{"type":"item_done","itemId":"i","finalItem":{"type":"function_call","name":"n","callId":"c"}}`, "finalItem.arguments"},
		{"final call without callId", "item_done", `{"type":"item_done","itemId":"i","finalItem":{"type":"function_call","name":"n","arguments":{}}}`, "finalItem.callId: missing"},
		{"final output without callId", "item_done", `{"type":"item_done","itemId":"i","finalItem":{"type":"function_call_output"}}`, "finalItem.callId: missing"},
		{"item_error without code", "item_error", `{"type":"item_error","itemId":"i","error":{"message":"m"}}`, "item_error: error.code: missing"},
		{"item_cancelled of unknown reason", "item_cancelled", `{"type":"item_cancelled","itemId":"i","reason":"bored"}`, `item_cancelled: reason: unknown "bored"`},
		{"response_start without providerId", "response_start", `{"type":"response_start"}`, "response_start: providerId: missing"},
		{"response_done of unknown status", "response_done", `{"type":"response_done","status":"fine"}`, `response_done: status: unknown "fine"`},
		{"response_done without status", "response_done", `{"type":"response_done"}`, `response_done: status`},
		{"response_error without code", "response_error", `{"type":"response_error","error":{}}`, "response_error: error.code: missing"},
		{"approval without id", "approval_requested", `{"type":"approval_requested","approval":{"kind":"tool","choices":[{"id":"a"}]}}`, "approval.id: missing"},
		{"approval without choices", "approval_requested", `{"type":"approval_requested","approval":{"id":"a","kind":"tool"}}`, "approval.choices: empty"},
		{"choice without id", "approval_requested", `{"type":"approval_requested","approval":{"id":"a","kind":"tool","choices":[{"id":"x"},{}]}}`, "approval.choices[1].id: missing"},
		{"resolved without approvalId", "approval_resolved", `{"type":"approval_resolved","choice":"a","by":"user"}`, "approvalId: missing"},
		{"resolved by nobody", "approval_resolved", `{"type":"approval_resolved","approvalId":"a","choice":"a","by":"cat"}`, `by: unknown "cat"`},
		{"notice without code", "notice", `{"type":"notice","level":"info"}`, "notice: code: missing"},
		{"notice of unknown level", "notice", `{"type":"notice","level":"loud","code":"c"}`, `notice: level: unknown "loud"`},
		{"unknown value is bounded", strings.Repeat("y", 1<<16), `{"type":"` + strings.Repeat("y", 1<<16) + `"}`, "yyy…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := `{"seq":1,"timestamp":"2026-01-01T00:00:00Z","sessionId":"s","type":"` + c.typ + `","payload":` + c.payload + `}`
			var ev event.Event
			err := json.Unmarshal([]byte(data), &ev)
			if err == nil {
				t.Fatalf("accepted as %+v", ev)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not say %q", err, c.want)
			}
			if len(err.Error()) > 1024 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestJSONIgnoresUnknownFields(t *testing.T) {
	data := `{"seq":1,"timestamp":"2026-01-01T00:00:00Z","sessionId":"s","new":1,"type":"item_delta","payload":{"type":"item_delta","itemId":"i","deltaContent":"x","new":[]}}`
	var got event.Event
	if err := json.Unmarshal([]byte(data), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(event.Body(event.ItemDelta{ItemID: "i", DeltaContent: "x"}), got.Body); diff != "" {
		t.Fatal(diff)
	}
}

func TestMarshalRejectsNothing(t *testing.T) {
	for name, ev := range map[string]event.Event{
		"no body":       {},
		"no final item": {Body: event.ItemDone{ItemID: "i"}},
	} {
		if data, err := json.Marshal(ev); err == nil {
			t.Errorf("%s: encoded as %s", name, data)
		}
	}
}

// Every event that Unmarshal accepts can be marshalled, and the result
// unmarshals to the same event.
func FuzzEventJSON(f *testing.F) {
	for _, p := range []string{
		`{"type":"item_delta","itemId":"i","deltaContent":"\ud83d"}`,
		`{"type":"item_done","itemId":"i","finalItem":{"type":"function_call","name":"n","callId":"c","arguments": {"a" : "<"}}}`,
		`{"type":"item_done","itemId":"i","finalItem":{"type":"function_call_output","callId":"c","changes":[{"newText":""}],"detail":null}}`,
		`{"type":"approval_requested","approval":{"id":"a","kind":"tool","arguments":null,"choices":[{"id":"x"}]}}`,
		`{"type":"usage_updated","costUsd":0.1,"rateLimit":{}}`,
	} {
		b, err := event.UnmarshalBody([]byte(p))
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(`{"seq":1,"timestamp":"9999-12-31T23:59:59-10:00","sessionId":"s","type":"` + event.Type(b) + `","payload":` + p + `}`))
		f.Add([]byte(`{"seq":1,"timestamp":"2026-01-01T00:00:00.5+02:00","sessionId":"s","type":"` + event.Type(b) + `","payload":` + p + `}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var one, two event.Event
		if json.Unmarshal(data, &one) != nil {
			return
		}
		first, err := json.Marshal(one)
		if err != nil {
			t.Fatalf("accepted but cannot be written: %v", err)
		}
		if err := json.Unmarshal(first, &two); err != nil {
			t.Fatalf("written but not accepted: %v\n%s", err, first)
		}
		second, err := json.Marshal(two)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(first), string(second)); diff != "" {
			t.Fatal(diff)
		}
	})
}
