package claude

import (
	"maps"
	"slices"
	"strconv"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// task is a subagent that works in the background: it goes on after the turn
// that started it, and beside others.
//
// What it does is a turn of its own, named after its call, so that its files
// give the same one. That turn is held back and given out whole when the task
// ends: a turn that is open holds the conversation, and a task may take an hour.
// Meanwhile notices say what it is at.
type task struct {
	call string
	name string // what it is about
	part int    // of the work, from 1: more than one if there is very much of it
	turn *turn
	held []event.Event
	size int // of what is held, in bytes of content
}

// maxTaskSize bounds what is held of a task, in bytes. What is more is given
// out in parts.
const maxTaskSize = 8 << 20

// background returns the task of a call, and begins it if there is none.
func (t *translator) background(call string) *task {
	k := t.tasks[call]
	if k == nil {
		t.parts[call]++
		k = &task{call: call, part: t.parts[call]}
		k.turn = newTurn(derive(t.session + " background " + call + " " + strconv.Itoa(k.part)))
		t.tasks[call] = k
	}
	return k
}

// taskOf returns the task that a subagent's frame is part of, or nil if it is
// part of the turn in flight. parent is the call that started the subagent.
func (t *translator) taskOf(parent string) *task {
	if parent == "" {
		return nil
	}
	if k := t.tasks[parent]; k != nil {
		return k
	}
	for _, k := range t.tasks {
		if k.turn.calls[parent] != nil {
			return k // a subagent of the subagent
		}
	}
	return nil
}

// between reports whether there is no turn that a frame could be part of.
func (t *translator) between() bool { return t.turn == nil || t.turn.id == "" || t.turn.ended }

// late reports whether a frame is the output of a call whose turn is over: what
// was killed may yet speak.
func (t *translator) late(f frame) bool {
	return f.Type == "user" && f.ParentToolUseID != "" && t.taskOf(f.ParentToolUseID) == nil &&
		(t.between() || t.parts[f.ParentToolUseID] > 0)
}

// beside returns the task that a frame is part of, if any. Who speaks while no
// turn runs works in the background, whether we heard of it or not.
func (t *translator) beside(f frame) *task {
	k := t.taskOf(f.ParentToolUseID)
	if k == nil && f.ParentToolUseID != "" && t.between() {
		k = t.background(f.ParentToolUseID)
	}
	return k
}

// within does something as part of another turn than the one in flight.
func (t *translator) within(tn *turn, do func()) {
	main := t.turn
	t.turn = tn
	do()
	t.turn = main
}

// hold does something as part of a task.
func (t *translator) hold(k *task, do func()) {
	evs := t.events
	t.events = nil
	t.within(k.turn, do)
	for _, ev := range t.events {
		k.size += weight(ev.Body)
	}
	k.held, t.events = append(k.held, t.events...), evs
	if k.size > maxTaskSize && k.turn.answered() {
		t.release(k, event.ResponseDone{Status: event.StatusCompleted, FinishReason: "continued"})
		t.background(k.call).name = k.name
	}
}

// weight is the size of what an event holds, roughly.
func weight(b event.Body) int {
	done, _ := b.(event.ItemDone)
	switch f := done.FinalItem.(type) {
	case event.Message:
		return len(f.Content)
	case event.Reasoning:
		return len(f.Content)
	case event.FunctionCall:
		return len(f.Arguments)
	case event.FunctionCallOutput:
		return len(f.Output)
	}
	return 64
}

// answered reports whether no call is without its output.
func (tn *turn) answered() bool {
	for _, c := range tn.calls {
		if !c.answered {
			return false
		}
	}
	return true
}

// release gives out what a task did, with its end. A task that did nothing
// that we know of leaves no turn.
func (t *translator) release(k *task, end event.Body) {
	delete(t.tasks, k.call)
	evs := t.events
	t.events = k.held
	t.within(k.turn, func() {
		if !k.turn.started {
			return
		}
		for _, parent := range slices.Sorted(maps.Keys(k.turn.threads)) {
			t.abandon(k.turn.threads[parent], 0)
		}
		t.end(end)
	})
	t.events = append(evs, t.events...)
}

// taskEvent takes the news of a task.
func (t *translator) taskEvent(f frame) {
	switch f.Subtype {
	case "task_started":
		if f.TaskID != "" && f.ToolUseID != "" && f.TaskType == "local_agent" && len(t.agents) < maxAgents {
			t.agents[f.TaskID] = f.ToolUseID
			if f.IsBackgrounded {
				t.behind[f.TaskID] = true
				t.background(f.ToolUseID).name = oneLine(f.Description, 200)
			}
		}
	case "task_progress":
		if k := t.tasks[f.ToolUseID]; k != nil && f.Description != "" {
			t.notice(event.LevelInfo, "TASK_PROGRESS", oneLine(k.name, 200)+": "+oneLine(f.Description, 200))
		}
	case "task_updated": // 2.1.197 holds the notification back until no turn runs
		if k := t.tasks[t.agents[f.TaskID]]; k != nil && (f.Patch.Status == "completed" || f.Patch.Status == "failed") {
			t.release(k, taskEnd(f.Patch.Status))
		}
	case "task_notification":
		if k := t.tasks[f.ToolUseID]; k != nil {
			t.release(k, taskEnd(f.Status))
		}
		if t.behind[f.TaskID] || t.turn == nil { // of others, the output of their call says it all
			t.taskOver(f.Summary)
		}
	}
}

// taskOver says that a task in the background has ended.
func (t *translator) taskOver(summary string) {
	text := taskEnded
	if summary = oneLine(summary, 300); summary != "" {
		text += " " + summary
	}
	t.notice(event.LevelInfo, "TASK_ENDED", text)
}

// maxAgents bounds how many subagents of a process are known by their ids.
const maxAgents = 10000

// taskEnd is the end of a task's turn, by the agent's word for it.
func taskEnd(status string) event.Body {
	switch status {
	case "completed":
		return event.ResponseDone{Status: event.StatusCompleted}
	case "failed":
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The task in the background failed.").Fault()}
	case "stopped", "killed":
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The task in the background was stopped.").Fault()}
	}
	return event.ResponseError{Error: runnel.Fail(runnel.ProcessCrash, "The agent ended before its task in the background had.").Fault()}
}

// gone gives out what is held once the agent has gone.
func (t *translator) Gone() []event.Event {
	for _, call := range slices.Sorted(maps.Keys(t.tasks)) {
		t.release(t.tasks[call], taskEnd(""))
	}
	return t.take()
}

// A question of a task, or one between turns, is asked at once, in a turn that
// holds nothing else: the prompt's turn may be over long before the answer is
// there, and would take the question with it.

// turnFor returns the turn to ask a question in.
func (t *translator) turnFor(f frame) *turn {
	call, known := t.agents[f.Request.AgentID]
	switch {
	case known && t.taskOf(call) != nil:
	case t.turn == nil && len(t.waiting) == 0:
	case t.turn != nil && (t.turn.id == "" || t.turn.ended):
	default:
		return t.turn
	}
	tn := newTurn(derive(t.session + " question " + f.RequestID))
	t.asides = append(t.asides, tn)
	return tn
}

// isAside reports whether an approval is asked beside the turn in flight. The
// end of its turn is told with the agent's next line.
func (t *translator) isAside(approval string) bool {
	a := t.approvals[approval]
	return a != nil && slices.Contains(t.asides, a.turn)
}

// settleAsides ends the turns whose questions are answered.
func (t *translator) settleAsides() {
	t.asides = slices.DeleteFunc(t.asides, func(tn *turn) bool {
		for _, a := range t.approvals {
			if a.turn == tn {
				return false
			}
		}
		end := event.ResponseDone{Status: event.StatusCompleted}
		if tn.interrupted {
			end.Status = event.StatusCancelled
		}
		t.within(tn, func() { t.end(end) })
		return true
	})
}

// stopAsides answers the questions of tasks when everything is to stop. The
// agent's interrupt is about its turn, and leaves them open.
func (t *translator) stopAsides() {
	for _, tn := range t.asides {
		tn.interrupted = true
		for _, id := range slices.Sorted(maps.Keys(t.approvals)) {
			a := t.approvals[id]
			if a.turn != tn {
				continue
			}
			if r, err := t.answer(id, runnel.Decision{Choice: deny}); err == nil {
				t.replies = append(t.replies, r)
			}
			delete(t.approvals, id)
			t.within(tn, func() {
				t.emit(event.ApprovalResolved{ApprovalID: id, Choice: event.ChoiceWithdrawn, By: event.ByUser})
			})
		}
	}
}
