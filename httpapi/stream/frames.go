package stream

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/profile"
)

// A TurnFrame is one frame of a turn's stream.
type TurnFrame struct {
	Name string
	Data any // encodes as JSON
}

// About holds the fields of every frame of a turn. The types below add theirs.
type About struct {
	Seq    int64  `json:"seq"`
	TurnID string `json:"turnId"`
	ItemID string `json:"itemId,omitempty"`
}

type (
	initFrame struct {
		About
		SessionID string           `json:"sessionId"`
		ModelID   string           `json:"modelId" doc:"The model in use; unknown until the agent has reported it."`
		Resume    Resume           `json:"resume" doc:"The status is always ok: the stream starts at the turn's first event."`
		Resolved  profile.Resolved `json:"resolved,omitempty" doc:"The turn's resolved options by name, each with its source."`
	}
	textFrame struct {
		About
		Text         string `json:"text"`
		ParentCallID string `json:"parentCallId,omitempty"`
	}
	toolStartFrame struct {
		About
		CallID       string          `json:"callId"`
		Name         string          `json:"name"`
		Arguments    json.RawMessage `json:"arguments"`
		Kind         event.ToolKind  `json:"kind,omitempty"`
		Title        string          `json:"title,omitempty"`
		ParentCallID string          `json:"parentCallId,omitempty"`
	}
	toolProgressFrame struct {
		About
		CallID string `json:"callId"`
		Text   string `json:"text"`
	}
	toolResultFrame struct {
		About
		CallID    string         `json:"callId"`
		Name      string         `json:"name"`
		OK        bool           `json:"ok"`
		Output    string         `json:"output,omitempty"`
		ExitCode  *int           `json:"exitCode,omitempty"`
		Changes   []event.Change `json:"changes,omitempty"`
		Truncated bool           `json:"truncated,omitempty"`
	}
	planFrame struct {
		About
		Entries []event.PlanEntry `json:"entries"`
	}
	permissionFrame struct {
		About
		Approval event.Approval `json:"approval"`
	}
	resolvedFrame struct {
		About
		ApprovalID string         `json:"approvalId"`
		Choice     string         `json:"choice"`
		By         event.Resolver `json:"by"`
		Reason     string         `json:"reason,omitempty"`
		Rule       int64          `json:"rule,omitempty"`
	}
	noticeFrame struct {
		About
		event.Notice
	}
	errorFrame struct {
		About
		Phase     string `json:"phase" enum:"mid-stream"`
		ErrorType string `json:"errorType"`
		Message   string `json:"message"`
		Status    int    `json:"status"`
		Severity  string `json:"severity" enum:"warning,error"` // error for a status from 500 on, else warning
		Fatal     bool   `json:"fatal"`                         // the turn is over
		Details   any    `json:"details,omitempty"`
	}
	completeFrame struct {
		About
		Status  event.TurnStatus `json:"status"`
		Usage   *event.Usage     `json:"usage,omitempty"`
		CostUSD *float64         `json:"costUsd,omitempty"`
	}
	exitFrame struct {
		About
		ExitCode    int  `json:"exitCode"`
		Interrupted bool `json:"interrupted,omitempty"`
	}
)

// TurnFrames converts the events of one turn to frames. It does no I/O.
type TurnFrames struct {
	Resolved profile.Resolved // the turn's options, for the first frame. Default: not known
	ModelID  string           // for the first frame. Default: that of the turn's first event
	LogID    string           // id of the log that has the turn. Default: the log has no id

	session, turn string
	items         map[string]*turnItem
	calls         map[string]string // tool name by call id
	cost          *float64
	usage         *event.Usage
	warnings      []string // about the prompt, not returned as frames yet
	begun         bool     // the first frame was returned
}

type turnItem struct {
	typ    event.ItemType
	call   string
	parent string
	text   strings.Builder // text that was streamed so far
}

// NewTurnFrames returns the TurnFrames of a turn that is about to begin.
// Warnings about its prompt become notices after the first frame.
func NewTurnFrames(session, turn string, warnings ...string) *TurnFrames {
	return &TurnFrames{session: session, turn: turn, items: make(map[string]*turnItem), calls: make(map[string]string), warnings: warnings}
}

// Push returns the frames for ev, in order. The turn's first event, of any
// type, yields the first frame, so that a client need not wait for the agent.
// The item of the prompt yields no frames of its own, because the client sent
// the prompt.
func (t *TurnFrames) Push(ev event.Event) (frames []TurnFrame) {
	a := About{Seq: ev.Seq, TurnID: t.turn}
	if !t.begun {
		t.begun = true
		frames = append(frames, TurnFrame{"session:init", t.init(a, ev.Body)})
	}
	frames = append(frames, t.warn(a)...)
	if a.ItemID = itemOf(ev.Body); a.ItemID != runnel.UserItemID(t.turn) {
		frames = append(frames, t.body(ev, a)...)
	}
	return frames
}

