package storetest

import (
	"encoding/json"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// at is the base time of the samples. Its nanoseconds test the precision.
var at = time.Date(2026, 3, 1, 12, 30, 15, 123456789, time.UTC)

// numbered returns bodies as events of a session's log with positions after
// head.
func numbered(session, turn string, head int64, bodies ...event.Body) []event.Event {
	evs := make([]event.Event, len(bodies))
	for i, b := range bodies {
		seq := head + int64(i) + 1
		evs[i] = event.Event{Session: session, Seq: seq, At: at.Add(time.Duration(seq)), Turn: turn, Body: b}
	}
	return evs
}

// deltas returns n events that need not survive a power loss.
func deltas(session string, head int64, n int) []event.Event {
	bodies := make([]event.Body, n)
	for i := range bodies {
		bodies[i] = event.ItemDelta{ItemID: "t1:0:0", DeltaContent: "word "}
	}
	return numbered(session, "t1", head, bodies...)
}

func ptr[T any](v T) *T { return &v }

// samples holds at least one body of every type. Its values are those that an
// implementation easily loses or changes: empty, absent, zero, large, non-ASCII
// and unusual JSON. A list that is always present in an event is empty here,
// never nil, because decoding returns an empty list.
func samples() []event.Body {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	text := "plain \"quoted\" <b>&amp;</b> \u2028\u2029 \x00\x1b[31m 日本語 👩\u200d👩\u200d👧 \\u0041 \r\n\t"
	return []event.Body{
		event.ResponseStart{ModelID: "opus", ProviderID: "some-agent"},
		event.ResponseStart{ProviderID: "script"},
		event.ItemStart{ItemID: "t1:0:0", ItemType: event.TypeMessage, InitialContent: text},
		event.ItemStart{ItemID: "t1:0:1", ItemType: event.TypeFunctionCall, CallID: "c1", Name: "Bash", ParentCallID: "c0",
			Native: map[string]string{"id": "msg_01", "": "", "empty": ""}},
		event.ItemStart{ItemID: "t1:0:2", ItemType: event.TypeReasoning},
		event.ItemStart{ItemID: "t1:0:3", ItemType: event.TypePlan},
		event.ItemDelta{ItemID: "t1:0:0", DeltaContent: text},
		event.ItemDelta{ItemID: "t1:0:0"},
		event.ItemDelta{ItemID: "t1:0:0", DeltaContent: " "},
		event.ItemDone{ItemID: "t1:0:0", FinalItem: event.Message{Origin: event.OriginUser}},
		event.ItemDone{ItemID: "t1:0:0", FinalItem: event.Message{Content: text, Origin: event.OriginAgent,
			Attachments: []event.Attachment{{Name: "a.png", MediaType: "image/png", Size: 1 << 40}, {MediaType: "text/plain"}}}},
		event.ItemDone{ItemID: "t1:0:1", FinalItem: event.Reasoning{Content: "", ProviderID: ""}},
		event.ItemDone{ItemID: "t1:0:2", FinalItem: event.FunctionCall{Name: "Edit", CallID: "c2", Kind: event.KindEdit, Title: "Edit a.go",
			Arguments: raw(`{"z":1,"a":[null,1e400,"<\u0000>",12345678901234567890]}`), Locations: []event.Location{{Path: "/p/a.go", Line: 3}, {Path: ""}}}},
		event.ItemDone{ItemID: "t1:0:2", FinalItem: event.FunctionCall{Name: "Now", CallID: "c3", Arguments: raw(`null`)}},
		event.ItemDone{ItemID: "t1:0:3", FinalItem: event.FunctionCallOutput{CallID: "c2", Output: text, IsError: true, ExitCode: ptr(0),
			Detail: raw(`{"n":0}`), Truncated: true, TotalBytes: 1 << 40, Changes: []event.Change{
				{Path: "gone", Kind: event.ChangeUpdate, OldText: ptr("x"), NewText: ptr(""), Hunks: []event.Hunk{{OldStart: 1, OldLines: 1, Lines: []string{"-x"}}}},
				{Path: "new", Kind: event.ChangeCreate, NewText: ptr(""), Hunks: []event.Hunk{}},
				{Path: "moved", Kind: event.ChangeMove, MovedTo: "there", Hunks: []event.Hunk{}},
			}}},
		event.ItemDone{ItemID: "t1:0:3", FinalItem: event.FunctionCallOutput{CallID: "c3"}},
		event.ItemDone{ItemID: "t1:0:4", FinalItem: event.Plan{Entries: []event.PlanEntry{{Content: "do it", Status: "pending", Priority: "high"}, {}}}},
		event.ItemDone{ItemID: "t1:0:4", FinalItem: event.Plan{Entries: []event.PlanEntry{}}},
		event.ItemDone{ItemID: "t1:0:5", FinalItem: event.FunctionCallOutput{CallID: "big", Output: large()}},
		event.ItemError{ItemID: "t1:0:0", Error: event.Fault{Code: "AGENT_ERROR"}},
		event.ItemError{ItemID: "t1:0:0", Error: event.Fault{Code: "AGENT_ERROR", Message: text}},
		event.ItemCancelled{ItemID: "t1:0:0"},
		event.ItemCancelled{ItemID: "t1:0:0", Reason: event.ReasonProcessDeath},
		event.ApprovalRequested{Approval: event.Approval{ID: "a1", ItemID: "t1:0:2", CallID: "c2", Kind: event.ApprovalTool, Title: "Edit?",
			ToolName: "Edit", Arguments: raw(`{"path":"a"}`), ArgumentsEditable: true, ArgumentsDigest: "00ff", Why: "outside",
			Changes: []event.Change{{Path: "a", Kind: event.ChangeDelete, Hunks: []event.Hunk{}}},
			Choices: []event.Choice{{ID: "yes", Kind: event.ChoiceAllowOnce, Label: "Yes"}, {ID: "no", Kind: event.ChoiceDeny}}}},
		event.ApprovalResolved{ApprovalID: "a1", Choice: "yes", By: event.ByUser},
		event.ApprovalResolved{ApprovalID: "a1", Choice: event.ChoiceWithdrawn, By: event.ByAgent, Reason: text},
		event.SessionUpdated{},
		event.SessionUpdated{AgentSessionID: "s-1", ModelID: "m", PermissionMode: "plan", Title: text, Tools: []string{"Bash", ""},
			Commands: []event.AgentCommand{{Name: "compact"}, {Name: "review", Description: "d", Hint: "h"}}, State: event.StateOpen, Activity: event.ActivityWaiting},
		event.SessionUpdated{Title: text, TitleBy: event.TitleByUser},
		event.SessionUpdated{TitleBy: event.TitleByAgent},
		event.UsageUpdated{},
		event.UsageUpdated{Usage: &event.Usage{InputTokens: 1, OutputTokens: 2, CacheReadInputTokens: 3, CacheCreationInputTokens: 4, ReasoningTokens: 5},
			ContextTokens: 1 << 53, ContextWindow: 7, CostUSD: ptr(0.0), RateLimit: &event.RateLimit{Status: "allowed", Kind: "five_hour", Utilization: 0.1, ResetsAt: 9}},
		event.Notice{Level: event.LevelInfo, Code: "retrying"},
		event.Notice{Level: event.LevelError, Code: "x", Message: text},
		event.ResponseDone{Status: event.StatusCompleted},
		event.ResponseDone{Status: event.StatusError, FinishReason: "refusal", Error: &event.Fault{}, Usage: &event.Usage{}},
		event.ResponseError{Error: event.Fault{Code: "PROCESS_CRASH", Message: text}},
	}
}

// large returns an output of the maximum length.
func large() string {
	b := make([]byte, event.MaxOutput)
	for i := range b {
		b[i] = "0123456789 \n<\""[i%14]
	}
	return string(b)
}
