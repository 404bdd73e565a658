package universal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/universal"
)

// push returns the universal events for bodies of one turn.
func push(s *universal.Stream, bodies ...event.Body) []universal.Event {
	var out []universal.Event
	for i, b := range bodies {
		out = append(out, s.Push(event.Event{Session: "s", Seq: int64(i + 1), Turn: "t", Body: b})...)
	}
	return out
}

// brief returns the kinds, channels, texts and messages of events, one event
// per line.
func brief(events []universal.Event) string {
	var lines []string
	for _, u := range events {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %s %s%s", u.Kind, u.Channel, u.Text, u.Message), " "))
	}
	return strings.Join(lines, "\n")
}

func TestFieldsAreBounded(t *testing.T) {
	long := strings.Repeat("é", 70_000)
	for _, b := range []event.Body{
		event.ItemDone{ItemID: "x", FinalItem: event.Message{Content: "a" + long, Origin: event.OriginAgent}},
		event.ResponseError{Error: event.Fault{Code: "X", Message: long}},
		event.ItemDone{ItemID: "x", FinalItem: event.Plan{Entries: []event.PlanEntry{{Content: long}}}},
	} {
		text := ""
		for _, u := range push(&universal.Stream{AgentKind: "script", Results: true}, b) {
			if len(u.Channel) > 128 || len(u.Text) > 65_536 || len(u.Message) > 4_096 || len(u.Data) > 65_536 {
				t.Errorf("%T: %d %d %d %d", b, len(u.Channel), len(u.Text), len(u.Message), len(u.Data))
			}
			if !utf8.ValidString(u.Text) || !utf8.ValidString(u.Message) {
				t.Errorf("%T: a character was split", b)
			}
			if u.Kind == universal.ErrorInfo && (len(u.Message) < 4_090 || !strings.HasSuffix(u.Message, "…(truncated)")) {
				t.Errorf("message of %d bytes ends in %q", len(u.Message), u.Message[len(u.Message)-20:])
			}
			if u.Channel == "plan" && string(u.Data) != `{"dropped":{"reason":"oversize"}}` {
				t.Errorf("data is %.60s", u.Data)
			}
			text += u.Text
		}
		if d, ok := b.(event.ItemDone); ok && d.FinalItem.ItemType() == event.TypeMessage && text != "a"+long {
			t.Error("the text was not kept whole")
		}
	}
}

