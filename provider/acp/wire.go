package acp

import (
	"bytes"
	"encoding/json"

	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Methods of the protocol that Runnel sends or handles.
const (
	methodInitialize = "initialize"
	methodNew        = "session/new"
	methodLoad       = "session/load"
	methodResume     = "session/resume"
	methodFork       = "session/fork"
	methodList       = "session/list"
	methodDelete     = "session/delete"
	methodPrompt     = "session/prompt"
	methodTitle      = "session/set_title"
	methodCancel     = "session/cancel"
	methodSetMode    = "session/set_mode"
	methodSetModel   = "session/set_model" // for agents without config options for models
	methodSetConfig  = "session/set_config_option"
	methodUpdate     = "session/update"
	methodPermission = "session/request_permission"
	methodElicit     = "elicitation/create"
)

// codeAuthRequired is the error code of an agent that is not logged in.
const codeAuthRequired = -32000

// codeNotFound is the error code for an unknown resource.
const codeNotFound = -32002

// promptID is the prefix of the request ids of prompts. The id of the turn
// follows it.
const promptID = "prompt:"

// historyID is the request id for a replay whose events are emitted. The
// translator drops a replay under any other id, which precedes a live session.
const historyID = "history"

// initialized is the answer to initialize in both versions of the protocol.
type initialized struct {
	ProtocolVersion int  `json:"protocolVersion"`
	AgentInfo       info `json:"agentInfo"`
	Info            info `json:"info"` // version 2

	// version 1
	AgentCapabilities struct {
		LoadSession         bool                       `json:"loadSession"`
		PromptCapabilities  promptCaps                 `json:"promptCapabilities"`
		MCPCapabilities     mcpCaps                    `json:"mcpCapabilities"`
		SessionCapabilities map[string]json.RawMessage `json:"sessionCapabilities"`
		Meta                map[string]json.RawMessage `json:"_meta"`
	} `json:"agentCapabilities"`

	// version 2
	Capabilities struct {
		Session map[string]json.RawMessage `json:"session"`
	} `json:"capabilities"`
}

type info struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type promptCaps struct {
	Image           bool `json:"image"`
	EmbeddedContext bool `json:"embeddedContext"`
}

type mcpCaps struct {
	HTTP bool `json:"http"`
	SSE  bool `json:"sse"`
}

// caps are the capabilities of an agent, as it reports them.
type caps struct {
	Load, Resume, Fork, List, Delete, AddDirs bool `json:",omitzero"`
	SystemPrompt                              bool `json:",omitzero"`
	Image, Embedded                           bool `json:",omitzero"`
	HTTP, SSE                                 bool `json:",omitzero"`
}

// caps returns the capabilities in both versions of the protocol. Any value but
// null and false means that the agent has the capability.
func (in initialized) caps() caps {
	s := in.AgentCapabilities.SessionCapabilities
	if in.ProtocolVersion >= 2 {
		s = in.Capabilities.Session
		p, m := translate.DecodeLenient[map[string]json.RawMessage](s["prompt"]), translate.DecodeLenient[map[string]json.RawMessage](s["mcp"])
		return caps{
			Resume: true, List: true, // required in version 2
			Fork: offers(s, "fork"), Delete: offers(s, "delete"), AddDirs: offers(s, "additionalDirectories"), SystemPrompt: offers(s, "systemPrompt"),
			Image: offers(p, "image"), Embedded: offers(p, "embeddedContext"), HTTP: offers(m, "http"), SSE: offers(m, "sse"),
		}
	}
	a := in.AgentCapabilities
	return caps{
		Load: a.LoadSession, Resume: offers(s, "resume"), Fork: offers(s, "fork"), List: offers(s, "list"), Delete: offers(s, "delete"),
		AddDirs: offers(s, "additionalDirectories"), SystemPrompt: offers(s, "systemPrompt"),
		Image: a.PromptCapabilities.Image, Embedded: a.PromptCapabilities.EmbeddedContext, HTTP: a.MCPCapabilities.HTTP, SSE: a.MCPCapabilities.SSE,
	}
}

func offers(m map[string]json.RawMessage, name string) bool {
	v := string(m[name])
	return v != "" && v != "null" && v != "false"
}

// opened is the answer to a request that opens a session or changes its
// options.
type opened struct {
	SessionID     string         `json:"sessionId"`
	ConfigOptions []configOption `json:"configOptions"`
	Modes         *modes         `json:"modes"`
	Models        *models        `json:"models"` // from agents without config options for models
}

type modes struct {
	Current   string `json:"currentModeId"`
	Available []struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"availableModes"`
}

type models struct {
	Current   string `json:"currentModelId"`
	Available []struct {
		ID          string `json:"modelId"`
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"availableModels"`
}

type configOption struct {
	ID          string          `json:"id"`
	ConfigID    string          `json:"configId"` // version 2
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Category    string          `json:"category"`
	Type        string          `json:"type"`
	Current     json.RawMessage `json:"currentValue"` // a string or a boolean
	Options     []configChoice  `json:"options"`
}

// configChoice is one value, or a group of values in Options.
type configChoice struct {
	Value       string         `json:"value"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Group       string         `json:"group"`
	Options     []configChoice `json:"options"`
}

// notified holds the parameters of the notification session/update.
type notified struct {
	SessionID string          `json:"sessionId"`
	Update    json.RawMessage `json:"update"`
}

// update is an update of a session. Kind determines which fields are set.
type update struct {
	Kind      string          `json:"sessionUpdate"`
	MessageID string          `json:"messageId"`
	Content   json.RawMessage `json:"content"` // chunk: a block; message: blocks; tool call: a list of toolContent

	toolCall

	Entries       []planEntry     `json:"entries"`
	Plan          planUpdate      `json:"plan"` // version 2
	Commands      []command       `json:"availableCommands"`
	ModeID        string          `json:"currentModeId"`
	ConfigOptions []configOption  `json:"configOptions"`
	Used          int64           `json:"used"`
	Size          int64           `json:"size"`
	Cost          *cost           `json:"cost"`
	Severity      string          `json:"severity"`    // only in notices
	About         string          `json:"description"` // only in notices
	State         string          `json:"state"`       // version 2: running, requires_action, idle
	StopReason    string          `json:"stopReason"`
	Usage         *usage          `json:"usage"`
	Error         *jsonrpc.Error  `json:"error"`
	TerminalID    string          `json:"terminalId"`
	Output        *terminalData   `json:"output"`
	Data          string          `json:"data"` // base64
	ExitStatus    *exitStatus     `json:"exitStatus"`
	UpdateMeta    json.RawMessage `json:"_meta"`
}

// toolCall is a tool call, or an update of one.
type toolCall struct {
	raw   json.RawMessage // the whole object
	shown []toolContent   // if not nil, replaces the content in raw

	ID        string          `json:"toolCallId"`
	Name      string          `json:"name"`
	Title     string          `json:"title"` // also the title of a session or of a notice
	ToolKind  string          `json:"kind"`
	Status    string          `json:"status"`
	Locations []location      `json:"locations"`
	RawInput  json.RawMessage `json:"rawInput"`
	RawOutput json.RawMessage `json:"rawOutput"`
}

// isEmpty reports whether only the id is set. codex-acp sends such an update
// before it describes a call in a replay (recording mcp).
func (tc toolCall) isEmpty() bool {
	_, shows := tc.content()
	return tc.Name == "" && tc.Title == "" && tc.ToolKind == "" && tc.Status == "" &&
		tc.Locations == nil && len(tc.RawInput) == 0 && len(tc.RawOutput) == 0 && !shows
}

func (tc toolCall) ended() bool { return tc.Status == "completed" || tc.Status == "failed" }

// content returns the content of the call, and whether the message has that
// field.
func (tc toolCall) content() ([]toolContent, bool) {
	if tc.shown != nil {
		return tc.shown, true
	}
	raw := translate.DecodeLenient[struct {
		Content json.RawMessage `json:"content"`
	}](tc.raw).Content
	return translate.Each[toolContent](raw), raw != nil && string(raw) != "null"
}

type location struct {
	Path string `json:"path"`
	Line int    `json:"line"`
}

type planEntry struct {
	Content  string `json:"content"`
	Status   string `json:"status"`
	Priority string `json:"priority"`
}

// planUpdate is a complete plan, in version 2.
type planUpdate struct {
	Type    string      `json:"type"` // items, markdown, file
	Entries []planEntry `json:"entries"`
}

type command struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Input       *struct {
		Hint string `json:"hint"`
	} `json:"input"`
}

type cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

type usage struct {
	Input       int64 `json:"inputTokens"`
	Output      int64 `json:"outputTokens"`
	CachedRead  int64 `json:"cachedReadTokens"`
	CachedWrite int64 `json:"cachedWriteTokens"`
	Thought     int64 `json:"thoughtTokens"`
}

type terminalData struct {
	Data string `json:"data"` // base64
}

type exitStatus struct {
	Code   *int    `json:"exitCode"`
	Signal *string `json:"signal"`
}

// block is a content block of the protocol.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MimeType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource struct {
		URI      string `json:"uri"`
		Text     string `json:"text"`
		Blob     string `json:"blob"`
		MimeType string `json:"mimeType"`
	} `json:"resource"`
}

// text returns the text of a block, or a placeholder in brackets.
func (b block) text() string {
	switch b.Type {
	case "text":
		return b.Text
	case "resource_link":
		return "[" + text.OneLine(b.Name, 200) + "](" + text.OneLine(b.URI, 1000) + ")"
	case "resource":
		if b.Resource.Text != "" {
			return b.Resource.Text
		}
		return "[" + text.OneLine(b.Resource.URI, 1000) + "]"
	case "":
		return ""
	}
	return "[" + text.OneLine(b.Type, 40) + "]"
}

// blocks decodes one block or a list of blocks.
func blocks(raw json.RawMessage) []block {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '{' {
		return []block{translate.DecodeLenient[block](raw)}
	}
	return translate.Each[block](raw)
}

// toolContent is a piece of content of a tool call.
type toolContent struct {
	Type       string  `json:"type"` // content, diff, terminal
	Content    block   `json:"content"`
	Path       string  `json:"path"`
	OldText    *string `json:"oldText"`
	NewText    *string `json:"newText"`
	TerminalID string  `json:"terminalId"`
	Changes    []struct {
		Operation string `json:"operation"` // add, modify, delete, rename
		Path      string `json:"path"`
		OldPath   string `json:"oldPath"`
	} `json:"changes"` // version 2
	Patch struct {
		Format string `json:"format"`
		Text   string `json:"text"`
	} `json:"patch"` // version 2
	Meta struct {
		Kind string `json:"kind"`
	} `json:"_meta"`
}

// terminalMeta is the output of a terminal that the agent itself runs. Agents
// send it in _meta to clients that do not support terminals.
type terminalMeta struct {
	Output *terminalText `json:"terminal_output"`
	Delta  *terminalText `json:"terminal_output_delta"`
	Exit   *struct {
		TerminalID string `json:"terminal_id"`
		Code       *int   `json:"exit_code"`
	} `json:"terminal_exit"`
}

type terminalText struct {
	TerminalID string `json:"terminal_id"`
	Data       string `json:"data"`
}

// permission is a permission request of the agent.
type permission struct {
	SessionID string `json:"sessionId"`

	ToolCall json.RawMessage `json:"toolCall"`
	Title    string          `json:"title"`       // version 2
	About    string          `json:"description"` // version 2
	Subject  struct {
		ToolCall json.RawMessage `json:"toolCall"`
	} `json:"subject"` // version 2
	Options []permissionOption `json:"options"`
}

func (p permission) call() json.RawMessage {
	if len(p.ToolCall) > 0 {
		return p.ToolCall
	}
	return p.Subject.ToolCall
}

type permissionOption struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// elicitation is a request to the user to fill in a form or to visit a URL.
type elicitation struct {
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"requestedSchema"`
	URL     string          `json:"url"`

	ToolCallID string `json:"toolCallId"`
}

// prompted is the answer to a prompt.
type prompted struct {
	StopReason string          `json:"stopReason"`
	Usage      *usage          `json:"usage"`
	MessageID  string          `json:"messageId"` // version 2: the turn has started
	Meta       json.RawMessage `json:"_meta"`
}

// subagent is the state of a subagent's conversation, in version 2.
type subagent struct {
	SessionID string `json:"sessionId"`
	Title     string `json:"title"`
	State     struct {
		State      string `json:"state"`
		StopReason string `json:"stopReason"`
	} `json:"state"`
}

// outcome is the answer to a permission request.
type outcome struct {
	Outcome selected `json:"outcome"`
}

type selected struct {
	Outcome  string `json:"outcome"` // selected or cancelled
	OptionID string `json:"optionId,omitempty"`
}

// elicited is the answer to an elicitation.
type elicited struct {
	Action  string          `json:"action"` // accept, decline or cancel
	Content json.RawMessage `json:"content,omitempty"`
}
