package event

import (
	"encoding/json"
	"fmt"
	"slices"
)

// ItemType is the type of an item.
type ItemType string

// The item types.
const (
	TypeMessage            ItemType = "message"
	TypeReasoning          ItemType = "reasoning"
	TypeFunctionCall       ItemType = "function_call"
	TypeFunctionCallOutput ItemType = "function_call_output"
	TypePlan               ItemType = "plan"
)

// TurnStatus is the outcome of a turn.
type TurnStatus string

// The outcomes of a turn. Runnel records a failed turn as a [ResponseError]. It
// also accepts a [ResponseDone] with StatusError from other writers.
const (
	StatusCompleted TurnStatus = "completed"
	StatusCancelled TurnStatus = "cancelled"
	StatusError     TurnStatus = "error"
)

// CancelReason is the reason why an item was cancelled.
type CancelReason string

// The reasons for cancelling an open item. The reason is empty if the agent
// itself abandoned the item.
const (
	ReasonUserCancel   CancelReason = "user_cancel"
	ReasonTimeout      CancelReason = "timeout"
	ReasonProcessDeath CancelReason = "process_death"
)

// Level is the severity of a notice.
type Level string

// The notice levels.
const (
	LevelInfo    Level = "info"
	LevelWarning Level = "warning"
	LevelError   Level = "error"
)

type (
	// ResponseStart starts a turn.
	ResponseStart struct {
		ModelID    string `json:"modelId,omitzero"`
		ProviderID string `json:"providerId"`
	}
	// ItemStart starts an item. A function_call has its Name and CallID already
	// here; its arguments are final only in ItemDone.
	ItemStart struct {
		ItemID         string            `json:"itemId"`
		ItemType       ItemType          `json:"itemType"`
		CallID         string            `json:"callId,omitzero"`
		Name           string            `json:"name,omitzero"`
		ParentCallID   string            `json:"parentCallId,omitzero"` // the call whose subagent produced the item
		InitialContent string            `json:"initialContent,omitzero"`
		Native         map[string]string `json:"native,omitzero"` // the agent's own ids; never used as keys
	}
	// ItemDelta appends to the text of an item. For a function_call, the text
	// is the JSON of its arguments.
	ItemDelta struct {
		ItemID       string `json:"itemId"`
		DeltaContent string `json:"deltaContent"`
	}
	// ItemDone holds the complete, final item. It overrides all deltas.
	ItemDone struct {
		ItemID    string    `json:"itemId"`
		FinalItem FinalItem `json:"finalItem"`
	}
	// ItemError ends an item that failed.
	ItemError struct {
		ItemID string `json:"itemId"`
		Error  Fault  `json:"error"`
	}
	// ItemCancelled ends an item that was cancelled.
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
	// ApprovalRequested is a question whose answer the agent waits for.
	ApprovalRequested struct {
		Approval Approval `json:"approval"`
	}
	// ApprovalResolved records the only answer to an approval.
	ApprovalResolved struct {
		ApprovalID string   `json:"approvalId"`
		Choice     string   `json:"choice"` // id of the choice; [ChoiceWithdrawn] if the approval was withdrawn
		By         Resolver `json:"by"`
		Reason     string   `json:"reason,omitzero"`

		// Rule is the number of a stored rule. If By is ByPolicy, the rule
		// decided. If By is ByUser, the rule was stored together with the
		// decision.
		Rule int64 `json:"rule,omitzero"`

		// UpdatedArguments replace the arguments of the request.
		UpdatedArguments json.RawMessage `json:"updatedArguments,omitempty"`
	}
	// SessionUpdated reports changed properties of the session. Empty fields
	// did not change.
	SessionUpdated struct {
		AgentSessionID string           `json:"agentSessionId,omitzero"` // the agent's own id of the conversation
		ModelID        string           `json:"modelId,omitzero"`
		PermissionMode string           `json:"permissionMode,omitzero"`
		Title          string           `json:"title,omitzero"`
		TitleBy        TitleBy          `json:"titleBy,omitzero"` // who chose Title; empty: the agent reported it
		Commands       []AgentCommand   `json:"commands,omitzero"`
		Tools          []string         `json:"tools,omitzero"`
		Files          []AgentFile      `json:"files,omitzero"`    // files that the agent reported
		Config         []ConfigOption   `json:"config,omitzero"`   // all options; replaces the previous list
		Restores       *SessionSettings `json:"restores,omitzero"` // set if the other values apply to one turn: the settings that the session returns to after it
		State          SessionState     `json:"state,omitzero"`
		Activity       Activity         `json:"activity,omitzero"`
	}
	// UsageUpdated reports the usage so far. Usage is the sum over the turn.
	// ContextTokens is the value of the last message of the main thread.
	UsageUpdated struct {
		Usage         *Usage     `json:"usage,omitzero"`
		ContextTokens int64      `json:"contextTokens,omitzero"`
		ContextWindow int64      `json:"contextWindow,omitzero"`
		CostUSD       *float64   `json:"costUsd,omitzero"` // of this turn
		RateLimit     *RateLimit `json:"rateLimit,omitzero"`
	}
	// Notice reports something that a reader may ignore, such as a line that
	// could not be decoded. It never contains the raw line.
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

// SessionState is the lifecycle state of a session.
type SessionState string

// The session states.
const (
	StateOpen    SessionState = "open"
	StateLoading SessionState = "loading"
	StateDead    SessionState = "dead"
)

// Activity is the current activity of a session.
type Activity string

// The activities of a session.
const (
	ActivityIdle    Activity = "idle"
	ActivityWorking Activity = "working"
	ActivityWaiting Activity = "waiting" // for an answer to an approval
)

// An AgentCommand is a command that the agent offers, such as "compact".
type AgentCommand struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Hint        string `json:"hint,omitzero"` // describes its argument
}

