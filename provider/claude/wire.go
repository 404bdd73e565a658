package claude

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/runnel-dev/runnel/internal/translate"
)

// frame is one line of the stream-json protocol, in either direction. An entry
// of a stored conversation has the same fields. frame has only the fields that
// Runnel uses; each type of frame has some of them.
type frame struct {
	Type            string          `json:"type"`
	Compact         compaction      `json:"compact_metadata"`
	Subtype         string          `json:"subtype"`
	UUID            string          `json:"uuid"`
	SessionID       string          `json:"session_id"`
	ParentToolUseID string          `json:"parent_tool_use_id"` // "" on the main thread
	Timestamp       string          `json:"timestamp"`
	Message         *message        `json:"message"`
	Event           *streamEvent    `json:"event"`
	ToolUseResult   json.RawMessage `json:"tool_use_result"`
	IsSynthetic     bool            `json:"isSynthetic"` // the agent itself wrote the text, not the user
	IsReplay        bool            `json:"isReplay"`    // repeats a message that Runnel sent
	Abandoned       *abandoned      `json:"abandoned_blocks"`

	// control_request, control_response, control_cancel_request
	RequestID string           `json:"request_id"`
	Request   *controlRequest  `json:"request"`
	Response  *controlResponse `json:"response"`

	// system
	Model          string     `json:"model"`
	PermissionMode string     `json:"permissionMode"`
	Tools          []string   `json:"tools"`
	Attempt        int        `json:"attempt"`
	MaxRetries     int        `json:"max_retries"`
	RetryDelayMS   float64    `json:"retry_delay_ms"`
	ErrorStatus    *int       `json:"error_status"`
	Error          string     `json:"error"` // a word such as rate_limit; also on assistant frames
	FallbackModel  string     `json:"fallback_model"`
	Status         string     `json:"status"`
	RateLimit      *rateLimit `json:"rate_limit_info"`
	Title          string     `json:"title"`
	Content        string     `json:"content"` // the text of an informational frame; in a stored entry, a slash command's output
	APIKeySource   string     `json:"apiKeySource"`

	// system/task_started, task_progress, task_updated, task_notification
	TaskID         string `json:"task_id"` // for a subagent, the subagent's id
	TaskType       string `json:"task_type"`
	ToolUseID      string `json:"tool_use_id"`
	Description    string `json:"description"`
	IsBackgrounded bool   `json:"is_backgrounded"` // since 2.1.329
	Summary        string `json:"summary"`
	Patch          struct {
		Status string `json:"status"`
	} `json:"patch"` // task_updated

	// result
	IsError        bool                  `json:"is_error"`
	APIErrorStatus *int                  `json:"api_error_status"`
	StopReason     string                `json:"stop_reason"`
	Result         string                `json:"result"` // the last text of the turn
	TerminalReason string                `json:"terminal_reason"`
	Errors         []string              `json:"errors"`
	Usage          *usage                `json:"usage"`
	TotalCostUSD   *float64              `json:"total_cost_usd"` // of the process so far
	ModelUsage     map[string]modelUsage `json:"modelUsage"`
	SinceLast      map[string]modelUsage `json:"model_usage_since_last_result"` // since 2.1.329
	Origin         *origin               `json:"origin"`
	Refused        string                `json:"refused_message_id"` // on a message that the agent itself wrote
	UserMessages   []string              `json:"user_message_uuids"` // ids of the prompts that the result answers; since 2.1.329

	// stored assistant entries
	BlockIndex *int `json:"apiBlockIndex"` // index of the first block; since 2.1.329
}

type origin struct {
	Kind string `json:"kind"`
}

type rateLimit struct {
	Status        string  `json:"status"`
	ResetsAt      int64   `json:"resetsAt"`
	RateLimitType string  `json:"rateLimitType"`
	Utilization   float64 `json:"utilization"`
}

// abandoned names the blocks of a broken stream that will not be completed: all
// from an index on.
type abandoned struct {
	FromBlockIndex int `json:"from_block_index"`
}

type modelUsage struct {
	CostUSD       float64 `json:"costUSD"`
	ContextWindow int64   `json:"contextWindow"`
}

type usage struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
}

type message struct {
	ID         string  `json:"id"`
	Role       string  `json:"role"`
	Model      string  `json:"model"`
	Content    content `json:"content"`
	StopReason string  `json:"stop_reason"`
	Usage      *usage  `json:"usage"`
}

