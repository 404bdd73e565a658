package stream

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// A TurnFrame is one frame of a turn's stream.
type TurnFrame struct {
	Name string
	Data any // encodes as JSON
}

// about holds the fields of every frame of a turn. The types below add theirs.
type about struct {
	Seq    int64  `json:"seq"`
	TurnID string `json:"turnId"`
	ItemID string `json:"itemId,omitempty"`
}

type (
	initFrame struct {
		about
		SessionID string `json:"sessionId"`
		ModelID   string `json:"modelId,omitempty"`
	}
	textFrame struct {
		about
		Text         string `json:"text"`
		ParentCallID string `json:"parentCallId,omitempty"`
	}
	toolStartFrame struct {
		about
		CallID       string          `json:"callId"`
		Name         string          `json:"name"`
		Arguments    json.RawMessage `json:"arguments"`
		Kind         event.ToolKind  `json:"kind,omitempty"`
		Title        string          `json:"title,omitempty"`
		ParentCallID string          `json:"parentCallId,omitempty"`
	}
	toolProgressFrame struct {
		about
		CallID string `json:"callId"`
		Text   string `json:"text"`
	}
	toolResultFrame struct {
		about
		CallID    string         `json:"callId"`
		Name      string         `json:"name"`
		OK        bool           `json:"ok"`
		Output    string         `json:"output,omitempty"`
		ExitCode  *int           `json:"exitCode,omitempty"`
		Changes   []event.Change `json:"changes,omitempty"`
		Truncated bool           `json:"truncated,omitempty"`
	}
	planFrame struct {
		about
		Entries []event.PlanEntry `json:"entries"`
	}
	permissionFrame struct {
		about
		Approval event.Approval `json:"approval"`
	}
	resolvedFrame struct {
		about
		ApprovalID string         `json:"approvalId"`
		Choice     string         `json:"choice"`
		By         event.Resolver `json:"by"`
		Reason     string         `json:"reason,omitempty"`
	}
	noticeFrame struct {
		about
		event.Notice
	}
	errorFrame struct {
		about
		Phase     string `json:"phase"`
		ErrorType string `json:"errorType"`
		Message   string `json:"message"`
		Status    int    `json:"status"`
		Severity  string `json:"severity"`
		Fatal     bool   `json:"fatal"`
	}
	completeFrame struct {
		about
		Status  event.TurnStatus `json:"status"`
		Usage   *event.Usage     `json:"usage"`
		CostUSD *float64         `json:"costUsd,omitempty"`
	}
	exitFrame struct {
		about
		ExitCode    int  `json:"exitCode"`
		Interrupted bool `json:"interrupted,omitempty"`
	}
)

// TurnFrames makes the frames of one turn from its events. It is pure.
type TurnFrames struct {
	session, turn string
	items         map[string]*turnItem
	calls         map[string]string // call id → tool name
	cost          *float64
	usage         *event.Usage
}

type turnItem struct {
	typ    event.ItemType
	call   string
	parent string
	text   strings.Builder // that was streamed
}

// NewTurnFrames returns the frames of a turn that is about to begin.
func NewTurnFrames(session, turn string) *TurnFrames {
	return &TurnFrames{session: session, turn: turn, items: make(map[string]*turnItem), calls: make(map[string]string)}
}

// Push returns the frames for ev, in order. The item of the prompt has none: the
// client sent it.
func (t *TurnFrames) Push(ev event.Event) []TurnFrame {
	a := about{Seq: ev.Seq, TurnID: t.turn, ItemID: itemOf(ev.Body)}
	if a.ItemID == runnel.UserItemID(t.turn) {
		return nil
	}
	return t.body(ev, a)
}

func (t *TurnFrames) body(ev event.Event, a about) []TurnFrame {
	switch b := ev.Body.(type) {
	case event.ResponseStart:
		return []TurnFrame{{"session:init", initFrame{a, t.session, b.ModelID}}}
	case event.ItemStart:
		t.items[b.ItemID] = &turnItem{typ: b.ItemType, call: b.CallID, parent: b.ParentCallID}
		if b.ItemType == event.TypeFunctionCall {
			t.calls[b.CallID] = b.Name
		}
		return t.text(a, b.InitialContent)
	case event.ItemDelta:
		return t.text(a, b.DeltaContent)
	case event.ItemDone:
		return t.done(a, b.FinalItem)
	case event.ItemError:
		return t.broken(a, b.Error.Message)
	case event.ItemCancelled:
		return t.broken(a, string(b.Reason))
	case event.ApprovalRequested:
		a.ItemID = b.Approval.ItemID
		return []TurnFrame{{"permission:request", permissionFrame{a, b.Approval}}}
	case event.ApprovalResolved:
		return []TurnFrame{{"permission:resolved", resolvedFrame{a, b.ApprovalID, b.Choice, b.By, b.Reason}}}
	case event.Notice:
		return []TurnFrame{{"notice", noticeFrame{a, b}}}
	case event.UsageUpdated:
		if b.CostUSD != nil {
			t.cost = b.CostUSD
		}
		if b.Usage != nil {
			t.usage = b.Usage
		}
	case event.ResponseDone:
		return t.complete(a, b)
	case event.ResponseError:
		return t.failed(a, b.Error)
	}
	return nil
}