// An AgentFile is one of the agent's own files, as the agent reported it.
type AgentFile struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // plan, skill
}

// A ConfigOption is a setting that the agent offers under its own name, with
// its current value.
type ConfigOption struct {
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Category    string         `json:"category,omitzero"` // subject of the option, if known: mode, model, effort
	Type        string         `json:"type" enum:"select,boolean"`
	Value       string         `json:"value"`            // the value of a choice; "true" or "false" for a boolean
	Choices     []ConfigChoice `json:"choices,omitzero"` // of a select
}

// SessionSettings are the settings of a session that can change while its agent
// runs. Empty fields are not set.
type SessionSettings struct {
	Model           string            `json:"model,omitzero"`
	PermissionMode  string            `json:"permissionMode,omitzero"`
	ReasoningEffort string            `json:"reasoningEffort,omitzero"`
	Config          map[string]string `json:"config,omitzero"` // option values by ConfigOption id
	ThinkingDisplay string            `json:"thinkingDisplay,omitzero"`
	DisallowedTools []string          `json:"disallowedTools,omitzero"` // nil: not set; empty: none
}

// A ConfigChoice is a value that a ConfigOption may have.
type ConfigChoice struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Group       string `json:"group,omitzero"` // heading for a group of choices
}

// The types of a ConfigOption.
const (
	ConfigSelect  = "select"
	ConfigBoolean = "boolean"
)

// Allows reports whether o accepts value.
func (o ConfigOption) Allows(value string) bool {
	if o.Type == ConfigBoolean {
		return value == "true" || value == "false"
	}
	return slices.ContainsFunc(o.Choices, func(c ConfigChoice) bool { return c.Value == value })
}

// A Fault is an error that is safe to log and to show.
type Fault struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitzero"` // a JSON object, for example with the option that an agent lacks
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

// RateLimit is a rate limit that the agent's API provider reported.
type RateLimit struct {
	Status      string  `json:"status"`               // allowed, allowed_warning, rejected
	Kind        string  `json:"kind,omitzero"`        // which limit, such as five_hour
	Utilization float64 `json:"utilization,omitzero"` // 0 to 1
	ResetsAt    int64   `json:"resetsAt,omitzero"`    // unix seconds
}

// ApprovalKind is the subject of an approval.
type ApprovalKind string

