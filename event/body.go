package event

import (
	"encoding/json"
	"slices"
)

// ItemType says what an item is.
type ItemType string

// The item types.
const (
	TypeMessage            ItemType = "message"
	TypeReasoning          ItemType = "reasoning"
	TypeFunctionCall       ItemType = "function_call"
	TypeFunctionCallOutput ItemType = "function_call_output"
	TypePlan               ItemType = "plan"
)

// TurnStatus says how a turn ended.
type TurnStatus string

// The ways in which a turn ends. We write StatusError as a [ResponseError];
// [ResponseDone] with it is accepted from others.
const (
	StatusCompleted TurnStatus = "completed"
	StatusCancelled TurnStatus = "cancelled"
	StatusError     TurnStatus = "error"
)

// CancelReason says why an item was cancelled.
type CancelReason string

// The reasons for which an open item is cancelled. None is given where the
// agent abandoned the item of its own accord.
const (
	ReasonUserCancel   CancelReason = "user_cancel"
	ReasonTimeout      CancelReason = "timeout"
	ReasonProcessDeath CancelReason = "process_death"
)

// Level grades a notice.
type Level string

// The notice levels.
const (
	LevelInfo    Level = "info"
	LevelWarning Level = "warning"
	LevelError   Level = "error"
)

type (
	// ResponseStart opens a turn.
	ResponseStart struct {
		ModelID    string `json:"modelId,omitzero"`
		ProviderID string `json:"providerId"`
	}
	// ItemStart announces an item. A function_call has Name and CallID already;
	// its arguments are final only in ItemDone.
	ItemStart struct {
		ItemID         string            `json:"itemId"`
		ItemType       ItemType          `json:"itemType"`
		CallID         string            `json:"callId,omitzero"`
		Name           string            `json:"name,omitzero"`
		ParentCallID   string            `json:"parentCallId,omitzero"` // the call whose subagent did this
		InitialContent string            `json:"initialContent,omitzero"`
		Native         map[string]string `json:"native,omitzero"` // the agent's own ids, never used as keys
	}
	// ItemDelta appends to an item's text or, for a function_call, to the JSON
	// text of its arguments.
	ItemDelta struct {
		ItemID       string `json:"itemId"`
		DeltaContent string `json:"deltaContent"`
	}
	// ItemDone carries the whole, final item. It overrides all deltas.
	ItemDone struct {
		ItemID    string    `json:"itemId"`
		FinalItem FinalItem `json:"finalItem"`
	}
	// ItemError ends an item that failed.
	ItemError struct {
		ItemID string `json:"itemId"`
		Error  Fault  `json:"error"`
	}
	// ItemCancelled ends an item that will not be finished.
	ItemCancelled struct {
		ItemID string       `json:"itemId"`
		Reason CancelReason `json:"reason,omitzero"`
	}
	// ResponseDone ends a turn that did not fail.
	ResponseDone struct {
		Status       TurnStatus `json:"status"`
		FinishReason string     `json:"finishReason,omitzero"`
		Error        *Fault     `json:"error,omitzero"`
		Usage        *Usage     `json:"usage,omitzero"`
	}
	// ResponseError ends a turn that failed.
	ResponseError struct {
		Error Fault `json:"error"`
	}
	// ApprovalRequested is a question that the agent waits for.
	ApprovalRequested struct {
		Approval Approval `json:"approval"`
	}
	// ApprovalResolved records the one answer to it.
	ApprovalResolved struct {
		ApprovalID string   `json:"approvalId"`
		Choice     string   `json:"choice"` // id of the choice; [ChoiceWithdrawn] if nobody may answer any more
		By         Resolver `json:"by"`
		Reason     string   `json:"reason,omitzero"`

		// UpdatedArguments are what is to be done instead of what was asked for.
		UpdatedArguments json.RawMessage `json:"updatedArguments,omitempty"`
	}
	// SessionUpdated changes facts about the session. Empty fields did not change.
	SessionUpdated struct {
		AgentSessionID string           `json:"agentSessionId,omitzero"` // the agent's own id of the conversation
		ModelID        string           `json:"modelId,omitzero"`
		PermissionMode string           `json:"permissionMode,omitzero"`
		Title          string           `json:"title,omitzero"`
		Commands       []AgentCommand   `json:"commands,omitzero"`
		Tools          []string         `json:"tools,omitzero"`
		Files          []AgentFile      `json:"files,omitzero"`    // that the agent named
		Config         []ConfigOption   `json:"config,omitzero"`   // all there are, instead of those before
		Restores       *SessionSettings `json:"restores,omitzero"` // set where the values are those of one turn: what the session returns to after it
		State          SessionState     `json:"state,omitzero"`
		Activity       Activity         `json:"activity,omitzero"`
	}
	// UsageUpdated reports what was used so far. Usage is the turn's sum;
	// ContextTokens is that of the last message of the main thread.
	UsageUpdated struct {
		Usage         *Usage     `json:"usage,omitzero"`
		ContextTokens int64      `json:"contextTokens,omitzero"`
		ContextWindow int64      `json:"contextWindow,omitzero"`
		CostUSD       *float64   `json:"costUsd,omitzero"` // of this turn
		RateLimit     *RateLimit `json:"rateLimit,omitzero"`
	}
	// Notice reports something the reader may want to know and may ignore, such
	// as a line that could not be decoded. It never holds the raw line.
	Notice struct {
		Level   Level  `json:"level"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
)

func (ResponseStart) body() string     { return "response_start" }
func (ItemStart) body() string         { return "item_start" }
func (ItemDelta) body() string         { return "item_delta" }
func (ItemDone) body() string          { return "item_done" }
func (ItemError) body() string         { return "item_error" }
func (ItemCancelled) body() string     { return "item_cancelled" }
func (ResponseDone) body() string      { return "response_done" }
func (ResponseError) body() string     { return "response_error" }
func (ApprovalRequested) body() string { return "approval_requested" }
func (ApprovalResolved) body() string  { return "approval_resolved" }
func (SessionUpdated) body() string    { return "session_updated" }
func (UsageUpdated) body() string      { return "usage_updated" }
func (Notice) body() string            { return "notice" }

// SessionState is how much of a session there is.
type SessionState string

// The session states.
const (
	StateOpen    SessionState = "open"
	StateLoading SessionState = "loading"
	StateDead    SessionState = "dead"
)

// Activity is what a session does.
type Activity string

// The activities of a session.
const (
	ActivityIdle    Activity = "idle"
	ActivityWorking Activity = "working"
	ActivityWaiting Activity = "waiting" // for an answer to an approval
)

// An AgentCommand is a command the agent offers, such as "compact".
type AgentCommand struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Hint        string `json:"hint,omitzero"` // for its argument
}

// An AgentFile is a file of the agent's own that it named.
type AgentFile struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // plan, skill
}

// A ConfigOption is a setting that the agent offers, under its own name, with
// the value that it has.
type ConfigOption struct {
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Category    string         `json:"category,omitzero"` // what it is about, if that is known: mode, model, effort
	Type        string         `json:"type" enum:"select,boolean"`
	Value       string         `json:"value"`            // of a choice; "true" or "false"
	Choices     []ConfigChoice `json:"choices,omitzero"` // of a select
}

// SessionSettings are what can change in a session while its agent runs. Empty fields
// are not set.
type SessionSettings struct {
	Model           string            `json:"model,omitzero"`
	PermissionMode  string            `json:"permissionMode,omitzero"`
	ReasoningEffort string            `json:"reasoningEffort,omitzero"`
	Config          map[string]string `json:"config,omitzero"` // values by the ids of ConfigOptions
	ThinkingDisplay string            `json:"thinkingDisplay,omitzero"`
	DisallowedTools []string          `json:"disallowedTools,omitzero"` // empty: none
}

// A ConfigChoice is a value that a ConfigOption may have.
type ConfigChoice struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Group       string `json:"group,omitzero"` // heading to show it under
}

// The types of a ConfigOption.
const (
	ConfigSelect  = "select"
	ConfigBoolean = "boolean"
)

// Allows reports whether value is one that o may have.
func (o ConfigOption) Allows(value string) bool {
	if o.Type == ConfigBoolean {
		return value == "true" || value == "false"
	}
	return slices.ContainsFunc(o.Choices, func(c ConfigChoice) bool { return c.Value == value })
}

// A Fault is an error in a form that is safe to log and to show.
type Fault struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitzero"` // a JSON object, such as the option that an agent lacks
}

// MaxFaultDetails bounds the details of a Fault, in bytes.
const MaxFaultDetails = 4 << 10

// Usage counts tokens.
type Usage struct {
	InputTokens              int64 `json:"inputTokens"`
	OutputTokens             int64 `json:"outputTokens"`
	CacheReadInputTokens     int64 `json:"cacheReadInputTokens,omitzero"`
	CacheCreationInputTokens int64 `json:"cacheCreationInputTokens,omitzero"`
	ReasoningTokens          int64 `json:"reasoningTokens,omitzero"`
}

// RateLimit is what the agent's provider says of its limits.
type RateLimit struct {
	Status      string  `json:"status"`               // allowed, allowed_warning, rejected
	Kind        string  `json:"kind,omitzero"`        // which limit, such as five_hour
	Utilization float64 `json:"utilization,omitzero"` // 0 to 1
	ResetsAt    int64   `json:"resetsAt,omitzero"`    // unix seconds
}

// ApprovalKind says what an approval is about.
type ApprovalKind string

// The kinds of approvals.
const (
	ApprovalTool ApprovalKind = "tool" // may this tool run?
	ApprovalPlan ApprovalKind = "plan" // is this plan good?

	// ApprovalQuestion wants to know something. Arguments may be {"questions":
	// [{"id", "header", "question", "options": [{"label", "description"}],
	// "multiSelect", "isOther", "isSecret"}]}; all but the question may be absent.
	// Without options it is answered in words, with them also in others, unless
	// isOther is false. Answers go with UpdatedArguments: Arguments, and "answers",
	// an object of each question's id, or else its text, and the answer or several.
	ApprovalQuestion ApprovalKind = "question"

	// ApprovalForm asks for values. Arguments is {"message", "schema", "url"}: a
	// JSON Schema of one flat object, or a page to visit; the answer's
	// UpdatedArguments are that object.
	ApprovalForm ApprovalKind = "form"
)

// An Approval is a question the agent asked before it goes on.
type Approval struct {
	ID                string          `json:"id"` // unique in the session, the same on replay
	ItemID            string          `json:"itemId,omitzero"`
	CallID            string          `json:"callId,omitzero"`
	Kind              ApprovalKind    `json:"kind"`
	Title             string          `json:"title"`
	ToolName          string          `json:"toolName,omitzero"`
	Arguments         json.RawMessage `json:"arguments,omitzero"` // exactly what would run
	ArgumentsEditable bool            `json:"argumentsEditable,omitzero"`
	ArgumentsDigest   string          `json:"argumentsDigest,omitzero"` // hex SHA-256 of Arguments as the agent sent them; quote it in the answer
	Why               string          `json:"why,omitzero"`             // the agent's reason for asking
	Changes           []Change        `json:"changes,omitzero"`
	Choices           []Choice        `json:"choices"`
}

// ChoiceKind says what a choice means, whatever the agent calls it.
type ChoiceKind string

// The kinds of choices.
const (
	ChoiceAllowOnce    ChoiceKind = "allow_once"
	ChoiceAllowSession ChoiceKind = "allow_session"
	ChoiceAllowAlways  ChoiceKind = "allow_always"
	ChoiceDeny         ChoiceKind = "deny"
	ChoiceDenyStop     ChoiceKind = "deny_stop" // deny, and end the turn
)

// ChoiceWithdrawn stands in [ApprovalResolved] for an approval that nobody
// may answer any more: the agent took it back, or its turn is over.
const ChoiceWithdrawn = "withdrawn"

// A Choice is one possible answer to an approval.
type Choice struct {
	ID    string     `json:"id"`
	Kind  ChoiceKind `json:"kind"`
	Label string     `json:"label"`
}

// Resolver says who answered an approval.
type Resolver string

// Those who answer approvals.
const (
	ByUser    Resolver = "user"
	ByPolicy  Resolver = "policy"
	ByTimeout Resolver = "timeout"
	ByAgent   Resolver = "agent"
)
