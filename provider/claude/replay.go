package claude

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// historian replays stored entries. A stored conversation has no init and no
// result frames, so a prompt begins a turn and the next prompt ends it.
type historian struct {
	t          *translator
	sidechains map[string][]*entry // remaining entries of each subagent's thread, by its call
	async      map[string]bool     // calls whose subagent ran in the background
	live       []string            // calls of the turn in flight whose subagents have entries left
	last       time.Time           // time of the last entry with a time

	compacted bool // the conversation was summarized, and the notice is not emitted yet
}

func newHistorian(session string, main []*entry, sidechains map[string][]*entry) *historian {
	t := newTranslator()
	t.session.id = session
	h := &historian{t: t, sidechains: sidechains, async: make(map[string]bool)}
	h.note(main)
	nameModels(main)
	for _, side := range sidechains {
		h.note(side)
	}
	return h
}

// note records the calls whose subagent runs in the background: these have an
// output before the subagent ends.
func (h *historian) note(entries []*entry) {
	for _, e := range entries {
		if !e.isResult() || !isAsync(e.StoredResult) {
			continue
		}
		for _, b := range e.Message.Content {
			h.async[b.ToolUseID] = true
		}
	}
}

// nameModels sets the model of each entry to the model of the next answer. A
// live conversation has the model in the agent's init, which is not stored.
func nameModels(main []*entry) {
	model := ""
	for _, e := range slices.Backward(main) {
		if m := e.Message; e.Type == "assistant" && m != nil && m.Model != "" && m.Model != syntheticModel {
			model = m.Model
		}
		e.model = model
	}
}

// entry replays one entry of the main thread. It first replays the older
// entries of subagents.
func (h *historian) entry(e *entry) []event.Event {
	at := e.time()
	if at.IsZero() {
		at = h.last
	}
	h.last = at
	if e.Type != unreadable {
		h.subagents(e.Timestamp)
	}
	h.t.out.Begin(at)
	h.t.session.model = cmp.Or(e.model, h.t.session.model)
	if e.Type == "assistant" {
		h.emitCompacted()
	}
	switch e.Type {
	case "user":
		h.user(e)
	case "assistant":
		h.assistant(e)
	case "system":
		h.system(e)
	case "attachment":
		h.queued(e)
	case unreadable:
		h.unreadable(e)
	}
	return h.t.out.Take()
}

// system replays an entry that the agent wrote itself.
func (h *historian) system(e *entry) {
	switch e.Subtype {
	case "compact_boundary":
		h.compacted = true
	case "informational":
		h.t.system(e.frame)
	case "local_command":
		h.typed(e, e.Content)
	}
}

// unreadable reports a line of the file that cannot be decoded.
func (h *historian) unreadable(e *entry) {
	h.t.out.SkipLine()
	h.t.turns.notice(event.LevelWarning, "UNDECODABLE_LINE", fmt.Sprintf(
		"Line %d of the conversation's file (%d bytes) cannot be read and was skipped.", e.line+1, e.size))
}

// assistant replays a message of the model, or a message that the agent wrote
// instead of the model.
func (h *historian) assistant(e *entry) {
	if tn := h.t.turns.current; tn != nil && e.Message != nil && e.Error != "" {
		h.failed(tn, e)
	}
	h.t.message(&h.t.turns, e.frame)
	h.noteCalls(e)
}

// failed records why the turn failed. In a live conversation, the result of the
// turn has the reason. The recorded reason has an effect only if the turn ends
// with this failure.
func (h *historian) failed(tn *turn, e *entry) {
	if e.StoredStatus != nil {
		tn.status = *e.StoredStatus
	}
	if strings.Contains(e.ErrorDetails, promptTooLong) {
		tn.reason = "prompt_too_long"
	}
	h.t.session.keyed = !strings.Contains(e.Message.Content.text(), runLogin)
}

// user replays a user entry: results of tools, a prompt, or text that the agent
// itself wrote.
func (h *historian) user(e *entry) {
	turns := &h.t.turns
	isSkill := e.Message != nil && !e.isResult() && !e.isSent() && turns.skill(e.Message.Content.text())
	if e.Message == nil || e.IsMeta || e.IsCompactSummary || e.OnlyTranscript {
		return
	}
	if e.isResult() {
		h.t.message(turns, e.result())
		return
	}
	stored := e.Message.Content.text()
	switch {
	case e.isSent():
		h.prompted(e.frame)
	case strings.HasPrefix(stored, interruptedByUser):
		if tn := turns.running(""); tn != nil {
			tn.interrupted, tn.reason = true, "aborted_streaming"
			if strings.Contains(stored, "for tool use") {
				tn.reason = "aborted_tools"
			}
		}
	case strings.HasPrefix(stored, taskNotification), e.Origin != nil && e.Origin.Kind == "task-notification":
		h.close()
		h.endTask(stored)
	case isSkill && skillDir.FindStringIndex(stored)[0] == 0: // the agent wrote this text, but did not mark it
	case !h.typed(e, stored):
		h.prompted(e.frame)
	}
}

// prompted replays a prompt. It ends the previous turn and begins the prompt's
// turn at once.
func (h *historian) prompted(f frame) *turn {
	h.close()
	h.t.turns.prompted(f)
	return h.t.turns.running("")
}

