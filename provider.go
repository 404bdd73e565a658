package runnel

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// A Provider knows how to run one kind of agent.
//
// It may implement more than this: [Historian], [PositionalHistorian],
// [StoredReader],
// [Discoverer], [Summarizer], [Placer], [Sharer], [Finder], [Translator], [Forker],
// [Preparer], [Accepter], [Prober], [OptionTaker], [LoginChecker],
// [MCPLister], [MCPEditor], [Limiter] and [ConnPrototype] are found by type assertion, and
// [Capabilities] is computed from them.
type Provider interface {
	// Name is the provider's stable name, such as "claude-code".
	Name() string

	// Open starts an agent, or resumes a conversation if opt.Resume is set. It
	// returns when the agent is ready for a prompt, or with an *Error that says
	// why it is not; then nothing is left running.
	Open(ctx context.Context, opt Options) (Conn, error)
}

// A Conn is one conversation with one running agent.
//
// The session calls Next from one goroutine and the other methods from another.
// Prompt, Interrupt and Decide return as soon as the message for the agent is
// queued. The agent's reaction arrives through Next.
type Conn interface {
	// Next waits for the next event of the agent. Events of a turn have its id;
	// out-of-turn events have none. After the agent has exited, Next returns
	// io.EOF or an *Error with the reason. Close unblocks it.
	Next(ctx context.Context) (event.Event, error)

	// Prompt begins a turn. The events of that turn carry its id.
	Prompt(ctx context.Context, turn string, in Input) error

	// Interrupt asks the agent to end the turn early.
	Interrupt(ctx context.Context) error

	// Decide answers an event.ApprovalRequested.
	Decide(ctx context.Context, approval string, d Decision) error

	// Close asks the agent to exit and, after a grace period, kills it. It
	// returns once the process and all its descendants have ended. It may be
	// called more than once and while Next runs.
	Close() error
}

// What a Conn may also do.
type (
	// A ModelSetter can change the model of a live conversation.
	ModelSetter interface {
		SetModel(ctx context.Context, model string) error
	}
	// A ModeSetter can change the permission mode of a live conversation.
	ModeSetter interface {
		SetPermissionMode(ctx context.Context, mode PermissionMode) error
	}
	// An EffortSetter can change the reasoning effort of a live conversation.
	EffortSetter interface {
		SetReasoningEffort(ctx context.Context, effort string) error
	}
	// A ConfigSetter can change settings that the agent offers as
	// event.ConfigOption. It rejects settings and values that the agent does
	// not offer. Without Options.AllowBypass it rejects values with which the
	// agent would run tools without asking.
	ConfigSetter interface {
		SetConfig(ctx context.Context, id, value string) error
	}
	// A ToolDisallower can disallow tools in a live conversation. tools
	// replaces the list of an earlier call. Tools that the agent was started
	// without stay disallowed.
	ToolDisallower interface {
		SetDisallowedTools(ctx context.Context, tools []string) error
	}
	// A ThinkingDisplayer can change how a live conversation shows reasoning.
	ThinkingDisplayer interface {
		SetThinkingDisplay(ctx context.Context, d ThinkingDisplay) error
	}
	// A SettingsChecker knows in advance which settings it refuses. It returns
	// the error with which it would refuse one of them, and changes nothing.
	// A Conn that refuses any settings implements it, so that a prompt that is
	// refused because of one setting leaves the others as they were.
	SettingsChecker interface {
		CheckSettings(set Settings) error
	}
	// A SettingsReporter knows the settings that are in effect, as the setters
	// take them. Settings returns those that the agent reported last; a field
	// is empty if its value is not known. After a turn with its own settings,
	// the session restores the previous values. A turn can therefore have its
	// own value of a setting only if the previous value is known, from Settings
	// or from the session's options.
	SettingsReporter interface {
		Settings() Settings
	}
	// A BufferedConn knows which events it has in memory. The session then calls
	// Next and appends its events to the log in one goroutine. Otherwise another
	// goroutine calls Next.
	BufferedConn interface {
		// Buffered returns what Next would return if Next would not wait, and
		// otherwise false. The session calls it in the goroutine that calls
		// Next, and never at the same time as Next.
		Buffered() (event.Event, bool)
	}
	// A Resumer reports whether its conversation can be resumed after its
	// process has ended. A Conn needs this interface only if agents of its
	// provider differ in that.
	Resumer interface {
		Resumes() bool
	}
	// A Detacher can leave its agent running when this process ends, so that an
	// [Adopter] in a later process can take it over. Detach returns false if
	// that is impossible. After Detach has returned true, the session calls
	// only Next, which returns an error.
	Detacher interface {
		Detach() bool
	}
	// An EgressAsker runs its agent in a sandbox with [EgressAsk]. OnEgress sets
	// the function that decides about a host which is neither listed nor one of
	// this machine or its network. The host is an address, or a name in the
	// program's letter case. decide is called from several goroutines, and
	// returns soon after ctx has ended. Hosts that are reached for before the
	// first call of OnEgress are refused.
	EgressAsker interface {
		OnEgress(decide func(ctx context.Context, host string, port int) EgressAnswer)
	}
	// An Exiter returns the exit status of its process. ok is false while the
	// process runs.
	Exiter interface {
		ExitStatus() (st ExitStatus, ok bool)
	}
)

