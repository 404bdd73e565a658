package event

import "encoding/json"

// A FinalItem is the whole of a finished item. It is one of Message, Reasoning,
// FunctionCall, FunctionCallOutput and Plan.
type FinalItem interface{ ItemType() ItemType }

// Origin says who wrote a message.
type Origin string

// The origins of messages.
const (
	OriginUser   Origin = "user"
	OriginAgent  Origin = "agent"
	OriginSystem Origin = "system"
)

// ToolKind groups tools by what they do; ACP's kinds and "delegate".
type ToolKind string

// The tool kinds.
const (
	KindRead       ToolKind = "read"
	KindEdit       ToolKind = "edit"
	KindDelete     ToolKind = "delete"
	KindMove       ToolKind = "move"
	KindSearch     ToolKind = "search"
	KindExecute    ToolKind = "execute"
	KindThink      ToolKind = "think"
	KindFetch      ToolKind = "fetch"
	KindSwitchMode ToolKind = "switch_mode"
	KindDelegate   ToolKind = "delegate" // hands work to a subagent
	KindOther      ToolKind = "other"
)

type (
	// Message is text for people.
	Message struct {
		Content     string       `json:"content"`
		Origin      Origin       `json:"origin"`
		Attachments []Attachment `json:"attachments,omitzero"`
	}
	// Reasoning is what the model thought aloud.
	Reasoning struct {
		Content    string `json:"content"`
		ProviderID string `json:"providerId"`
	}
	// FunctionCall is a tool call with its final arguments, a JSON value.
	FunctionCall struct {
		Name      string          `json:"name"`
		CallID    string          `json:"callId"`
		Arguments json.RawMessage `json:"arguments"`
		Kind      ToolKind        `json:"kind,omitzero"`
		Title     string          `json:"title,omitzero"`
		Locations []Location      `json:"locations,omitzero"`
	}
	// FunctionCallOutput is what a tool call gave. Output is cut at
	// [MaxOutput] bytes; TotalBytes is then its full length.
	FunctionCallOutput struct {
		CallID     string          `json:"callId"`
		Output     string          `json:"output"`
		IsError    bool            `json:"isError"`
		Changes    []Change        `json:"changes,omitzero"`
		ExitCode   *int            `json:"exitCode,omitzero"`
		Detail     json.RawMessage `json:"detail,omitzero"` // the agent's structured result, bounded
		Truncated  bool            `json:"truncated,omitzero"`
		TotalBytes int64           `json:"totalBytes,omitzero"`
	}
	// Plan is the agent's list of what it means to do. A plan item is replaced
	// as a whole.
	Plan struct {
		Entries []PlanEntry `json:"entries"`
	}
)

// ItemType implements [FinalItem].
func (Message) ItemType() ItemType { return TypeMessage }

// ItemType implements [FinalItem].
func (Reasoning) ItemType() ItemType { return TypeReasoning }

// ItemType implements [FinalItem].
func (FunctionCall) ItemType() ItemType { return TypeFunctionCall }

// ItemType implements [FinalItem].
func (FunctionCallOutput) ItemType() ItemType { return TypeFunctionCallOutput }

// ItemType implements [FinalItem].
func (Plan) ItemType() ItemType { return TypePlan }

// MaxOutput bounds the text of a tool's output in an event, in bytes.
const MaxOutput = 256 << 10

// An Attachment is something sent beside a prompt's text.
type Attachment struct {
	Name      string `json:"name,omitzero"`
	MediaType string `json:"mediaType"`
	Size      int64  `json:"size,omitzero"` // bytes
}

// A Location is a place in a file that a tool call is about.
type Location struct {
	Path string `json:"path"`
	Line int    `json:"line,omitzero"`
}

// A PlanEntry is one step of a plan.
type PlanEntry struct {
	Content  string `json:"content"`
	Status   string `json:"status"` // pending, in_progress, completed
	Priority string `json:"priority,omitzero"`
}

// ChangeKind says what happened to a file.
type ChangeKind string

// The kinds of file changes.
const (
	ChangeCreate ChangeKind = "create"
	ChangeUpdate ChangeKind = "update"
	ChangeDelete ChangeKind = "delete"
	ChangeMove   ChangeKind = "move"
)

// A Change is one file edit, in one shape for every agent. OldText and NewText
// are nil where the agent did not say; an emptied file is not an absent one.
type Change struct {
	Path    string     `json:"path"`
	Kind    ChangeKind `json:"kind"`
	MovedTo string     `json:"movedTo,omitzero"`
	OldText *string    `json:"oldText,omitzero"`
	NewText *string    `json:"newText,omitzero"`
	Hunks   []Hunk     `json:"hunks"`
}

// A Hunk is a run of changed lines. Each of Lines begins with ' ', '-' or '+'.
// Starts count from 1.
type Hunk struct {
	OldStart int      `json:"oldStart"`
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}
