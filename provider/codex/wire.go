package codex

import (
	"encoding/json"

	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// The messages between codex app-server and Runnel: JSON-RPC without the
// version field, one message per line. Only fields that are translated are
// decoded.

// Methods that Runnel calls.
const (
	methodInitialize     = "initialize"
	methodInitialized    = "initialized"
	methodLogin          = "account/login/start"
	methodModels         = "model/list"
	methodStart          = "thread/start"
	methodResume         = "thread/resume"
	methodFork           = "thread/fork"
	methodSettings       = "thread/settings/update"
	methodTurn           = "turn/start"
	methodInterrupt      = "turn/interrupt"
	methodCleanTerminals = "thread/backgroundTerminals/clean"
	methodTurns          = "thread/turns/list"
	methodThreads        = "thread/list"
	methodAccount        = "account/read"
	methodConfig         = "config/read"
)

// Methods that the agent calls.
const (
	askCommand     = "item/commandExecution/requestApproval"
	askFileChange  = "item/fileChange/requestApproval"
	askPermissions = "item/permissions/requestApproval"
	askUser        = "item/tool/requestUserInput"
	askElicitation = "mcpServer/elicitation/request"
)

// ignored are the notifications that Runnel opts out of. They are large, or are
// not translated.
var ignored = []string{
	"remoteControl/status/changed", "thread/readState/changed", "turn/diff/updated",
	"item/fileChange/outputDelta", "item/fileChange/patchUpdated", "rawResponseItem/completed", "rawResponse/completed",
	"fs/changed", "skills/changed", "app/list/updated",
}

// note holds the parameters of all kinds of notifications, and the ids in a
// question. A message has some of the fields.
type note struct {
	ThreadID string          `json:"threadId"`
	TurnID   string          `json:"turnId"`
	ItemID   string          `json:"itemId"`
	Item     *item           `json:"item"`
	Turn     *nativeTurn     `json:"turn"`
	Thread   *thread         `json:"thread"`
	Delta    string          `json:"delta"`
	Index    int             `json:"summaryIndex"`
	Usage    *tokenUsage     `json:"tokenUsage"`
	Settings *threadSettings `json:"threadSettings"`
	Request  jsonrpc.ID      `json:"requestId"` // serverRequest/resolved
	Name     string          `json:"threadName"`

	// error
	Error     *turnError `json:"error"`
	WillRetry bool       `json:"willRetry"`

	// turn/plan/updated
	Plan []struct {
		Step   string `json:"step"`
		Status string `json:"status"` // pending, inProgress, completed
	} `json:"plan"`

	// warning, configWarning
	Message string `json:"message"`
	Summary string `json:"summary"`
	Path    string `json:"path"`
	Range   struct {
		Start struct {
			Line int `json:"line"`
		} `json:"start"`
	} `json:"range"`

	// model/rerouted
	ToModel string `json:"toModel"`

	// account/rateLimits/updated
	Limits *rateLimits `json:"rateLimits"`
}

// thread is a conversation, or the part of it that belongs to a subagent.
type thread struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Preview   string `json:"preview"` // the first prompt
	Path      string `json:"path"`
	CWD       string `json:"cwd"`
	Model     string `json:"model"`
	CreatedAt int64  `json:"createdAt"` // unix seconds
	UpdatedAt int64  `json:"updatedAt"`
	ParentID  string `json:"parentThreadId"` // set for subagents
}

// opened is the result of thread/start, thread/resume and thread/fork.
type opened struct {
	Thread         thread          `json:"thread"`
	Model          string          `json:"model"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy"`
	Sandbox        sandboxPolicy   `json:"sandbox"`
	Effort         string          `json:"reasoningEffort"`
}

type threadSettings struct {
	Model          string          `json:"model"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy"`
	Sandbox        sandboxPolicy   `json:"sandboxPolicy"`
	Effort         string          `json:"effort"`
	Collaboration  struct {
		Mode string `json:"mode"` // plan, default
	} `json:"collaborationMode"`
}

type sandboxPolicy struct {
	Type          string   `json:"type"` // readOnly, workspaceWrite, dangerFullAccess, externalSandbox
	WritableRoots []string `json:"writableRoots,omitempty"`
}

// nativeTurn is a turn in the agent's form.
type nativeTurn struct {
	ID        string     `json:"id"`
	Root      string     `json:"rootTurnId"` // the turn of the main thread that caused it
	Items     []item     `json:"items"`
	Status    string     `json:"status"` // inProgress, completed, interrupted, failed
	Error     *turnError `json:"error"`
	StartedAt int64      `json:"startedAt"` // unix seconds
	EndedAt   int64      `json:"completedAt"`
}

// wasCancelled reports whether the user interrupted a stored turn. A turn whose
// process was killed has the same status, but no end time.
func (tn *nativeTurn) wasCancelled() bool { return tn.Status == "interrupted" && tn.EndedAt > 0 }

