package acp

import (
	"context"
	"encoding/json"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// quirks is how one agent deviates from the protocol, and how it fills in what
// the protocol leaves open, such as the names of permission modes. Its members
// are grouped by the moment at which they matter. The zero value is an agent of
// which nothing is known; a function that is nil has no effect. Each agent has
// a file of its own, which names the recordings in testdata that show the
// quirk.
type quirks struct {
	startup startupQuirks
	live    liveQuirks
	replay  replayQuirks
}

// startupQuirks matter while an agent is started and a conversation is opened.
// The modes count in a running conversation as well, when a user changes them.
type startupQuirks struct {
	// modes lists the settings that make up each permission mode, in the order
	// in which they are set.
	modes map[runnel.PermissionMode][]setting
	// startModes lists the further modes in which the agent can start, and to which
	// a running conversation cannot change.
	startModes []runnel.PermissionMode
	// bypass lists the settings with which the agent runs tools without asking.
	bypass []setting
	// notFoundText is the text of the error for a conversation that does not exist.
	notFoundText string
	// passesOptions says that prepare passes on the options tools and maxTurns.
	passesOptions bool
	// showsThinking says that environ passes on the option thinkingDisplay.
	showsThinking bool
	// passesDisallowed says that prepare or environ pass on the option Disallowed.
	passesDisallowed bool
	// subagentTools are runnel.Takes.SubagentTools.
	subagentTools []string
	// delegations are runnel.Takes.Delegations.
	delegations []runnel.Delegation
	// notices says that the agent reports what it wants to say itself as notices
	// to a client that takes them, and as messages of the model to any other.
	notices bool
	// prepare adds to the parameters of the request that opens a conversation.
	prepare func(opt runnel.Options, params map[string]any) error
	// waitResumable returns once the agent can resume a conversation without losing it.
	waitResumable func(ctx context.Context, env []string, session string) error
	// keyLogin is the login that the agent's own settings have to select, if they
	// select any, for the agent to use the API key in its environment.
	keyLogin string
	// settingsFile returns the path of these settings.
	settingsFile func(env []string) string
	// environ returns variables ("K=V") for the environment of the agent.
	environ func(opt runnel.Options) []string
	// noSubagents returns the environment with which the agent has no tools for
	// subagents.
	noSubagents func(env []string) []string
	// pinGit returns the environment with which the commands of the agent get
	// these variables too, if the agent may keep variables from its commands.
	pinGit func(env []string, pins map[string]string) []string
}

// liveQuirks matter while a turn runs; those about tool calls count in a replay
// of a turn as well.
type liveQuirks struct {
	// noFiles says that the agent takes no attachments but images, although it
	// reports that it does: texts become part of the prompt.
	noFiles bool
	// noBlobs says that the agent takes no attachments but texts and images.
	noBlobs bool
	// literal makes the blocks of a prompt, such that the agent passes the text
	// to the model unchanged.
	literal func(text, dir string, isCommand func(string) bool) []any

	// joinsTexts says that the agent stores the texts of a prompt as one, with a
	// space between them. The warning about rejected attachments ends with a line
	// break then, which shows where it ends.
	joinsTexts bool

	// forSession lists the permission options of the kind allow_always that
	// hold only until the agent ends.
	forSession []string
	// stops lists the permission options that deny a call and end the turn.
	stops []string
	// questionnaire returns what a permission request with this _meta asks the user, if it
	// asks for answers and not whether a tool may run.
	questionnaire func(meta json.RawMessage) []userQuestion
	// lateInput says that a permission request may precede the arguments of its
	// call.
	lateInput bool

	// inputGrows says that the updates of a call have more of its arguments each
	// time. They are final in an update with content, and when the usage of the
	// model's message is reported.
	inputGrows bool

	// name returns the name of a tool, or "" if it is not known.
	name func(tc toolCall) string
	// mcp returns what a description says of a call of an MCP server's tool, if
	// the agent describes such calls in another way than the tool does; else
	// nil. known says that the call was one so far.
	mcp func(tc toolCall, known bool) *mcpCall
	// title returns the title of a call, where the titles that the agent sends
	// differ between a live turn and its replay.
	title func(c *call) string
	// parent returns the call whose subagent sent an update, or "".
	parent func(meta json.RawMessage) string
	// running says that the content of a running call is its output so far.
	running bool
	// output returns the output of a call, and its exit code if it is known.
	output func(c *call) (string, *int)
	// wholeFiles says that a diff holds whole files.
	wholeFiles bool
	// invalid reports whether a call that the agent reports as completed was not
	// carried out.
	invalid func(c *call) bool
	// changes returns the file changes of a call that the agent reports without
	// diffs.
	changes func(c *call) []event.Change
	// steps returns the entries of the plan that a call writes.
	steps func(c *call) []planEntry

	// isAgentText reports whether a message without an id is from the agent itself, and
	// not from the model.
	isAgentText func(text string) bool
	// failed reports whether the last message of a turn is the text of an
	// error. The usage is nil if the agent reported none.
	failed func(s *session, tn *turn, used *event.Usage) bool
	// usage returns the usage of a turn that the agent reports outside of the
	// protocol's own field, or nil.
	usage func(meta json.RawMessage) *usage
	// callUsage returns the usage of one call of the model that an agent reports
	// with a message, or nil. Without another usage, that of a turn is their sum.
	callUsage func(meta json.RawMessage) *usage
	// cumulativeUsage says that the usage counts from the beginning of the conversation.
	cumulativeUsage bool
}

// replayQuirks matter while the agent replays a stored conversation.
type replayQuirks struct {
	// endsWithCommands says that the agent replays after its answer to the
	// request, and that the list of its commands is the last message.
	endsWithCommands bool
	// onePart says that each chunk of a user message is a prompt of its own.
	onePart bool
	// prompt returns the id of the prompt that a chunk of a user message is from,
	// where the messages have no ids.
	prompt func(meta json.RawMessage) string
	// thoughtParts says that each chunk of reasoning is a paragraph.
	thoughtParts bool
	// interrupted reports whether a user message is the agent's note that the
	// user interrupted the turn.
	interrupted func(text string) bool
	// userPart turns a block of a replayed prompt back into the block that was
	// sent; a block without a type is left out.
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
	return q.live.parent(meta)
}

// byName are the quirks of the known agents.
var byName = map[string]func() *quirks{
	"codex-acp": codexACP, "claude-agent-acp": claudeAgent, "opencode": opencode, "gemini": gemini, "copilot": copilot, "qwen": qwen,
}
