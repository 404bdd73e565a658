package acp

import (
	"context"
	"encoding/json"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// quirks is what an agent does that the protocol would not make one expect, and
// what it leaves open: words for permission modes among it. The zero value is an
// agent of which nothing is known. Each agent's are in a file of their own, with
// the recordings in testdata that show them.
type quirks struct {
	modes      map[runnel.PermissionMode][]setting // what makes up each mode; the first that is not set already is set first
	starts     []runnel.PermissionMode             // modes besides that it can begin in, and not change to
	bypass     []setting                           // values with which it asks nobody
	forSession []string                            // permission options "always" that hold until it ends
	stops      []string                            // permission options "no" that end the turn
	lateInput  bool                                // a question may come before the call's arguments
	running    bool                                // what a running call shows is what it has printed
	wholeFiles bool                                // a diff has whole files
	totals     bool                                // its usage counts from the beginning of the conversation
	noBlobs    bool                                // it cannot take documents that are no images
	absent     string                              // its reason for not continuing a conversation that there is not
	replayEnds bool                                // it loads behind the answer, and ends with its commands

	onePart       bool // when it loads, a prompt is one chunk
	passesOptions bool // prepare passes on tools and maxTurns

	thoughtParts bool // when it loads, each chunk of reasoning is a paragraph

	name        func(tc toolCall) string            // of a tool, where it is not said
	title       func(c *call) string                // of a call, where what is said differs from time to time
	changes     func(c *call) []event.Change        // what a call does to files, where it is not said
	parent      func(meta json.RawMessage) string   // the call whose subagent says something
	output      func(c *call) (string, *int)        // what a call printed, and its exit code
	steps       func(c *call) []planEntry           // the plan that a call makes
	keepsQuiet  func(c *call) bool                  // a call that is not one
	interrupted func(text string) bool              // a prompt that says that the one before it was interrupted
	userPart    func(b block) block                 // what a part of a prompt was, when it loads
	own         func(text string) bool              // a message without an id is the agent's own, and not the model's
	failed      func(tn *turn, u *event.Usage) bool // the last message is an error's
	usage       func(meta json.RawMessage) *usage   // of a turn, where it is not said

	literal func(text, dir string, isCommand func(string) bool) []any // blocks that are shown to the model as they are

	prepare func(opt runnel.Options, params map[string]any) error         // what begins a conversation
	waits   func(ctx context.Context, env []string, session string) error // until one can be continued
	environ func(opt runnel.Options) []string
}

func (q *quirks) nameOf(tc toolCall) string {
	if q.name == nil {
		return ""
	}
	return oneLine(q.name(tc), 200)
}

func (q *quirks) parentOf(meta json.RawMessage) string {
	if q.parent == nil || len(meta) == 0 {
		return ""
	}
	return q.parent(meta)
}

// failure returns the reason if the last message of a turn that seems to have
// ended well is that of a failure.
func (q *quirks) failure(tn *turn, u *event.Usage) string {
	if q.failed == nil || tn.said == "" || !q.failed(tn, u) {
		return ""
	}
	return tn.said
}

// byName are the quirks of the agents of which some are known.
var byName = map[string]func() *quirks{
	"codex-acp": codexACP, "claude-agent-acp": claudeAgent, "opencode": opencode, "gemini": gemini, "copilot": copilot, "qwen": qwen,
}