// init returns the first frame of the turn. first is the body of the turn's
// first event.
func (t *TurnFrames) init(a About, first event.Body) initFrame {
	start, _ := first.(event.ResponseStart)
	return initFrame{a, t.session, cmp.Or(t.ModelID, start.ModelID, runnel.UnknownModel), Resume{Status: "ok", LogID: t.LogID}, t.Resolved}
}

// warn returns notices for the warnings that were not returned yet.
func (t *TurnFrames) warn(a About) (out []TurnFrame) {
	for _, w := range t.warnings {
		out = append(out, TurnFrame{"notice", noticeFrame{a, event.Notice{Level: event.LevelWarning, Code: "OPTION_IGNORED", Message: w}}})
	}
	t.warnings = nil
	return out
}

// readFailed returns the last frames of a turn that cannot be read any further
// because of p.
func (t *TurnFrames) readFailed(seq int64, p reply.Problem) []TurnFrame {
	a := About{Seq: seq, TurnID: t.turn}
	return append(t.warn(a), failed(a, string(p.Type), p.Message, p.Details)...)
}

func (t *TurnFrames) body(ev event.Event, a About) []TurnFrame {
	switch b := ev.Body.(type) {
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
		return t.broken(a, b.Error)
	case event.ItemCancelled:
		return t.cut(a, string(b.Reason))
	case event.ApprovalRequested:
		a.ItemID = b.Approval.ItemID
		return []TurnFrame{{"permission:request", permissionFrame{a, b.Approval}}}
	case event.ApprovalResolved:
		return []TurnFrame{{"permission:resolved", resolvedFrame{a, b.ApprovalID, b.Choice, b.By, b.Reason, b.Rule}}}
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
		return failed(a, b.Error.Code, b.Error.Message, details(b.Error))
	}
	return nil
}

// text returns the frame for text that is appended to an item.
func (t *TurnFrames) text(a About, s string) []TurnFrame {
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

func (t *TurnFrames) done(a About, f event.FinalItem) []TurnFrame {
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
		return []TurnFrame{{"plan:update", planFrame{a, append([]event.PlanEntry{}, f.Entries...)}}}
	}
	return nil
}

// whole returns the frames for the end of a text. A last delta contains the
// part that was not streamed, so that the deltas add up to the final text. If
// the agent has replaced streamed text, they do not add up, and the final text
// counts.
func (t *TurnFrames) whole(a About, it *turnItem, typ event.ItemType, text string) []TurnFrame {
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

// broken returns the frames for an item that failed. When a text fails, the
// turn continues, so a turn:error frame reports that the rest of the text is
// missing.
func (t *TurnFrames) broken(a About, f event.Fault) []TurnFrame {
	if it := t.items[a.ItemID]; it == nil || it.typ == event.TypeFunctionCall {
		return t.cut(a, f.Message)
	}
	return []TurnFrame{{"turn:error", newErrorFrame(a, f.Code, f.Message, details(f), false)}}
}

// cut returns the frames for an item that was cancelled. A text that was
// cancelled is not complete, so it has no frame.
func (t *TurnFrames) cut(a About, why string) []TurnFrame {
	if it := t.items[a.ItemID]; it != nil && it.typ == event.TypeFunctionCall {
		return []TurnFrame{{"tool:result", toolResultFrame{About: a, CallID: it.call, Name: t.calls[it.call], Output: why}}}
	}
	return nil
}

func (t *TurnFrames) complete(a About, b event.ResponseDone) []TurnFrame {
	if b.Status == event.StatusError {
		fault := event.Fault{Code: "AGENT_ERROR", Message: b.FinishReason}
		if b.Error != nil {
			fault = *b.Error
		}
		return failed(a, fault.Code, fault.Message, details(fault))
	}
	if b.Usage != nil {
		t.usage = b.Usage
	}
	return []TurnFrame{
		{"session:complete", completeFrame{a, b.Status, t.usage, t.cost}},
		{"process:exit", exitFrame{a, 0, b.Status == event.StatusCancelled}},
	}
}

// failed returns the last frames of a turn that failed.
func failed(a About, code, message string, details any) []TurnFrame {
	return []TurnFrame{
		{"turn:error", newErrorFrame(a, code, message, details, true)},
		{"process:exit", exitFrame{a, 1, false}},
	}
}

func newErrorFrame(a About, code, message string, details any, fatal bool) errorFrame {
	status, severity := reply.Status(runnel.Fail(runnel.Code(code), message)), "warning"
	if status >= http.StatusInternalServerError {
		severity = "error"
	}
	return errorFrame{a, "mid-stream", code, message, status, severity, fatal, details}
}

// details returns the details of a fault, or nil if it has none.
func details(f event.Fault) any {
	if len(f.Details) == 0 {
		return nil
	}
	return f.Details
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