// What a Provider may also do.
type (
	// A Historian can read conversations that the agent has stored. History
	// translates them as Conn.Next translates the agent's output.
	Historian interface {
		History(ctx context.Context, ref Conversation) iter.Seq2[event.Event, error]
	}
	// A PositionalHistorian is a Historian whose agent does not store the ids
	// of turns. History gives every turn a UUID of version 5 made from its
	// position in the conversation, even if a session gave the turn another id.
	PositionalHistorian interface{ PositionalTurns() }
	// A FileHistorian is a Historian that reads the agent's files and starts no
	// process, so that a program may read many conversations with it.
	FileHistorian interface{ ReadsFiles() }
	// A StoredReader can read the text of a stored conversation from the agent's
	// files or database, for a search. It starts no process. The items have the
	// ids of [Historian.History]; ReadStored may leave out items without text,
	// and the work of subagents.
	StoredReader interface {
		ReadStored(ctx context.Context, ref Conversation) iter.Seq2[event.Event, error]
	}
	// A Discoverer can list the conversations that the agent has stored, newest
	// first: the conversations of one directory, or all if dir is empty.
	Discoverer interface {
		Discover(ctx context.Context, dir string) iter.Seq2[Conversation, error]
	}
	// A Summarizer can describe the conversations in its agent's files without
	// starting the agent. An index of conversations calls StoredFiles often,
	// and Summarize only for a file that has changed. Both are safe for
	// concurrent use.
	Summarizer interface {
		// StoredFiles yields every file that may contain a conversation, in no
		// particular order, and follows no links. It skips what it cannot read.
		// It yields an error if ctx ends, or if the agent stores conversations in
		// a database that cannot be read.
		StoredFiles(ctx context.Context) iter.Seq2[StoredFile, error]

		// Summarize describes the conversation in a file. It reads at most 256
		// KiB at the two ends of the file. It returns an error if the file
		// contains no conversation or cannot be read; after AGENT_ERROR, the
		// same file may be readable later.
		Summarize(ctx context.Context, f StoredFile) (Conversation, error)
	}
	// A Placer is a Summarizer whose agent stores conversations at known places,
	// so that a program can watch the files there instead of calling StoredFiles
	// again and again. Both methods are safe for concurrent use.
	Placer interface {
		// StoredPlaces returns the places of the files that StoredFiles yields,
		// and of the other files from which it reads.
		StoredPlaces() []StoredPlace

		// StoredFile returns the file at path, which belongs to a place, as
		// StoredFiles yields it. ok is false if StoredFiles yields no such file
		// now.
		StoredFile(path string) (f StoredFile, ok bool)
	}
	// A Sharer may continue the stored conversations of another provider's
	// agent, which are listed only for that provider. SharesWith returns the
	// other provider's name, or "" if the agent has conversations of its own.
	Sharer interface{ SharesWith() string }
	// A Finder can find one stored conversation without listing all. After
	// SESSION_NOT_FOUND a complete listing may still contain the conversation.
	Finder interface {
		Find(ctx context.Context, agentSessionID string) (Conversation, error)
	}
	// A Translator can translate the lines of a recording, without the agent,
	// to the events that Conn.Next returned for them. It yields an error only
	// if it cannot read on. [Replay] applies the rules of a turn to the events.
	Translator interface {
		Translate(lines iter.Seq2[Line, error]) iter.Seq2[event.Event, error]
	}
	// A Forker can continue from a copy of a conversation.
	Forker interface {
		Fork(ctx context.Context, opt Options) (Conn, error)
	}
	// An Adopter can take over an agent that an earlier server process started
	// with the same Options.Takeover. If there is none, Adopt fails and changes
	// nothing.
	Adopter interface {
		Adopt(ctx context.Context, opt Options) (Conn, Backlog, error)
	}
	// A Preparer can change a prompt before the session logs it, for instance
	// to shrink images that are too large for the agent. Prepare is called by
	// the goroutine that sends the prompt, and must not modify in itself.
	Preparer interface {
		Prepare(ctx context.Context, in Input) (Input, error)
	}
	// An Accepter knows which attachments its agent accepts. Accepts returns a
	// function that returns the reason why the agent rejects an attachment,
	// safe to show; "" if the agent accepts it. Accepts may start an agent with
	// opt to ask it, and then stops it.
	Accepter interface {
		Accepts(ctx context.Context, opt Options) (func(Attachment) (reason string), error)
	}
	// A Prober can detect whether its agent is installed, without starting a
	// turn.
	Prober interface {
		Probe(ctx context.Context) Installation
	}
	// A Programmable can run another program than its default, with additional
	// environment variables ("K=V"). An empty command keeps the default
	// program. Only the configuration of the server may set the command and the
	// variables; clients may not.
	Programmable interface {
		WithProgram(command, env []string) Provider
	}
	// A StateKeeper knows where its agent stores files outside of projects:
	// conversations, logins and settings. StatePaths returns absolute paths of
	// the environment in which the provider starts the agent, whether they exist
	// or not. No rule lets the sandbox of any agent reach one of them.
	StateKeeper interface {
		StatePaths() []string
	}
	// A ConnPrototype returns a value of the type of its connections. Callers
	// find out which interfaces the type implements, and call no method of it.
	ConnPrototype interface {
		Prototype() Conn
	}
)

