// Package upsert converts a session's events to whole items, paced for a reader
// that redraws an item each time it receives one.
//
// A [Pacer] has no clock and no goroutine. Its input is events and the current
// time, its output the frames to send. Every reader has its own Pacer, so a
// slow reader gets fewer, larger upserts and does not slow down other readers.
package upsert

import (
	"encoding/json"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// An Out is a frame for a reader. It is an Upsert, Append, TurnEvent, Approval,
// Notice or Usage.
type Out interface {
	// Frame returns the type of the frame, such as "session:upsert".
	Frame() string

	out()
}

// Frame implements [Out].
func (Upsert) Frame() string { return "session:upsert" }

// Frame implements [Out].
func (Append) Frame() string { return "session:append" }

// Frame implements [Out].
func (TurnEvent) Frame() string { return "session:turn" }

// Frame implements [Out].
func (Approval) Frame() string { return "session:approval" }

// Frame implements [Out].
func (Notice) Frame() string { return "session:notice" }

// Frame implements [Out].
func (Usage) Frame() string { return "session:usage" }

func (Upsert) out()    {}
func (Append) out()    {}
func (TurnEvent) out() {}
func (Approval) out()  {}
func (Notice) out()    {}
func (Usage) out()     {}

// SeqOf returns the position of the newest event in o.
func SeqOf(o Out) int64 {
	switch o := o.(type) {
	case Upsert:
		return o.Seq
	case Append:
		return o.Seq
	case TurnEvent:
		return o.Seq
	case Approval:
		return o.Seq
	case Notice:
		return o.Seq
	case Usage:
		return o.Seq
	}
	return 0
}

// Kind is the type of the item in an upsert.
type Kind string

// The kinds of upserts.
const (
	KindMessage  Kind = "message"
	KindThinking Kind = "thinking"
	KindToolCall Kind = "tool_call"
	KindPlan     Kind = "plan"
)

// Status is the progress of the item in an upsert. Further upserts of the item
// may follow after create and update; complete and error are final.
type Status string

// The states of upserts.
const (
	StatusCreate   Status = "create"
	StatusUpdate   Status = "update"
	StatusComplete Status = "complete"
	StatusError    Status = "error"
)

// An Upsert replaces everything that a reader knew about an item. Exactly one
// of Message, Thinking, ToolCall and Plan is set, as Type says.
type Upsert struct {
	Type            Kind      `json:"type"`
	TurnID          string    `json:"turnId"`
	SessionID       string    `json:"sessionId"`
	ItemID          string    `json:"itemId"`
	StartedAt       time.Time `json:"startedAt"`       // time of the item's first event
	SourceTimestamp time.Time `json:"sourceTimestamp"` // time of the newest event folded in
	EmittedAt       time.Time `json:"emittedAt"`
	Status          Status    `json:"status"`
	ErrorCode       string    `json:"errorCode,omitzero"`
	ErrorMessage    string    `json:"errorMessage,omitzero"`
	Seq             int64     `json:"seq"` // position of the newest event folded in: a reader may resume after it
	ParentCallID    string    `json:"parentCallId,omitzero"`

	Message  *event.Message   `json:"message,omitzero"`
	Thinking *event.Reasoning `json:"thinking,omitzero"`
	ToolCall *ToolCall        `json:"tool_call,omitzero"`
	Plan     *event.Plan      `json:"plan,omitzero"`
}

// A ToolCall is a tool call together with its output. ToolArguments is set when
// the arguments are final. Until then ToolArgumentsText is their JSON text so
// far. ToolOutput is nil while there is no output. ToolOutputIsError is nil
// until the output is final.
type ToolCall struct {
	ToolName          string           `json:"toolName"`
	ToolArguments     json.RawMessage  `json:"toolArguments,omitzero"`
	ToolArgumentsText string           `json:"toolArgumentsText,omitzero"`
	CallID            string           `json:"callId"`
	ToolOutput        *string          `json:"toolOutput,omitzero"`
	ToolOutputIsError *bool            `json:"toolOutputIsError,omitzero"`
	Kind              event.ToolKind   `json:"kind,omitzero"`
	Title             string           `json:"title,omitzero"`
	Locations         []event.Location `json:"locations,omitzero"`
	Changes           []event.Change   `json:"changes,omitzero"`
	ExitCode          *int             `json:"exitCode,omitzero"`
	Truncated         bool             `json:"truncated,omitzero"`
	TotalBytes        int64            `json:"totalBytes,omitzero"`
	ParentCallID      string           `json:"parentCallId,omitzero"`
}

// TurnEventType is the type of a turn event.
type TurnEventType string

// The turn events. A turn that failed is a turn_error, never a turn_complete.
const (
	TurnStarted  TurnEventType = "turn_started"
	TurnComplete TurnEventType = "turn_complete"
	TurnError    TurnEventType = "turn_error"
)

// A TurnEvent is the beginning or the end of a turn.
type TurnEvent struct {
	Type      TurnEventType `json:"type"`
	TurnID    string        `json:"turnId"`
	SessionID string        `json:"sessionId"`
	Seq       int64         `json:"seq"`
	Timestamp time.Time     `json:"timestamp"`

	ModelID      string           `json:"modelId,omitzero"`      // turn_started
	ProviderID   string           `json:"providerId,omitzero"`   // turn_started
	Status       event.TurnStatus `json:"status,omitzero"`       // turn_complete: completed or cancelled
	Usage        *event.Usage     `json:"usage,omitzero"`        // turn_complete
	ErrorCode    string           `json:"errorCode,omitzero"`    // turn_error
	ErrorMessage string           `json:"errorMessage,omitzero"` // turn_error
}

// ApprovalStatus is the state of an approval.
type ApprovalStatus string

// The states of approvals.
const (
	ApprovalPending  ApprovalStatus = "pending"
	ApprovalResolved ApprovalStatus = "resolved"
)

// An Approval is a request for approval or its answer.
type Approval struct {
	TurnID    string         `json:"turnId"`
	Seq       int64          `json:"seq"`
	Timestamp time.Time      `json:"timestamp"`
	Status    ApprovalStatus `json:"status"`
	Approval  event.Approval `json:"approval"` // once resolved, only its ID is guaranteed
	Choice    string         `json:"choice,omitzero"`
	By        event.Resolver `json:"by,omitzero"`
	Reason    string         `json:"reason,omitzero"`
	Rule      int64          `json:"rule,omitzero"` // as in [event.ApprovalResolved]
}

// A Notice is an [event.Notice] with its position in the log.
type Notice struct {
	TurnID    string    `json:"turnId,omitzero"`
	Seq       int64     `json:"seq"`
	Timestamp time.Time `json:"timestamp"`
	event.Notice
}

// Usage is an [event.UsageUpdated] with its position in the log.
type Usage struct {
	TurnID    string    `json:"turnId,omitzero"`
	Seq       int64     `json:"seq"`
	Timestamp time.Time `json:"timestamp"`
	event.UsageUpdated
}
