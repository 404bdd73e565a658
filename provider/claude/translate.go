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

// providerID is how events name this provider.
const providerID = "claude-code"

// translator turns what passes between us and one agent process into events.
//
// It is pure: lines go in, in the order in which they passed, and events come
// out; the same lines give the same events with the same ids. It serves the
// live conversation, a recording of one, and the agent's own files alike.
//
// The translator itself only dispatches: it decodes a line, and calls the owner
// of the state that the line is about. What that causes elsewhere comes back as
// a value, and the translator passes it on. Owners never call the translator.
type translator struct {
	out       *translate.Emitter
	session   *session  // facts that outlive a turn
	requests  requests  // control requests of ours
	turns     turns     // of the conversation
	tasks     tasks     // subagents that work in the background
	approvals approvals // open questions of the agent
	plan      plan      // the agent's list of tasks to do

	// kept has the ids of messages that outlive a summary. The agent prints some
	// of them again in the turn that makes it (context-compact).
	kept []string
}

func newTranslator() *translator {
	out, s := new(translate.Emitter), newSession()
	return &translator{
		out: out, session: s, requests: newRequests(), turns: turns{out: out, session: s},
		tasks: newTasks(out, s), approvals: approvals{out: out, session: s},
	}
}

// derive returns an id of ours made of a native one.
func derive(native string) string { return translate.Derive(providerID, native) }

// Sent implements [agentconn.Translator].
func (t *translator) Sent(line []byte, at time.Time) []event.Event {
	f, err := decode(line)
	if err != nil {
		return nil // ours always decode; a damaged recording may not
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
	if f, err := decode(line); err != nil {
		t.out.SkipLine()
		t.turns.emit(translate.Undecodable)
	} else {
		t.dispatch(f)
	}
	return t.out.Take(), t.out.Replies()
}

// Gone implements [agentconn.Translator].
func (t *translator) Gone() []event.Event {
	t.tasks.releaseAll()
	return t.out.Take()
}

// dispatch takes a line that the agent printed.
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
		t.kept = nil
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
	default:
		t.out.Skip()
	}
	t.approvals.settle()
	if cleared {
		t.turns.emit(translate.Cleared)
	}
	if moved {
		t.turns.emit(event.SessionUpdated{AgentSessionID: f.SessionID})
	}
}

// conversation takes a message of the conversation. It is part of a background
// task or of the turn in flight.
func (t *translator) conversation(f frame) {
	if f.UUID != "" && slices.Contains(t.kept, f.UUID) {
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
		t.said(&t.turns, f)
	case f.Type == "user" && (between || t.tasks.known(parent)):
		t.out.Skip() // a killed subagent may still print results after its turn
	case between: // a subagent that works while no turn runs is in the background
		t.inBackground(t.tasks.begin(parent), f)
	default:
		t.said(&t.turns, f)
	}
}

// inBackground takes a message of a background task.
func (t *translator) inBackground(k *task, f frame) {
	t.said(&k.turns, f)
	t.tasks.split(k)
}

// said takes a message as part of the turn that ts has in flight.
func (t *translator) said(ts *turns, f frame) {
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

// results takes the results of tools in a message. Other text in it is the
// harness's own.
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
			b.ToolUseID = tn.unnamed(f, i)
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

// system takes the frames that are about the session rather than the
// conversation.
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
		t.kept = f.Compact.Preserved.UUIDs
		t.turns.emit(translate.Compacted)
	case "model_fallback":
		t.turns.notice(event.LevelWarning, "MODEL_FALLBACK", "The model is overloaded; the agent goes on with "+
			cmp.Or(text.OneLine(f.FallbackModel, 200), "another one")+".")
	case "model_refusal_fallback", "model_refusal_no_fallback":
		t.turns.notice(event.LevelWarning, "REFUSED", "The model declined to answer.")
	case "task_started", "task_progress", "task_updated", "task_notification":
		t.tasks.news(f, &t.turns)
	case "informational":
		if line := text.OneLine(f.Content, 500); line != "" {
			t.turns.emit(translate.AgentSays(event.LevelInfo, line))
		}
	case "session_title_changed":
		if title := text.OneLine(f.Title, 200); title != "" {
			t.turns.emit(event.SessionUpdated{Title: title})
		}
	default:
		t.out.Skip()
	}
}

// begin takes the init frame, which opens every turn.
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

// warn emits a notice if the new permission mode asks nobody any more.
func (t *translator) warn(mode string) {
	if mode == string(runnel.ModeBypass) {
		t.turns.emit(translate.Bypassed)
	}
}

// ask takes a control request of the agent. What we do not offer is refused at
// once: the agent waits for an answer without end.
func (t *translator) ask(f frame) {
	if f.Request == nil || f.RequestID == "" {
		return
	}
	q := t.approvals.take(f)
	if q == nil {
		return
	}
	var tn *turn // out of turn, unless a turn runs and the turn's own work asks
	if !t.tasks.runs(f.Request.AgentID) && !t.turns.idle() {
		tn = t.turns.running("")
	}
	t.approvals.ask(q, f, tn)
}

// requested takes a control request of ours.
func (t *translator) requested(f frame) {
	if f.Request == nil {
		return
	}
	t.requests.sent(f)
	switch f.Request.Subtype {
	case "get_settings":
		t.session.denies = true // until the answer says otherwise
	case "interrupt":
		t.turns.interrupt()
	}
}

// answered takes the agent's answer to a control request of ours.
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
		t.session.denies = len(translate.Loose[settings](r.Response).Effective.Permissions.Deny) > 0
	case subtype == "initialize" && r.Subtype == "success":
		if offered := t.session.offers(translate.Loose[initialized](r.Response)); len(offered) > 0 {
			t.turns.emit(event.SessionUpdated{Commands: offered})
		}
	case r.Subtype == "error" && refusable[subtype] != "":
		t.turns.notice(event.LevelWarning, "OPTION_REFUSED", "The agent refused to change its "+refusable[subtype]+".")
	}
}

// refusable are what requests of ours change that the agent may refuse, by their
// subtypes.
var refusable = map[string]string{"set_model": "model", "set_permission_mode": "permission mode", "apply_flag_settings": "disallowed tools"}