func TestOnlyTheAgentsAnswerIsOnTheAssistantChannel(t *testing.T) {
	message := func(id string, origin event.Origin, content string) event.Body {
		return event.ItemDone{ItemID: id, FinalItem: event.Message{Content: content, Origin: origin}}
	}
	got := brief(push(&universal.Stream{AgentKind: "script"},
		message("t:0:0", event.OriginUser, "the prompt"),
		event.ResponseStart{ModelID: "m", ProviderID: "script"},
		event.ItemDone{ItemID: "t:1:0", FinalItem: event.Reasoning{Content: "hm"}},
		event.ItemStart{ItemID: "t:c/1:0", ItemType: event.TypeMessage, ParentCallID: "c"},
		message("t:c/1:0", event.OriginAgent, "of a subagent"),
		message("t:2:0", event.OriginSystem, "compacted"),
		message("t:3:0", "someone", "who is this"),
		message("t:4:0", event.OriginAgent, "the answer"),
		message("t:5:0", event.OriginAgent, ""),
		event.ResponseDone{Status: event.StatusCompleted},
	))
	want := `Status user prompt accepted
Status response_start started
TextOutput reasoning hm
TextOutput subagent of a subagent
Status system compacted
Unknown message
TextOutput assistant the answer
Status response_done completed`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestUnfinishedTextIsKept(t *testing.T) {
	start := func(id string, typ event.ItemType) event.Body { return event.ItemStart{ItemID: id, ItemType: typ} }
	got := brief(push(&universal.Stream{AgentKind: "script"},
		start("t:1:0", event.TypeMessage), event.ItemDelta{ItemID: "t:1:0", DeltaContent: "half a "}, event.ItemDelta{ItemID: "t:1:0", DeltaContent: "sen"},
		event.ItemError{ItemID: "t:1:0", Error: event.Fault{Code: "AGENT_ERROR", Message: "gone"}},
		start("t:2:0", event.TypeReasoning), event.ItemDelta{ItemID: "t:2:0", DeltaContent: "if"},
		event.ItemCancelled{ItemID: "t:2:0", Reason: event.ReasonUserCancel},
		event.ItemError{ItemID: "t:9:0", Error: event.Fault{Code: "AGENT_ERROR"}},
	))
	want := "TextOutput assistant half a sen\nError item_error gone\nTextOutput reasoning if\nStatus item_cancelled user_cancel\nError item_error AGENT_ERROR"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// calls are the events of two tool calls, one that succeeds and one that is
// cancelled, and of an approval that is answered.
func calls() []event.Body {
	code := 0
	return []event.Body{
		event.SessionUpdated{AgentSessionID: "conversation-1"},
		event.ItemStart{ItemID: "t:1:0", ItemType: event.TypeFunctionCall, CallID: "c1", Name: "Bash", Native: map[string]string{"itemId": "native-1"}},
		event.ItemDone{ItemID: "t:1:0", FinalItem: event.FunctionCall{Name: "Bash", CallID: "c1", Kind: event.KindExecute, Title: "cat secret", Arguments: json.RawMessage(`{"command":"cat secret"}`)}},
		event.ItemStart{ItemID: "t:1:0:output", ItemType: event.TypeFunctionCallOutput, CallID: "c1"},
		event.ItemDone{ItemID: "t:1:0:output", FinalItem: event.FunctionCallOutput{CallID: "c1", Output: "secret", ExitCode: &code,
			Changes: []event.Change{{Path: "secret", Hunks: []event.Hunk{{Lines: []string{"+secret"}}}}}}},
		event.ItemStart{ItemID: "t:2:0", ItemType: event.TypeFunctionCall, CallID: "c2", Name: "Read", ParentCallID: "c1"},
		event.ItemDelta{ItemID: "t:2:0", DeltaContent: `{"path":"sec`},
		event.ItemCancelled{ItemID: "t:2:0", Reason: event.ReasonUserCancel},
		event.ApprovalRequested{Approval: event.Approval{ID: "a", Title: "cat secret", ToolName: "Bash", Why: "to see the secret", Arguments: json.RawMessage(`{"command":"cat secret"}`)}},
		event.ApprovalResolved{ApprovalID: "a", Choice: "allow", By: event.ByUser, UpdatedArguments: json.RawMessage(`{"command":"cat secret"}`)},
	}
}

func TestToolFacetHasNoArgumentsAndNoOutput(t *testing.T) {
	events := push(&universal.Stream{AgentKind: "script"}, calls()...)
	var tools []string
	for _, u := range events {
		if all, _ := json.Marshal(u); bytes.Contains(all, []byte("secret")) {
			t.Errorf("%s", all)
		}
		if u.Kind == universal.ToolCall || u.Kind == universal.ToolResult {
			tools = append(tools, fmt.Sprintf("%s %s", u.Kind, u.Data))
		}
	}
	want := []string{
		`ToolCall {"schema":"agent_api.tools.structured.v1","tool":{"backend_item_id":"native-1","thread_id":"conversation-1","turn_id":"t","kind":"execute","phase":"start","status":"running","exit_code":null,"bytes":{"stdout":0,"stderr":0,"diff":0,"result":0},"tool_name":"Bash","tool_use_id":"c1"}}`,
		`ToolResult {"schema":"agent_api.tools.structured.v1","tool":{"backend_item_id":null,"thread_id":"conversation-1","turn_id":"t","kind":"execute","phase":"complete","status":"completed","exit_code":0,"bytes":{"stdout":6,"stderr":0,"diff":8,"result":0},"tool_name":"Bash","tool_use_id":"c1"}}`,
		`ToolResult {"schema":"agent_api.tools.structured.v1","tool":{"backend_item_id":null,"thread_id":"conversation-1","turn_id":"t","kind":"other","phase":"fail","status":"failed","exit_code":null,"bytes":{"stdout":0,"stderr":0,"diff":0,"result":0},"tool_name":"Read","tool_use_id":"c2","parent_use_id":"c1"}}`,
	}
	if strings.Join(tools, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(tools, "\n"), strings.Join(want, "\n"))
	}
}

func TestResultsHaveArgumentsAndOutputsWhereAskedFor(t *testing.T) {
	var all []byte
	for _, u := range push(&universal.Stream{AgentKind: "script", Results: true}, calls()...) {
		all = append(append(all, u.Message...), u.Data...)
	}
	for _, want := range []string{
		`"results":{"schema":"agent_api.tools.results.v1","title":"cat secret","arguments":{"command":"cat secret"}}`,
		`"results":{"schema":"agent_api.tools.results.v1","output":"secret","changes":[{"path":"secret"`,
		`"title":"cat secret"`, `"updatedArguments":{"command":"cat secret"}`,
	} {
		if !bytes.Contains(all, []byte(want)) {
			t.Errorf("%s is not in\n%s", want, all)
		}
	}
	large := event.FunctionCallOutput{CallID: "c1", Output: strings.Repeat("x", 70_000)}
	got := push(&universal.Stream{Results: true}, event.ItemDone{ItemID: "t:1:0:output", FinalItem: large})
	if data := string(got[0].Data); !strings.Contains(data, `"result":70000`) || !strings.Contains(data, `"results":{"dropped":{"reason":"oversize"}}`) {
		t.Errorf("a large result is %.400s", data)
	}
}

func TestHandleIsOnOneStatus(t *testing.T) {
	s := &universal.Stream{AgentKind: "script"}
	var handles []string
	for _, u := range push(s,
		event.SessionUpdated{Title: "before"},
		event.SessionUpdated{AgentSessionID: strings.Repeat("x", 1025)}, // never cut
		event.SessionUpdated{AgentSessionID: "first", ModelID: "m"},
		event.SessionUpdated{AgentSessionID: "first"},
		event.SessionUpdated{AgentSessionID: "second"},
	) {
		if bytes.Contains(u.Data, []byte("agent_api.session.handle.v1")) {
			handles = append(handles, string(u.Kind)+" "+string(u.Data))
		}
	}
	if want := `Status {"schema":"agent_api.session.handle.v1","session":{"id":"first"}}`; strings.Join(handles, "\n") != want {
		t.Errorf("got %q", handles)
	}
	if universal.Handle(strings.Repeat("x", 1025)) != nil || universal.Handle("") != nil {
		t.Error("an id that is too long or empty has a handle")
	}
}

func TestPinnedMessagesHaveNoMoreWords(t *testing.T) {
	for long, want := range map[string]string{
		"approval required: nobody is there to answer, so it was denied": "approval required",
		"session not found: the agent has no conversation x":             "session not found",
		"no session found: none in /tmp":                                 "no session found",
		"approval required":                                              "approval required",
		"something else: approval required":                              "something else: approval required",
	} {
		if got := universal.Pinned(long); got != want {
			t.Errorf("%q became %q", long, got)
		}
	}
	got := brief(push(&universal.Stream{},
		event.ApprovalResolved{ApprovalID: "a", Choice: "deny", By: event.ByPolicy, Reason: "approval required: nobody is there"},
		event.ResponseError{Error: event.Fault{Code: "SESSION_NOT_FOUND", Message: "session not found: there is none"}},
	))
	if got != "Status approval_resolved approval required\nError response_error session not found" {
		t.Error(got)
	}
}