type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"` // a string, or an object with one key
}

// wasStopped reports whether a stored command was stopped because its turn was
// interrupted.
func (it *item) wasStopped() bool {
	return it.Type == "commandExecution" && it.Status == "failed" && it.Exit != nil && *it.Exit == -1
}

// item is a ThreadItem. Its type determines which fields are set.
type item struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	StartedAt   int64  `json:"startedAtMs"`
	CompletedAt int64  `json:"completedAtMs"`
	Status      string `json:"status"` // inProgress, completed, failed, declined

	// userMessage, reasoning; in reasoning, content is a list of strings
	ClientID string          `json:"clientId"`
	Content  json.RawMessage `json:"content"`

	// agentMessage, plan
	Text  string `json:"text"`
	Phase string `json:"phase"` // commentary, partial_answer, final_answer

	// reasoning
	Summary []string `json:"summary"`

	// commandExecution
	Command string          `json:"command"`
	CWD     string          `json:"cwd"`
	Source  string          `json:"source"`
	Actions []commandAction `json:"commandActions"`
	Output  string          `json:"aggregatedOutput"`
	Exit    *int            `json:"exitCode"`

	// fileChange
	Changes []fileChange `json:"changes"`

	// mcpToolCall, dynamicToolCall
	Server    string          `json:"server"`
	Namespace string          `json:"namespace"`
	Tool      string          `json:"tool"` // also of collabAgentToolCall
	Arguments json.RawMessage `json:"arguments"`
	ReadOnly  bool            `json:"readOnlyHint"`
	Result    *mcpResult      `json:"result"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
	Parts []outputPart `json:"contentItems"`

	// webSearch
	Query  string          `json:"query"`
	Action json.RawMessage `json:"action"`

	// imageView, imageGeneration
	Path  string `json:"path"`
	Saved string `json:"savedPath"`

	// collabAgentToolCall, subAgentActivity
	Prompt    string                `json:"prompt"`
	Model     string                `json:"model"`
	Receivers []string              `json:"receiverThreadIds"`
	Agents    map[string]agentState `json:"agentsStates"`
	Kind      string                `json:"kind"`
	AgentID   string                `json:"agentThreadId"`
	AgentPath string                `json:"agentPath"`

	// sleep
	Duration int64 `json:"durationMs"`
}

type agentState struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type commandAction struct {
	Type    string `json:"type"` // read, listFiles, search, unknown
	Command string `json:"command"`
	Path    string `json:"path"`
}

// fileChange is one file of a patch. Diff is the whole text of a new or deleted
// file. For other files it contains the hunks.
type fileChange struct {
	Path string `json:"path"`
	Kind struct {
		Type string `json:"type"` // add, delete, update
		Move string `json:"move_path,omitempty"`
	} `json:"kind"`
	Diff string `json:"diff,omitempty"`
}

type mcpResult struct {
	Content    []outputPart    `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
}

// outputPart is one part of a tool's output.
type outputPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// userInput is one part of a prompt.
type userInput struct {
	Type     string      `json:"type"` // text, image, localImage, …
	Text     *string     `json:"text,omitempty"`
	Elements *[]struct{} `json:"text_elements,omitempty"`
	URL      string      `json:"url,omitempty"`
	Path     string      `json:"path,omitempty"`
}

// rateLimits reports how much of its limits the account has used.
type rateLimits struct {
	Primary   *limitWindow `json:"primary"`
	Secondary *limitWindow `json:"secondary"`
	Reached   string       `json:"rateLimitReachedType"`
}

type limitWindow struct {
	Used     float64 `json:"usedPercent"`
	Minutes  int64   `json:"windowDurationMins"`
	ResetsAt int64   `json:"resetsAt"` // unix seconds
}

type tokenUsage struct {
	Total  tokens `json:"total"` // of the thread
	Last   tokens `json:"last"`  // of the last model call
	Window int64  `json:"modelContextWindow"`
}

type tokens struct {
	Total      int64 `json:"totalTokens"`
	Input      int64 `json:"inputTokens"` // includes cached tokens
	Cached     int64 `json:"cachedInputTokens"`
	CacheWrite int64 `json:"cacheWriteInputTokens"`
	Output     int64 `json:"outputTokens"` // includes reasoning tokens
	Reasoning  int64 `json:"reasoningOutputTokens"`
}

// modelEntry is a model in the result of model/list.
type modelEntry struct {
	Model       string `json:"model"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
	Hidden      bool   `json:"hidden"`
	Efforts     []struct {
		Effort      string `json:"reasoningEffort"`
		Description string `json:"description"`
	} `json:"supportedReasoningEfforts"`
	DefaultEffort string `json:"defaultReasoningEffort"`
	IsDefault     bool   `json:"isDefault"`
}
