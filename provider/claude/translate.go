package claude

import (
	"cmp"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// providerID is the name of this provider in events and ids.
const providerID = "claude-code"

// translator translates the lines that Runnel sends to one agent process, and
// the lines that the process prints, into events.
//
// It is pure: the same lines in the same order give the same events with the
// same ids. The live conversation, a recording and the agent's own files use
// it.
//
// The translator decodes a line and calls the owner of the state that the line
// changes. If the change affects another owner, the first owner returns a value
// and the translator passes it on. Owners never call the translator.
type translator struct {
	*translate.Skips

	out       *translate.Emitter
	session   *session  // facts that outlive a turn
	requests  requests  // control requests that were sent to the agent
	turns     turns     // turns of the conversation
	tasks     tasks     // subagents that run in the background
	approvals approvals // open questions of the agent
	plan      plan      // the agent's list of tasks to do

	// preserved has the ids of the messages that a compaction preserves. The
	// agent prints some of them again in the turn that compacts (recording
	// context-compact).
	preserved []string
}

func newTranslator() *translator {
	out, s := new(translate.Emitter), newSession()
	return &translator{
		Skips: &out.Skips, out: out, session: s, requests: newRequests(), turns: turns{out: out, session: s},
		tasks: newTasks(out, s), approvals: approvals{out: out, session: s},
	}
}

// derive returns Runnel's id for a native id.
func derive(native string) string { return translate.Derive(providerID, native) }

// Sent implements [agentconn.Translator].
func (t *translator) Sent(line []byte, at time.Time) []event.Event {
	f, err := decode(line)
	if err != nil {
		return nil // only a damaged recording has a line that cannot be decoded
	}
	t.out.Begin(at)
	switch f.Type {
	case "user":
		t.turns.prompted(f)
	case "control_request":
		t.requested(f)
	case "control_response":
		t.approvals.decided(f.Response)
	}
	return t.out.Take()
}

// Printed implements [agentconn.Translator].
func (t *translator) Printed(line []byte, at time.Time) ([]event.Event, []any) {
	t.out.Begin(at)
	if t.grow(line) {
		return t.out.Results()
	}
	if f, err := decode(line); err != nil {
		t.turns.emit(t.out.SkipLine())
	} else {
		t.dispatch(f)
	}
	return t.out.Results()
}

// Flush implements [agentconn.Translator].
func (t *translator) Flush() []event.Event {
	t.tasks.releaseAll()
	return t.out.Take()
}

// dispatch handles a line that the agent printed.
func (t *translator) dispatch(f frame) {
	moved := f.SessionID != "" && f.SessionID != t.session.id && f.Type != "control_request"
	cleared := moved && t.session.id != "" // /clear begins another session in the same process
	if moved {
		if cleared {
			t.plan = plan{}
		}
		t.session.id = f.SessionID
	}
	switch f.Type {
	case "stream_event":
		t.turns.stream(f)
	case "assistant", "user":
		t.conversation(f)
	case "result":
		t.preserved = nil
		t.turns.result(f)
	case "system":
		t.system(f)
	case "rate_limit_event":
		t.turns.limits(f.RateLimit)
	case "control_request":
		t.ask(f)
	case "control_cancel_request":
		t.approvals.withdraw(f.RequestID)
	case "control_response":
		t.answered(f.Response)
	case "command_lifecycle", "conversation_reset":
		t.out.Skip()
	default:
		t.out.SkipUnknown(f.Type)
	}
	t.approvals.settle()
	if cleared {
		t.turns.emit(translate.Cleared)
	}
	if moved {
		t.turns.emit(event.SessionUpdated{AgentSessionID: f.SessionID})
	}
}

// conversation handles a message. It belongs to a background task or to the
// turn in flight.
func (t *translator) conversation(f frame) {
	if f.UUID != "" && slices.Contains(t.preserved, f.UUID) {
		t.out.Skip()
		return
	}
	parent := f.ParentToolUseID
	if k := t.tasks.of(parent); k != nil {
		t.inBackground(k, f)
		return
	}
	between := t.turns.between()
	switch {
	case parent == "":
		t.message(&t.turns, f)
	case f.Type == "user" && (between || t.tasks.known(parent)):
		t.out.Skip() // a stopped subagent may still print results after its turn
	case between: // a subagent that runs while no turn runs is in the background
		t.inBackground(t.tasks.begin(parent), f)
	default:
		t.message(&t.turns, f)
	}
}

// inBackground handles a message of a background task.
func (t *translator) inBackground(k *task, f frame) {
	t.message(&k.turns, f)
	t.tasks.split(k)
}

// message handles a message in the turn that ts has in flight.
func (t *translator) message(ts *turns, f frame) {
	if f.Type == "assistant" {
		ts.assistant(f)
		return
	}
	if f.Message == nil || f.IsReplay {
		return
	}
	ts.harness(f)
	if ts.current == nil {
		t.out.Skip()
		return
	}
	t.results(ts, f)
}

// results handles the results of tools in a message. It ignores other text,
// which the agent itself wrote.
func (t *translator) results(ts *turns, f frame) {
	for i, b := range f.Message.Content {
		if b.Type != "tool_result" {
			continue
		}
		tn := ts.running("")
		if tn == nil {
			return
		}
		if b.ToolUseID == "" {
			b.ToolUseID = tn.unnamedCall(f, i)
		}
		c, out := tn.output(f, b)
		if c == nil {
			continue
		}
		t.tasks.launched(c, f.ToolUseResult)
		if t.plan.apply(c, out, f.ToolUseResult) {
			translate.EmitPlan(tn.emitter(), c.item+":plan", f.ParentToolUseID, t.plan.entries())
		}
	}
}

// system handles the frames of type "system".
func (t *translator) system(f frame) {
	switch f.Subtype {
	case "init":
		t.begin(f)
	case "status":
		if m := t.session.changeMode(f.PermissionMode); m != "" {
			t.turns.emit(event.SessionUpdated{PermissionMode: m})
			t.warn(m)
		}
	case "api_retry":
		if stop := t.turns.retry(f); stop {
			t.out.Reply(t.requests.stop())
		}
	case "compact_boundary":
		t.preserved = f.Compact.Preserved.UUIDs
		t.turns.emit(translate.Compacted)
	case "model_fallback":
		t.turns.notice(event.LevelWarning, "MODEL_FALLBACK", "The model is overloaded; the agent continues with "+
			cmp.Or(text.OneLine(f.FallbackModel, 200), "another model")+".")
	case "model_refusal_fallback", "model_refusal_no_fallback":
		t.turns.notice(event.LevelWarning, "REFUSED", "The model declined to answer.")
	case "task_started", "task_progress", "task_updated", "task_notification":
		t.tasks.handle(f, &t.turns)
	case "informational":
		if line := text.OneLine(f.Content, 500); line != "" {
			t.turns.emit(translate.AgentNotice(event.LevelInfo, line))
		}
	case "session_title_changed":
		if title := text.OneLine(f.Title, 200); title != "" {
			t.turns.emit(event.SessionUpdated{Title: title})
		}
	case "thinking_tokens", "background_tasks_changed":
		t.out.Skip()
	default:
		t.out.SkipUnknown("system/" + f.Subtype)
	}
}

// begin handles the init frame, with which the agent begins every turn.
func (t *translator) begin(f frame) {
	changed := t.session.announce(f)
	if changed.ModelID != "" || t.turns.current == nil {
		changed.Tools = boundedTools(f.Tools)
	}
	t.turns.begin()
	if changed.ModelID != "" || changed.PermissionMode != "" {
		t.turns.emit(changed)
		t.warn(changed.PermissionMode)
	}
}

// warn emits a notice if the new permission mode skips all approvals.
func (t *translator) warn(mode string) {
	if mode == string(runnel.ModeBypass) {
		t.turns.emit(translate.Bypassed)
	}
}

// ask handles a control request of the agent. An unsupported request is
// rejected at once, because the agent would wait for the answer without a
// timeout.
func (t *translator) ask(f frame) {
	if f.Request == nil || f.RequestID == "" {
		return
	}
	if f.Request.Subtype == "can_use_tool" && t.approvals.Refuses(f.RequestID) {
		t.turns.emit(translate.TooManyQuestions)
	}
	q := t.approvals.take(f)
	if q == nil {
		return
	}
	var tn *turn // nil (out of turn) if no turn runs or a background task asks
	if !t.tasks.runs(f.Request.AgentID) && !t.turns.idle() {
		tn = t.turns.running("")
	}
	t.approvals.ask(q, f, tn)
}

// requested handles a control request that was sent to the agent.
func (t *translator) requested(f frame) {
	if f.Request == nil {
		return
	}
	if process := t.requests.sent(f); process != "" {
		t.session.process = process
	}
	switch f.Request.Subtype {
	case "get_settings":
		t.session.denies = true // assumed until the answer is received
	case "interrupt":
		t.turns.interrupt()
	}
}

// answered handles the agent's answer to a control request.
func (t *translator) answered(r *controlResponse) {
	if r == nil {
		return
	}
	subtype := t.requests.answered(r.RequestID)
	switch {
	case subtype == "interrupt":
		if r.Subtype == "error" && t.turns.interrupted() {
			t.turns.emit(translate.InterruptRefused)
		}
		t.approvals.stop()
	case subtype == "get_settings" && r.Subtype == "success":
		t.session.denies = len(translate.DecodeLenient[settings](r.Response).Effective.Permissions.Deny) > 0
	case subtype == "initialize" && r.Subtype == "success":
		if offered := t.session.offers(translate.DecodeLenient[initialized](r.Response)); len(offered) > 0 {
			t.turns.emit(event.SessionUpdated{Commands: offered})
		}
	case r.Subtype == "error" && refusable[subtype] != "":
		t.turns.notice(event.LevelWarning, "OPTION_REFUSED", "The agent refused to change its "+refusable[subtype]+".")
	}
}

// refusable names the settings whose change the agent can reject, by the
// subtype of the control request.
var refusable = map[string]string{"set_model": "model", "set_permission_mode": "permission mode", "apply_flag_settings": "disallowed tools"}