// A Backlog is what an adopted agent sent and received since its last turn
// began. Some of it may be missing from the log. Conn.Next continues after
// Events.
type Backlog struct {
	After   int64         // position of the log before that turn; -1: no turn has begun
	Events  []event.Event // what Next would have returned
	Prompts []string      // ids of turns whose prompt the agent has received
	Waiting []string      // ids of approvals without an answer
}

// A Conversation describes a conversation that an agent has stored on disk.
type Conversation struct {
	AgentSessionID string            `json:"agentSessionId"`
	Dir            string            `json:"projectDir,omitzero"`
	Title          string            `json:"title,omitzero"`
	LastMessage    string            `json:"lastMessage,omitzero"` // beginning of the last message, in one line; only from a Summarizer
	File           string            `json:"-"`                    // "" to search for it
	Older          []string          `json:"-"`                    // earlier files of the same conversation
	StoredFor      func(string) bool `json:"-"`                    // whether one of the files belongs to this directory. Default: only Dir
	Anywhere       bool              `json:"-"`                    // File may lie outside the agent's folders
	Trusted        bool              `json:"-"`                    // Options.Trusted, if reading starts the agent
	Pictures       func(data []byte) `json:"-"`                    // receives the images of prompts before the events that name them, in the goroutine that reads. Default: they are dropped
	Shown          []ShownItem       `json:"-"`                    // for a Follower: the items that the caller already has of turns that still run, in their order; they keep their ids
	Size           int64             `json:"size,omitzero"`
	CreatedAt      time.Time         `json:"createdAt,omitzero"`
	UpdatedAt      time.Time         `json:"updatedAt,omitzero"`
}

// A ShownItem is an item that a caller of a [Follower] already has. Outputs of
// calls and the prompts of turns are not among them.
type ShownItem struct {
	ID     string
	Native string // the agent's own id of the item or of its message, from ItemStart.Native; "" if unknown
}

// A StoredFile identifies one state of a file in which an agent stores a
// conversation. As long as all its fields stay the same, so does the summary of
// the conversation.
type StoredFile struct {
	Path    string    // absolute
	Size    int64     // in bytes
	ModTime time.Time // of the last change
	Inode   uint64    // 0 if the system has none
	Title   string    // title that the agent stores outside of the file. Default: none
}