// text returns the frame for text that is appended to an item.
func (t *TurnFrames) text(a about, s string) []TurnFrame {
	it := t.items[a.ItemID]
	if it == nil || s == "" {
		return nil
	}
	switch it.typ {
	case event.TypeMessage:
		it.text.WriteString(s)
		return []TurnFrame{{"chat:delta", textFrame{a, s, it.parent}}}
	case event.TypeReasoning:
		it.text.WriteString(s)
		return []TurnFrame{{"reasoning:delta", textFrame{a, s, it.parent}}}
	case event.TypeFunctionCallOutput:
		return []TurnFrame{{"tool:progress", toolProgressFrame{a, it.call, s}}}
	}
	return nil
}

func (t *TurnFrames) done(a about, f event.FinalItem) []TurnFrame {
	it := t.items[a.ItemID]
	if it == nil {
		it = new(turnItem)
	}
	switch f := f.(type) {
	case event.Message:
		return t.whole(a, it, event.TypeMessage, f.Content)
	case event.Reasoning:
		return t.whole(a, it, event.TypeReasoning, f.Content)
	case event.FunctionCall:
		return []TurnFrame{{"tool:start", toolStartFrame{a, f.CallID, f.Name, f.Arguments, f.Kind, f.Title, it.parent}}}
	case event.FunctionCallOutput:
		return []TurnFrame{{"tool:result", toolResultFrame{a, f.CallID, t.calls[f.CallID], !f.IsError, f.Output, f.ExitCode, f.Changes, f.Truncated}}}
	case event.Plan:
		return []TurnFrame{{"plan:update", planFrame{a, f.Entries}}}
	}
	return nil
}

// whole ends a text. A last delta holds what was not streamed of it, so that the
// deltas add up to the final text. If the agent replaced streamed text they do
// not, and the final text counts.
func (t *TurnFrames) whole(a about, it *turnItem, typ event.ItemType, text string) []TurnFrame {
	var out []TurnFrame
	it.typ = typ
	t.items[a.ItemID] = it
	if rest, ok := strings.CutPrefix(text, it.text.String()); ok && rest != "" {
		out = t.text(a, rest)
	}
	name := "chat:complete"
	if typ == event.TypeReasoning {
		name = "reasoning:complete"
	}
	return append(out, TurnFrame{name, textFrame{a, text, it.parent}})
}

// broken ends an item that failed or was cancelled.
func (t *TurnFrames) broken(a about, why string) []TurnFrame {
	it := t.items[a.ItemID]
	if it == nil {
		return nil
	}
	switch it.typ {
	case event.TypeMessage:
		return []TurnFrame{{"chat:complete", textFrame{a, it.text.String(), it.parent}}}
	case event.TypeReasoning:
		return []TurnFrame{{"reasoning:complete", textFrame{a, it.text.String(), it.parent}}}
	case event.TypeFunctionCall:
		return []TurnFrame{{"tool:result", toolResultFrame{about: a, CallID: it.call, Name: t.calls[it.call], Output: why}}}
	}
	return nil
}

func (t *TurnFrames) complete(a about, b event.ResponseDone) []TurnFrame {
	if b.Status == event.StatusError {
		fault := event.Fault{Code: "AGENT_ERROR", Message: b.FinishReason}
		if b.Error != nil {
			fault = *b.Error
		}
		return t.failed(a, fault)
	}
	if b.Usage != nil {
		t.usage = b.Usage
	}
	return []TurnFrame{
		{"session:complete", completeFrame{a, b.Status, t.usage, t.cost}},
		{"process:exit", exitFrame{a, 0, b.Status == event.StatusCancelled}},
	}
}

func (t *TurnFrames) failed(a about, f event.Fault) []TurnFrame {
	return []TurnFrame{
		{"turn:error", errorFrame{a, "mid-stream", f.Code, f.Message, reply.Status(runnel.Fail(runnel.Code(f.Code), f.Message)), "error", true}},
		{"process:exit", exitFrame{a, 1, false}},
	}
}

func itemOf(b event.Body) string {
	switch b := b.(type) {
	case event.ItemStart:
		return b.ItemID
	case event.ItemDelta:
		return b.ItemID
	case event.ItemDone:
		return b.ItemID
	case event.ItemError:
		return b.ItemID
	case event.ItemCancelled:
		return b.ItemID
	}
	return ""
}
