package acp

import (
	"context"
	"encoding/json"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// quirks describes how one agent deviates from the protocol, and what the
// protocol leaves to agents, such as the names of permission modes. The fields
// are grouped by the phase in which they apply. The zero value describes an
// agent without known quirks. A nil function has no effect.
//
// Each agent has its own file. There, "recording" and a name refer to the
// recordings in testdata that show the quirk.
type quirks struct {
	startup startupQuirks
	live    liveQuirks
	replay  replayQuirks
	stored  storedQuirks
	mcp     *mcpQuirks // nil: Runnel does not know where the agent keeps its MCP servers
}

// startupQuirks apply while an agent starts and opens a conversation. modes and
// bypass also apply when a user changes settings later.
type startupQuirks struct {
	// modes lists the settings of each permission mode, in the order in which
	// they are applied.
	modes map[runnel.PermissionMode][]setting
	// startModes lists further permission modes that the agent supports only
	// from its start. A running conversation cannot change to them or from them.
	// The agent itself is then in its mode default.
	startModes []runnel.PermissionMode
	// acceptEdits returns env, changed so that the agent asks about no edit in dir.
	// It applies in the mode acceptEdits.
	acceptEdits func(env []string, dir string) ([]string, error)
	// bypass lists settings that make the agent run tools without asking.
	bypass []setting
	// mayBypass lists settings with which the agent may run tools without asking;
	// Runnel cannot tell. Their values are prefixes.
	mayBypass []setting
	// notFoundText is the agent's error text for an unknown conversation, if
	// isNotFound does not recognise it.
	notFoundText string
	// passesOptions means that prepare passes on the options tools and
	// maxTurns.
	passesOptions bool
	// showsThinking means that environ passes on the option thinkingDisplay.
	showsThinking bool
	// passesDisallowed means that prepare or environ passes on the tools that
	// the options disallow.
	passesDisallowed bool
	// subagentTools is the value of runnel.Takes.SubagentTools.
	subagentTools []string
	// subagentKey is the value of runnel.Takes.SubagentKey.
	subagentKey string
	// delegations is the value of runnel.Takes.Delegations.
	delegations []runnel.Delegation
	// notices means that Runnel declares support for notices. Without it, the
	// agent sends its own notices as messages of the model.
	notices bool
	// titles means that Runnel gives each conversation its title. The agent
	// would otherwise ask a model for one in a thread of its own, which has
	// neither the permission mode nor other settings of the conversation.
	titles bool
	// prepare adds to the parameters of the request that opens a conversation. env is
	// the agent's environment.
	prepare func(env []string, opt runnel.Options, params map[string]any) error
	// waitResumable waits until the agent can resume a conversation without
	// losing its contents.
	waitResumable func(ctx context.Context, env []string, session string) error
	// linkInState returns the path of a link in the agent's state that lets the
	// agent work elsewhere without asking, or of a folder that may have one; ""
	// if there is none. dir is the session's folder. An agent in a sandbox can
	// create such links.
	linkInState func(env []string, dir string) (at string, why refusal)
	// checkDir fails for a folder in which the agent would not work, although
	// the session is in it. dir may be empty.
	checkDir func(dir string) error
	// chosenPath returns the path of a file in or above an untrusted folder that
	// chooses paths outside of it, which the agent would use; "" if there is none.
	chosenPath func(dir string) string
	// keyLogin is the login type under which the agent uses the API key in its
	// environment. The agent ignores the key if its settings select another
	// one.
	keyLogin string
	// settingsFile returns the path of the settings that select the login.
	settingsFile func(env []string) string
	// contextSettings returns the paths of the settings that can rename the
	// files for the model, which checkTrust examines.
	contextSettings func(env []string) []string
	// environ returns further variables ("K=V") for the environment of the
	// agent.
	environ func(opt runnel.Options) []string
	// noStdioServers means that the agent ignores the MCP servers that it would
	// have to start.
	noStdioServers bool
	// startModel returns env, changed so that the agent starts with the model.
	// It is for agents that offer no models in a conversation.
	startModel func(env []string, model string) []string
	// noSubagents returns env, changed so that the agent offers the model no
	// tools for subagents.
	noSubagents func(env []string) []string
	// neverDelegates does the same as noSubagents, for agents that take this from
	// files of agentconn.KeepSettings.
	neverDelegates func(env []string) ([]string, error)
	// claimTemp is the argument prefix of agentconn.ClaimTemp; "": the agent has no
	// such folder.
	claimTemp string
	// ownTemp means that the agent uses a folder in the shared one for temporary
	// files, also if another user created it; see agentconn.OwnTemp.
	ownTemp bool
	// programVariable is the name of the variable with the path of another program,
	// which the agent starts in the session's folder.
	programVariable string
	// worktrees is the folder, below the root of a repository, in which the agent
	// creates worktrees of git.
	worktrees string
	// alwaysArgs are further arguments, with which the agent always starts.
	alwaysArgs []string
	// untrustedArgs are further arguments, with which the agent starts in an untrusted
	// folder.
	untrustedArgs []string
	// noSubagentArgs are further arguments, by which the agent offers the model no
	// tools for subagents.
	noSubagentArgs []string
	// noGoals returns env, changed so that the model can set no goal, for which the
	// agent would begin turns by itself.
	noGoals func(env []string) []string
	// noHelpers returns env, changed so that the agent starts no language
	// servers and no formatters. It is for agents that run those of an untrusted
	// folder.
	noHelpers func(env []string) ([]string, error)
	// floors returns env, changed so that what the user's own settings of the agent
	// allow does not override the permissions in env.
	floors func(env []string, opt runnel.Options) ([]string, error)
	// askAboutTexts returns env, changed so that the agent runs no text of a command
	// in which it finds no command, and about which it therefore would not ask. It
	// fails if the arguments in args prevent that.
	askAboutTexts func(args, env []string) ([]string, error)
	// askFirst returns env, changed so that the agent asks before each command. It
	// is for agents that run a command without asking if they believe that it only
	// reads.
	askFirst func(env []string) ([]string, error)
	// subagentsAsk returns env, changed so that subagents ask as the agent does. It
	// applies together with askFirst.
	subagentsAsk func(env []string, opt runnel.Options) ([]string, error)
	// unseenAgents returns env, changed so that agents which the client cannot see do
	// nothing that should be asked about. It applies together with askFirst.
	unseenAgents func(env []string, opt runnel.Options) ([]string, error)
	// atLinks returns env, changed so that the agent asks before it follows a link
	// out of an untrusted folder.
	atLinks func(env []string, opt runnel.Options) []string
	// password names the variable with the password of the HTTP server that the
	// agent starts on loopback and uses itself; "" if it starts none.
	password string
	// pinGit returns env, changed so that the commands of the agent get the
	// variables in pins. It is for agents that may not pass all of their
	// variables to commands.
	pinGit func(env []string, pins map[string]string) []string
}

// liveQuirks apply while a turn runs. Those about tool calls also apply to a
// replayed turn.
type liveQuirks struct {
	// noFiles means that the agent supports only images as attachments,
	// although it reports support for files. Text files become text of the
	// prompt.
	noFiles bool
	// noBlobs means that the agent supports only texts and images as
	// attachments.
	noBlobs bool
	// literal returns the blocks of a prompt such that the agent passes the
	// text to the model unchanged.
	literal func(text, dir string, isCommand func(string) bool) []any
	// mentionsInFiles means that the agent reads files that the text of the
	// last attachment names after an @.
	mentionsInFiles bool

	// joinsTexts means that the agent stores the texts of a prompt as one text,
	// joined by spaces. Runnel then ends the warning about rejected attachments
	// with a line break, so that a replay shows where the warning ends.
	joinsTexts bool

	// forSession lists the ids of allow_always options that apply only until
	// the agent exits.
	forSession []string
	// unasked lists the ids of permission options that switch to a mode of
	// startupQuirks.bypass and do not name it.
	unasked []string
	// stops lists the ids of permission options that deny a call and end the
	// turn.
	stops []string
	// questionnaire returns the questions to the user in the _meta of a
	// permission request. It returns none if the request is about a tool.
	questionnaire func(meta json.RawMessage) []userQuestion
	// lateInput means that a permission request may arrive before the arguments
	// of its call.
	lateInput bool

	// always says what the choice allow_always or allow_session allows beyond the call,
	// by the kind of the question. It is shown with questions that offer the choice and
	// for which the agent gives no reason.
	always map[event.ToolKind]string

	// inputGrows means that each update of a call has more of its arguments.
	// The arguments are final once an update has content, or once the agent
	// reports the usage of the model's message.
	inputGrows bool

	// name returns the name of a call's tool, or "" if it is unknown.
	name func(tc toolCall) string
	// mcp returns the call of an MCP server's tool that the agent wraps in its
	// own arguments and result, or nil for any other call. known means that an
	// earlier update already showed that the call is of an MCP server's tool.
	mcp func(tc toolCall, known bool) *mcpCall
	// title returns the title of a call. It is for agents that send different
	// titles in a live turn and in its replay.
	title func(c *call) string
	// parent returns the id of the call that started the subagent which sent an
	// update, or "".
	parent func(meta json.RawMessage) string
	// running means that the content of a running call is its output so far.
	running bool
	// output returns the output of a call, and its exit code or nil.
	output func(c *call) (string, *int)
	// wholeFiles means that the texts of a diff are whole files.
	wholeFiles bool
	// modeAfter returns the value that a completed call gave to the option mode, or
	// "" if it did not change it. It is for agents that do not report the change.
	modeAfter func(c *call) string
	// modeAfterChoice returns the same for the answer to a question about a tool.
	// option is the agent's id of the answer.
	modeAfterChoice func(tool, option string) string
	// invalid reports whether a call that the agent reports as completed did
	// not run.
	invalid func(c *call) bool
	// changes returns the file changes of a call without diffs.
	changes func(c *call) []event.Change
	// steps returns the plan entries in the arguments of a call.
	steps func(c *call) []planEntry

	// unsaid lists messages of the agent about how Runnel starts it, which are not
	// shown.
	unsaid []string
	// isAgentText reports whether a message without an id is from the agent
	// itself, not from the model.
	isAgentText func(text string) bool
	// failed reports whether the last message of a turn is an error text. used
	// is nil if the agent reported no usage.
	failed func(s *session, tn *turn, used *event.Usage) bool
	// usage returns the usage of a turn from the _meta of the answer to its
	// prompt, or nil.
	usage func(meta json.RawMessage) *usage
	// callUsage returns the usage of one model call from the _meta of a
	// message, or nil. If the agent reports no usage of the turn, Runnel adds
	// up the usage of its model calls.
	callUsage func(meta json.RawMessage) *usage
	// costContinues reports whether this version of the agent counts the cost
	// from the start of a resumed conversation, and not from the start of its
	// process. The cost of the first turn after a resumption is then unknown.
	costContinues func(release string) bool
	// cumulativeUsage means that the reported usage counts from the start of
	// the conversation.
	cumulativeUsage bool
}

// replayQuirks apply while the agent replays a stored conversation.
type replayQuirks struct {
	// endsWithCommands means that the agent answers the request first and
	// replays afterwards. The list of its commands is the last message of the
	// replay.
	endsWithCommands bool
	// onePart means that each chunk of a user message is a separate prompt.
	onePart bool
	// prompt returns the id of the prompt that a chunk of a user message
	// belongs to. It is for agents whose messages have no ids.
	prompt func(meta json.RawMessage) string
	// thoughtParts means that each chunk of reasoning is a paragraph.
	thoughtParts bool
	// interrupted reports whether a user message is the agent's note that the
	// user interrupted the turn.
	interrupted func(text string) bool
	// userPart converts a block of a replayed prompt back to the block that was
	// sent. If it returns a block without a type, the replay omits the block.
	userPart func(b block) block
}

func (q *quirks) nameOf(tc toolCall) string {
	if q.live.name == nil {
		return ""
	}
	return text.OneLine(q.live.name(tc), 200)
}

func (q *quirks) parentOf(meta json.RawMessage) string {
	if q.live.parent == nil || len(meta) == 0 {
		return ""
	}
	return nativeID(q.live.parent(meta))
}

// byName returns the quirks of the known agents, by Agent.Name.
var byName = map[string]func() *quirks{
	"codex-acp": codexACP, "claude-agent-acp": claudeAgent, "opencode": opencode, "gemini": gemini, "copilot": copilot, "qwen": qwen,
}