// queued replays a prompt that became part of a running turn. Only a terminal
// user can send one; Runnel's prompts always get a new turn.
func (h *historian) queued(e *entry) {
	a := e.Attachment
	if a == nil || a.Type != "queued_command" {
		return
	}
	if a.CommandMode == "task-notification" {
		h.endTask(a.Prompt.text())
		return
	}
	if tn := h.t.turns.running(""); tn != nil {
		prompt, warning := message{Content: a.Prompt}.ofUser()
		h.t.out.UserMessage(tn.id, tn.thread("").ids.ID("queued "+e.UUID, 0), prompt, warning)
	}
}

// noteCalls records the calls of an entry that started subagents.
func (h *historian) noteCalls(e *entry) {
	if e.Message == nil {
		return
	}
	for _, b := range e.Message.Content {
		if b.Type == "tool_use" && len(h.sidechains[b.ID]) > 0 && !h.async[b.ID] && !slices.Contains(h.live, b.ID) {
			h.live = append(h.live, b.ID)
		}
	}
}

// next returns the call of the subagent whose next entry is the oldest; "" if
// no subagent has an entry up to the time until. until has the format of the
// entries' times; "" means no limit.
func (h *historian) next(until string) string {
	call, at := "", ""
	h.live = slices.DeleteFunc(h.live, func(c string) bool { return len(h.sidechains[c]) == 0 })
	for _, c := range h.live {
		first := h.sidechains[c][0].Timestamp
		if (until == "" || first <= until) && (call == "" || first < at) {
			call, at = c, first
		}
	}
	return call
}

// subagents replays the entries of subagents up to a time.
func (h *historian) subagents(until string) {
	for call := h.next(until); call != ""; call = h.next(until) {
		if f, ok := h.nextOf(call); ok {
			h.t.message(&h.t.turns, f)
		}
	}
}

// nextOf removes the next entry of a subagent's thread and returns it as a
// frame. It reports whether the entry is a message.
func (h *historian) nextOf(call string) (frame, bool) {
	e := h.sidechains[call][0]
	h.sidechains[call] = h.sidechains[call][1:]
	if at := e.time(); !at.IsZero() {
		h.t.out.Begin(at)
	}
	var f frame
	switch {
	case e.Type == "assistant":
		f = e.frame
		h.noteCalls(e)
	case e.Type == "user" && e.isResult():
		f = e.result()
	case e.Type == unreadable:
		h.unreadable(e)
		return f, false
	default:
		return f, false
	}
	f.ParentToolUseID = call
	return f, true
}

// endTask replays the work of a background task's subagent and then the end of
// the task. report is the text with which the agent reported the end to the
// model.
func (h *historian) endTask(report string) {
	if call := tagged(report, "tool-use-id"); h.async[call] {
		h.inBackground(call)
		if k := h.t.tasks.open[call]; k != nil {
			h.t.tasks.release(k, taskEnd(tagged(report, "status")))
		}
	}
	h.t.turns.reportTaskEnded(tagged(report, "summary"))
}

// inBackground replays the remaining entries of a task and of its subagents.
func (h *historian) inBackground(call string) {
	before := h.live
	h.live = []string{call}
	for c := h.next(""); c != ""; c = h.next("") {
		k := h.t.tasks.begin(call)
		if f, ok := h.nextOf(c); ok {
			h.t.inBackground(k, f)
		}
	}
	h.live = before
}

// tagged returns the content of an element in a text, without surrounding
// space; "" if the text has no such element.
func tagged(text, name string) string {
	_, rest, _ := strings.Cut(text, "<"+name+">")
	in, _, ok := strings.Cut(rest, "</"+name+">")
	if !ok {
		return ""
	}
	return strings.TrimSpace(in)
}

// finish replays the remaining entries and ends the last turn.
func (h *historian) finish() []event.Event {
	h.subagents("")
	h.close()
	for _, call := range slices.Sorted(maps.Keys(h.async)) { // the remaining entries of tasks without a stored end
		if len(h.sidechains[call]) > 0 {
			h.inBackground(call)
		}
	}
	return h.t.Flush()
}

// close ends the turn in flight with the terminal event that its entries imply.
func (h *historian) close() {
	turns := &h.t.turns
	h.live = nil
	h.emitCompacted()
	if turns.idle() {
		return
	}
	if tn := turns.running(""); tn != nil {
		tn.end(storedEnd(tn))
	}
	turns.current = nil
}

// storedEnd is the terminal event of a turn whose result is not stored.
func storedEnd(tn *turn) event.Body {
	f := frame{StopReason: tn.stop, Subtype: "success", IsError: tn.failure != "", TerminalReason: tn.reason}
	if tn.status != 0 {
		f.APIErrorStatus = &tn.status
	}
	switch {
	case tn.interrupted, f.IsError, tn.local && tn.stop == "":
	case tn.stop == "" || tn.stop == "tool_use":
		return event.ResponseError{Error: runnel.Fail(runnel.ProcessCrash, "The agent ended before it had finished this turn.").Fault()}
	}
	return outcome(f, tn, tn.sum())
}