// block is one part of a message, or the start of a part in a stream.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text,omitempty"`
	Thinking string          `json:"thinking,omitempty"`
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`

	// tool_result
	ToolUseID string  `json:"tool_use_id,omitempty"`
	Content   content `json:"content,omitempty"`
	IsError   bool    `json:"is_error,omitempty"`

	// image, document
	Source *source `json:"source,omitempty"`
	Title  string  `json:"title,omitempty"`
}

// source is the content of an image or a document.
type source struct {
	Type      string `json:"type"` // base64 or text
	MediaType string `json:"media_type"`
	Data      string `json:"data"`

	size    int64  // of the content in bytes, if Data was dropped
	picture string // id of the image, if Data was dropped
}

// content is a list of blocks. In JSON, a string represents one text block.
type content []block

// UnmarshalJSON implements [json.Unmarshaler].
func (c *content) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	if bytes.Count(data, []byte{','}) < maxBlocks {
		return json.Unmarshal(data, (*[]block)(c))
	}
	blocks, err := translate.FirstOf[block](data, maxBlocks)
	*c = blocks
	return err
}

// maxBlocks is the maximum number of blocks in a list; further blocks are
// dropped. A block takes two bytes of a line and a hundred times as much memory.
const maxBlocks = 10_000

// text joins the text blocks without a separator, because [literal] can split a
// prompt into several blocks.
func (c content) text() string {
	if len(c) == 1 && c[0].Type == "text" {
		return c[0].Text
	}
	var b strings.Builder
	for _, bl := range c {
		if bl.Type == "text" {
			b.WriteString(bl.Text)
		}
	}
	return b.String()
}

// streamEvent is an event of the Messages API, which the agent prints
// unchanged.
type streamEvent struct {
	Type         string     `json:"type"`
	Index        int        `json:"index"`
	Message      *message   `json:"message"`
	ContentBlock *block     `json:"content_block"`
	Delta        delta      `json:"delta"`
	Usage        *usage     `json:"usage"`
	Abandoned    *abandoned `json:"abandoned_blocks"`
}

type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Thinking    string `json:"thinking"`
	PartialJSON string `json:"partial_json"`
	StopReason  string `json:"stop_reason"`
}

// controlRequest is a request from Runnel to the agent or from the agent to
// Runnel.
type controlRequest struct {
	Subtype string `json:"subtype"`

	// can_use_tool
	ToolName       string            `json:"tool_name,omitempty"`
	Input          json.RawMessage   `json:"input,omitempty"`
	Description    string            `json:"description,omitempty"`
	Suggestions    []json.RawMessage `json:"permission_suggestions,omitempty"`
	DecisionReason string            `json:"decision_reason,omitempty"`
	ToolUseID      string            `json:"tool_use_id,omitempty"`
	AgentID        string            `json:"agent_id,omitempty"` // of the subagent that asks

	// fields of Runnel's requests
	Mode               string          `json:"mode,omitempty"`
	Model              string          `json:"model,omitempty"`
	AppendSystemPrompt string          `json:"appendSystemPrompt,omitempty"`
	ForwardSubagent    bool            `json:"forwardSubagentText,omitempty"`
	Settings           json.RawMessage `json:"settings,omitempty"`
	MaxThinkingTokens  json.RawMessage `json:"max_thinking_tokens,omitempty"`
	ThinkingDisplay    string          `json:"thinking_display,omitempty"`
	Servers            json.RawMessage `json:"servers,omitempty"`

	Agents map[string]subagent `json:"agents,omitempty"`
}

// subagent is the definition of a subagent.
type subagent struct {
	Description string   `json:"description"`
	Prompt      string   `json:"prompt"`
	Tools       []string `json:"tools,omitempty"`
	Model       string   `json:"model,omitempty"`
}

type controlResponse struct {
	Subtype   string          `json:"subtype"` // success or error
	RequestID string          `json:"request_id"`
	Response  json.RawMessage `json:"response,omitempty"`
	Error     string          `json:"error,omitempty"`
}

// request is a control request from Runnel to the agent.
type request struct {
	Type      string         `json:"type"`
	RequestID string         `json:"request_id"`
	Request   controlRequest `json:"request"`
}

// response is a control response from Runnel to the agent.
type response struct {
	Type     string          `json:"type"`
	Response controlResponse `json:"response"`
}

// decision is Runnel's answer to can_use_tool.
type decision struct {
	Behavior           string            `json:"behavior"` // allow or deny
	UpdatedInput       json.RawMessage   `json:"updatedInput,omitempty"`
	UpdatedPermissions []json.RawMessage `json:"updatedPermissions,omitempty"`
	Message            string            `json:"message,omitempty"`
	Interrupt          bool              `json:"interrupt,omitempty"`
	ToolUseID          string            `json:"toolUseID,omitempty"`
}

// compaction describes a compaction of the conversation.
type compaction struct {
	Preserved struct {
		UUIDs []string `json:"all_uuids"` // ids of the messages that the compaction preserves
	} `json:"preserved_messages"`
}

// settings is the answer to get_settings.
type settings struct {
	Effective struct {
		Permissions struct {
			Deny []json.RawMessage `json:"deny"`
		} `json:"permissions"`
	} `json:"effective"`
}

// account describes the credential with which the agent calls the model API.
type account struct {
	TokenSource  string `json:"tokenSource"`  // none: no login
	APIKeySource string `json:"apiKeySource"` // such as ANTHROPIC_API_KEY; absent: no key
	Provider     string `json:"apiProvider"`  // firstParty, or a vendor with separate credentials
}

// loggedOut reports whether the agent has no credential.
func (a account) loggedOut() bool {
	return a.TokenSource == "none" && a.APIKeySource == "" && a.Provider == "firstParty"
}

// initialized is the agent's answer to the initialize request.
type initialized struct {
	Commands []struct {
		Name         string `json:"name"`
		Description  string `json:"description"`
		ArgumentHint string `json:"argumentHint"`
	} `json:"commands"`
	Account account `json:"account"`
	Models  []struct {
		Value       string   `json:"value"`
		Resolved    string   `json:"resolvedModel"`
		DisplayName string   `json:"displayName"`
		Description string   `json:"description"`
		Efforts     []string `json:"supportedEffortLevels"`
	} `json:"models"`
}

// userFrame is a prompt.
type userFrame struct {
	Type            string      `json:"type"` // user
	Message         userMessage `json:"message"`
	ParentToolUseID *string     `json:"parent_tool_use_id"` // null
	SessionID       string      `json:"session_id"`
	UUID            string      `json:"uuid"`
	Priority        string      `json:"priority"`
}

type userMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"` // a string or blocks
}

// decode decodes one line. It ignores a field of an unexpected type, because
// new versions of the agent may change fields and the rest of the line is
// usable.
func decode(line []byte) (frame, error) {
	var f frame
	err := json.Unmarshal(line, &f)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && f.Type != "" {
		err = nil
	}
	return f, err
}