// A StoredPlace is where an agent stores conversations. Each element of Pattern
// is a pattern of [path.Match] for one level below Dir.
type StoredPlace struct {
	Dir     string // absolute; may not exist
	Pattern string
	Shared  bool // a file at this place is about several conversations; after its change, only StoredFiles tells which have changed
}

// An Installation is the result of a probe of an agent on this machine.
type Installation struct {
	Installed bool     `json:"installed"`
	Path      string   `json:"path,omitzero"`
	Version   string   `json:"version,omitzero"`
	LoggedIn  *bool    `json:"loggedIn,omitzero"` // nil: the agent cannot tell
	Install   string   `json:"install,omitzero"`  // command that installs it
	Login     string   `json:"login,omitzero"`    // command that logs in
	Problem   string   `json:"problem,omitzero"`  // why it cannot be used, safe to show
	Models    []Model  `json:"models,omitzero"`
	Modes     []string `json:"modes,omitzero"` // permission modes

	// ModeLabels has descriptions of permission modes, by mode. It has only the
	// modes that work in this agent in another way than their names suggest.
	ModeLabels map[string]string `json:"modeLabels,omitzero"`

	// Config lists the settings that the probe could find, with their choices.
	Config []event.ConfigOption `json:"config,omitzero"`
}

// A Model is one that an agent offers.
type Model struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitzero"`
	Description string `json:"description,omitzero"`
}

// PermissionMode determines what an agent may do without asking.
type PermissionMode string

// The permission modes.
const (
	ModeDefault     PermissionMode = "default" // ask
	ModeAcceptEdits PermissionMode = "acceptEdits"
	ModePlan        PermissionMode = "plan"
	ModeDontAsk     PermissionMode = "dontAsk" // deny what would ask
	ModeBypass      PermissionMode = "bypass"  // needs Options.AllowBypass too
)

// Delegation determines whether an agent may start subagents.
type Delegation string

// The values of Delegation.
const (
	DelegateFreely Delegation = ""      // the agent decides
	DelegateAsking Delegation = "ask"   // the agent asks before it starts a subagent
	DelegateNever  Delegation = "never" // the agent starts without its tools for subagents
)

// A Subagent is an agent to which the session's agent can delegate work.
type Subagent struct {
	Name        string
	Description string   // for the agent, to choose it
	Prompt      string   // its system prompt. Default: the agent's own
	Tools       []string // Default: those of the agent
	Model       string   // Default: that of the agent
}