// The kinds of approvals.
const (
	ApprovalTool ApprovalKind = "tool" // permission to run a tool
	ApprovalPlan ApprovalKind = "plan" // consent to a plan

	// ApprovalQuestion asks the user for information. Arguments has the form
	// {"questions": [{"id", "header", "question", "options": [{"label",
	// "description"}], "multiSelect", "isOther", "isSecret"}]}. All fields
	// except "question" are optional.
	//
	// A question without options takes free text. A question with options also
	// takes other text, unless isOther is false.
	//
	// The answer's UpdatedArguments are Arguments with the additional field
	// "answers": an object that maps the id of each question, or its text if it
	// has no id, to one answer or a list of answers.
	ApprovalQuestion ApprovalKind = "question"

	// ApprovalForm asks for values. Arguments is {"message", "schema", "url"}.
	// It contains either the JSON Schema of a flat object or a page to visit.
	// The answer's UpdatedArguments are that object.
	ApprovalForm ApprovalKind = "form"
)

// ToolConnect is the ToolName of an approval that the server asks for, and not
// the agent: whether the programs in a sandbox may reach a host. Arguments is
// {"host", "port"}.
const ToolConnect = "connect"

// ToolAgentConnect is the ToolName of an approval for an agent's own tool that has
// the name ToolConnect. The server renames it, so that nobody takes the agent's
// call for a question of the server.
const ToolAgentConnect = "agent_connect"

// An Approval is a question whose answer the agent waits for.
type Approval struct {
	ID                string          `json:"id"` // unique in the session; the same on replay
	ItemID            string          `json:"itemId,omitzero"`
	CallID            string          `json:"callId,omitzero"`
	Kind              ApprovalKind    `json:"kind"`
	Title             string          `json:"title"`
	ToolName          string          `json:"toolName,omitzero"`
	Arguments         json.RawMessage `json:"arguments,omitzero"` // exactly the arguments that would be used
	ArgumentsEditable bool            `json:"argumentsEditable,omitzero"`
	ArgumentsDigest   string          `json:"argumentsDigest,omitzero"` // hex SHA-256 of Arguments as the agent sent them; the answer must repeat it
	Why               string          `json:"why,omitzero"`             // the agent's reason for asking
	Changes           []Change        `json:"changes,omitzero"`
	Choices           []Choice        `json:"choices"`
}

// ChoiceKind is the meaning of a choice, independent of the agent's label.
type ChoiceKind string

// The kinds of choices.
const (
	ChoiceAllowOnce    ChoiceKind = "allow_once"
	ChoiceAllowSession ChoiceKind = "allow_session"
	ChoiceAllowAlways  ChoiceKind = "allow_always"
	ChoiceDeny         ChoiceKind = "deny"
	ChoiceDenyStop     ChoiceKind = "deny_stop" // deny and end the turn
)

// RuleNote returns what a stored rule did for an answer to an approval, such as
// "decided by rule 3"; "" if rule is 0.
func RuleNote(by Resolver, rule int64) string {
	switch {
	case rule == 0:
		return ""
	case by == ByUser:
		return fmt.Sprintf("stored as rule %d", rule)
	}
	return fmt.Sprintf("decided by rule %d", rule)
}

// ChoiceWithdrawn is the Choice of an [ApprovalResolved] whose approval can no
// longer be answered: the agent withdrew it, or its turn has ended.
const ChoiceWithdrawn = "withdrawn"

// A Choice is one possible answer to an approval.
type Choice struct {
	ID    string     `json:"id"`
	Kind  ChoiceKind `json:"kind"`
	Label string     `json:"label"`
}

// TitleBy is the party whose title a session shows.
type TitleBy string

// The parties whose title a session shows. A title of a user stays until a
// later event with TitleByAgent. Until then, an event without TitleBy does not
// change the title of the session.
const (
	TitleByUser  TitleBy = "user"
	TitleByAgent TitleBy = "agent" // the title that the agent last reported, or else the beginning of the first prompt
)

// Resolver is the party that answered an approval.
type Resolver string

// The parties that answer approvals.
const (
	ByUser    Resolver = "user"
	ByPolicy  Resolver = "policy"
	ByTimeout Resolver = "timeout"
	ByAgent   Resolver = "agent"
)
