package event

import "encoding/json"

// A FinalItem is the complete content of a finished item. It is a Message,
// Reasoning, FunctionCall, FunctionCallOutput or Plan.
type FinalItem interface{ ItemType() ItemType }

// Origin is the author of a message.
type Origin string

// The origins of messages.
const (
	OriginUser   Origin = "user"
	OriginAgent  Origin = "agent"
	OriginSystem Origin = "system"
)

// ToolKind is the kind of work that a tool does: one of ACP's kinds, or
// "delegate".
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
	KindDelegate   ToolKind = "delegate" // starts a subagent
	KindOther      ToolKind = "other"
)

type (
	// Message is text for people.
	Message struct {
		Content     string       `json:"content"`
		Origin      Origin       `json:"origin"`
		Attachments []Attachment `json:"attachments,omitzero"`
	}
	// Reasoning is the reasoning text of the model.
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
	// FunctionCallOutput is the output of a tool call. Output is cut at
	// [MaxOutput] bytes; TotalBytes is then its full length.
	FunctionCallOutput struct {
		CallID     string          `json:"callId"`
		Output     string          `json:"output"`
		IsError    bool            `json:"isError"`
		Changes    []Change        `json:"changes,omitzero"`
		ExitCode   *int            `json:"exitCode,omitzero"`
		Detail     json.RawMessage `json:"detail,omitzero"` // the agent's structured result, at most [MaxDetail] bytes
		Truncated  bool            `json:"truncated,omitzero"`
		TotalBytes int64           `json:"totalBytes,omitzero"`
	}
	// Plan is the agent's list of intended steps. Each plan item replaces the
	// previous plan.
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

// An Attachment is a file or image sent with the text of a prompt.
type Attachment struct {
	Name      string `json:"name,omitzero"`
	MediaType string `json:"mediaType"`
	Size      int64  `json:"size,omitzero"`    // bytes
	Picture   string `json:"picture,omitzero"` // id of the image's content; see [PictureID]
}

// A Location is a position in a file that a tool call concerns.
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

// ChangeKind is the kind of change to a file.
type ChangeKind string

// The kinds of file changes.
const (
	ChangeCreate ChangeKind = "create"
	ChangeUpdate ChangeKind = "update"
	ChangeDelete ChangeKind = "delete"
	ChangeMove   ChangeKind = "move"
)

// A Change is one file edit, in the same form for every agent. OldText and
// NewText are nil if the agent did not report them; an empty text means an
// empty file.
type Change struct {
	Path    string     `json:"path"`
	Kind    ChangeKind `json:"kind"`
	MovedTo string     `json:"movedTo,omitzero"`
	OldText *string    `json:"oldText,omitzero"`
	NewText *string    `json:"newText,omitzero"`
	Hunks   []Hunk     `json:"hunks"`
	Edits   []Edit     `json:"edits,omitzero"` // what Hunks show, if the agent did not report their line numbers
}

// An Edit replaces Old, a part of a file, by New. Neither need begin or end at
// a line boundary.
type Edit struct {
	Old string `json:"old"`
	New string `json:"new"`
	All bool   `json:"all,omitzero"` // replaces every occurrence; otherwise Old occurs once
}

// A Hunk is a run of changed lines. Each of Lines begins with ' ', '-' or '+'.
// OldStart and NewStart count from 1; both are 0 if the agent did not report
// them.
type Hunk struct {
	OldStart int      `json:"oldStart"`
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}