// Options configure an agent. The zero value runs the agent in the current
// directory with its own defaults.
//
// It is part of the HTTP API: fields that come from a client have JSON names.
type Options struct {
	Model              string          `json:"model,omitzero"`              // Default: the agent's
	Tools              []string        `json:"tools,omitzero"`              // Default: the agent's
	MaxTurns           int             `json:"maxTurns,omitzero"`           // model calls a prompt may take. Default: no limit
	PermissionMode     PermissionMode  `json:"permissionMode,omitzero"`     // Default: ModeDefault
	ReasoningEffort    string          `json:"reasoningEffort,omitzero"`    // Default: the agent's
	Config             Values          `json:"config,omitzero"`             // values of the settings that the agent offers as event.ConfigOption. Default: the agent's own
	MaxThinkingTokens  int             `json:"maxThinkingTokens,omitzero"`  // Default: the agent's
	AddDirs            []string        `json:"addDirs,omitzero"`            // further absolute directories the agent may use
	SystemPromptAppend string          `json:"systemPromptAppend,omitzero"` // text added to the system prompt; never passed on a command line
	MCPServers         json.RawMessage `json:"mcpServers,omitzero"`         // the agent's own form, a JSON object
	DisallowedTools    []string        `json:"disallowedTools,omitzero"`    // tools that the agent does not get. Default: none
	ThinkingDisplay    ThinkingDisplay `json:"thinkingDisplay,omitzero"`    // how the agent shows its reasoning. Default: ThinkingSummarized, where the agent takes it
	Budget             Budget          `json:"budget,omitzero"`             // of all turns of the session together. Default: none
	TurnBudget         Budget          `json:"turnBudget,omitzero"`         // of each turn. Default: none
	Auth               Auth            `json:"auth,omitzero"`               // agent-login or api-key. Default: as configured, else the agent chooses
	Keys               Keys            `json:"keys,omitzero"`               // who holds the agent's API key. Default: KeysAgent
	Sandbox            Sandbox         `json:"sandbox,omitzero"`            // what the agent and its processes can reach on this machine. Default: SandboxOff
	Egress             Egress          `json:"egress,omitzero"`             // what they can reach in the network from a sandbox. Default: the agent's own hosts

	Extensions            Extensions                 `json:"-"` // options of a Run in the form of the universal API. Default: none
	Takeover              Takeover                   `json:"-"` // lets the agent outlive this process for a while. Default: it does not
	Dir                   string                     `json:"-"` // Default: the current directory
	InPlace               bool                       `json:"-"` // Dir and AddDirs are paths without links, and a sandbox is not made if they have one by then. Default: a sandbox has what links lead to
	Resume                string                     `json:"-"` // the agent's own id of a conversation, or ResumeLast. Default: a new one
	Fork                  bool                       `json:"-"` // start with a copy of the conversation Resume, which stays unchanged. Default: continue that conversation
	ServerDisallowedTools []string                   `json:"-"` // tools that the server disallows; no effect on agents that cannot leave tools out. Default: none
	Delegation            Delegation                 `json:"-"` // one of those that Takes declares. Default: DelegateFreely
	Subagents             []Subagent                 `json:"-"` // additional subagents, if the agent accepts them. Default: only its own
	Path                  string                     `json:"-"` // the agent's program. Default: looked up in PATH
	Env                   []string                   `json:"-"` // "K=V", over the provider's own. The parent's is passed by allow-list only
	EndWithContext        bool                       `json:"-"` // a Run ends with the context of its Start. Default: it does not
	OneTurn               bool                       `json:"-"` // the agent has one turn and no background tasks after it. A Run sets it
	Limits                Limits                     `json:"-"` // of the agent and all processes that it starts; set by a provider with [Limiter.WithLimits]. Default: none
	Protected             []string                   `json:"-"` // absolute paths that no sandbox contains, in addition to those of Runnel's own list. Default: none
	Withheld              []string                   `json:"-"` // absolute paths that Allowed does not reach, in addition to Protected: the state of all agents, see [StateKeeper]. Default: none
	Allowed               []AllowedPath              `json:"-"` // paths outside of the session's directories that the sandbox contains, too. They are checked at each start. Default: none
	RefusedPorts          []int                      `json:"-"` // ports of this machine that no sandbox reaches, whatever Egress allows. Default: none
	Reached               func(EgressAttempt)        `json:"-"` // called with each attempt to reach the network from a sandbox, from any goroutine; it must not block. Default: none
	Trusted               bool                       `json:"-"` // the folder's own settings may run code. Default: they are not read
	UntrustedDirs         []string                   `json:"-"` // directories of AddDirs that are untrusted even if Dir is trusted. Default: none
	AllowBypass           bool                       `json:"-"` // makes ModeBypass possible
	Timeout               time.Duration              `json:"-"` // of a Run, from spawn to exit. Default: none
	Approve               Approver                   `json:"-"` // answers approvals. Default: Start denies, Open waits for Decide
	Judge                 Judge                      `json:"-"` // of a Run: decides approvals before Approve is asked; for a session see Config.Judge. Default: none
	Tap                   func(dir Dir, line []byte) `json:"-"` // sees every raw line, and marks with DirMeta; for recordings. The slice is reused
	Tapping               func() bool                `json:"-"` // whether Tap uses lines now; it must not block. Default: always
	Filter                func(opt Options) Filter   `json:"-"` // returns the Filter of one agent's events. Default: none
	Counters              *Counters                  `json:"-"` // count agent output that is not logged. Default: not counted
	Warn                  func(code, message string) `json:"-"` // called for dangerous settings. Default: none

	// Unknown receives each raw line with a message of a type that the agent's
	// provider does not know, as in Counters, while the agent's output is read.
	// The slice is reused. Default: none.
	Unknown func(typ string, line []byte) `json:"-"`
}

// ThinkingDisplay says how an agent shows the reasoning of its model.
type ThinkingDisplay string

// The ways to show reasoning.
const (
	ThinkingSummarized ThinkingDisplay = "summarized"
	ThinkingOmitted    ThinkingDisplay = "omitted"
)

// Values are settings of an agent's own, by the id of their event.ConfigOption.
type Values map[string]string

// Takeover lets a later server process take over the agent, see [Adopter], or
// end it. It needs a supervisor.
type Takeover struct {
	Dir    string        // private directory of takeover data. Default: no takeover
	Name   string        // unique in Dir; letters, digits and dashes
	Window time.Duration // how long the agent runs without a server. Default: it ends at once, and cannot be taken over
}

// Dir is the direction of a raw line, from the view of this process.
type Dir string

// The directions.
const (
	DirIn   Dir = "in"   // to the agent
	DirOut  Dir = "out"  // from the agent
	DirErr  Dir = "err"  // from the agent's standard error
	DirMeta Dir = "meta" // about the recording
)

// A Line is a raw line that passed between us and an agent, as
// [Options.Tap] saw it.
type Line struct {
	At   time.Time
	Dir  Dir
	Text []byte // without its newline
}

// An Approver answers an approval. It is called on a separate goroutine, for
// which Close does not wait. ctx ends once the approval is resolved in another
// way. An answer that is invalid for the approval denies it.
type Approver func(ctx context.Context, a event.Approval) Decision

// A Judge decides an approval without a person, or reports false to pass it to
// Options.Approve, to people and to the approval timeout. It is called on a
// separate goroutine. ctx ends once the approval is resolved in another way,
// and at the latest after three seconds. A Judge that has not decided by then
// counts as having passed. Until the Judge has passed or decided, answers of
// people and programs wait. An invalid decision denies the approval.
type Judge func(ctx context.Context, a event.Approval) (d Decision, ok bool)

// Input is what the user sends.
type Input struct {
	Text        string       `json:"text"`
	Attachments []Attachment `json:"attachments,omitzero"`

	// Rejected are the attachments that do not reach the agent. The agent gets
	// their number and the reasons before the prompt; see [Input.Warning].
	Rejected []Rejection `json:"rejected,omitzero"`

	// Turn is the id that the turn gets, a UUID. Default: a new one.
	Turn string `json:"-"`

	// After is the position of the log before the turn. The session sets it.
	After int64 `json:"-"`
}

// Text returns an Input of plain text.
func Text(s string) Input { return Input{Text: s} }

// A Decision answers an approval.
type Decision struct {
	Choice           string          `json:"choice"`                    // id of one of the approval's choices
	UpdatedArguments json.RawMessage `json:"updatedArguments,omitzero"` // where the approval allows it
	Reason           string          `json:"reason,omitzero"`           // told to the agent with a denial
	ArgumentsDigest  string          `json:"argumentsDigest,omitzero"`  // the approval's; required to approve, except of an [Approver] or a [Judge]

	// By says who decided. Default: event.ByUser.
	By event.Resolver `json:"-"`

	// Maker is passed to Config.Decided. The log has only its rule.
	Maker Maker `json:"-"`
}

// A Maker identifies the maker of a decision in more detail than the log. All
// fields are optional.
type Maker struct {
	Name       string // of a person's or a program's credential, or of a source of policies
	Credential string // its id
	Rule       int64  // number of the stored rule that decided, or that was stored with a person's decision
}

// Decided is how an approval was resolved.
type Decided struct {
	Turn     string
	At       time.Time
	Approval event.Approval
	Resolved event.ApprovalResolved
	Maker    Maker // empty for timeouts and withdrawn approvals
}

// approvesUnseen reports whether d approves without the digest of the
// arguments, where kind is the kind of its choice.
func (d Decision) approvesUnseen(a event.Approval, kind event.ChoiceKind) bool {
	denies := kind == event.ChoiceDeny || kind == event.ChoiceDenyStop
	return !denies && d.ArgumentsDigest == "" && a.ArgumentsDigest != ""
}

// ExitStatus is how an agent's process ended. Methods that return it do not
// report a non-zero exit code as an error.
type ExitStatus struct {
	Code       int    `json:"exitCode"`            // -1 if a signal ended it
	Signal     string `json:"signal,omitzero"`     // such as "SIGKILL"
	StdoutHeld bool   `json:"stdoutHeld,omitzero"` // a process that the agent started kept its output open
	Limit      string `json:"limit,omitzero"`      // the limit of the configuration that the agent had reached, such as limits.memoryMiB
}
