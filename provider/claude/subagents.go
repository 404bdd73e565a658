package claude

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// tasks has the background tasks of an agent process, and the ids of its
// subagents.
type tasks struct {
	out     *translate.Emitter
	session *session

	open       map[string]*task  // running tasks, by the id of their call
	parts      map[string]int    // number of turns that each task has had, by the id of the task's call
	calls      map[string]string // id of the call that started each subagent, by the subagent's id
	background map[string]bool   // ids of tasks that are known to run in the background
}

// task is a subagent that runs in the background: it continues after the turn
// that started it, while other turns run.
//
// Its work is a separate turn. The turn's id is derived from the call, so that
// a replay of the agent's files has the same turn. An open turn blocks the
// conversation, and a task can take an hour. So the events of the turn are held
// and emitted together when the task ends. Until then notices report the
// progress.
type task struct {
	call  string
	name  string // name of the task in notices
	turns turns  // has only the task's turn
	held  translate.Held
}

// maxTaskSize bounds the held events of a task, in bytes. A larger task is
// emitted in parts; each part is a turn.
const maxTaskSize = 8 << 20

// maxAgents bounds how many ids of subagents and of tasks are recorded for a
// process.
const maxAgents = 10000

func newTasks(out *translate.Emitter, s *session) tasks {
	return tasks{
		out: out, session: s, open: make(map[string]*task), parts: make(map[string]int),
		calls: make(map[string]string), background: make(map[string]bool),
	}
}

// begin returns the running task of a call. It creates the task if needed.
func (ts *tasks) begin(call string) *task {
	if k := ts.open[call]; k != nil {
		return k
	}
	ts.parts[call]++
	k := &task{call: call}
	tn := newTurn(derive(ts.session.id+" background "+call+" "+strconv.Itoa(ts.parts[call])), ts.out, ts.session)
	tn.hold = func(ev event.Event) { k.held.Add(ev, weight(ev.Body)) }
	k.turns = turns{out: ts.out, session: ts.session, current: tn}
	ts.open[call] = k
	return k
}

// of returns the task to which a subagent's frame belongs; nil if the frame
// belongs to the turn in flight. parent is the call that started the subagent.
func (ts *tasks) of(parent string) *task {
	if parent == "" {
		return nil
	}
	if k := ts.open[parent]; k != nil {
		return k
	}
	for _, k := range ts.open {
		if k.turns.current.calls[parent] != nil {
			return k // the frame is from a subagent of the task's subagent
		}
	}
	return nil
}

// known reports whether a call has or had a task.
func (ts *tasks) known(call string) bool { return ts.parts[call] > 0 }

// runs reports whether the subagent with this id runs in the background.
func (ts *tasks) runs(agent string) bool { return ts.of(ts.calls[agent]) != nil }

// launched handles the record of a finished call. It begins a task if the call
// started one.
func (ts *tasks) launched(c *call, record json.RawMessage) {
	if id := taskID(record); id != "" && len(ts.background) < maxAgents {
		ts.background[id] = true
	}
	if isAsync(record) {
		ts.begin(c.id).name = text.OneLine(translate.DecodeLenient[toolInput](c.input).Description, 200)
	}
}

// split emits the held events of a task if they are too large. The rest of the
// task becomes another turn.
func (ts *tasks) split(k *task) {
	if k.held.Size() <= maxTaskSize || !k.turns.current.answered() {
		return
	}
	ts.release(k, event.ResponseDone{Status: event.StatusCompleted, FinishReason: "continued"})
	ts.begin(k.call).name = k.name
}

// release emits the held events of a task and the terminal event. A task
// without events has no turn.
func (ts *tasks) release(k *task, end event.Body) {
	delete(ts.open, k.call)
	ts.out.Add(k.held.Take()...)
	tn := k.turns.current
	tn.hold = nil
	if tn.started {
		tn.cutOff(end)
	}
}

// releaseAll ends all tasks after the agent has exited.
func (ts *tasks) releaseAll() {
	for _, call := range slices.Sorted(maps.Keys(ts.open)) {
		ts.release(ts.open[call], taskEnd(""))
	}
}

// handle processes a frame about a task. It emits notices in the conversation's
// turn in flight.
func (ts *tasks) handle(f frame, conversation *turns) {
	switch f.Subtype {
	case "task_started":
		if f.TaskID != "" && f.ToolUseID != "" && f.TaskType == "local_agent" && len(ts.calls) < maxAgents {
			ts.calls[f.TaskID] = f.ToolUseID
			if f.IsBackgrounded {
				ts.background[f.TaskID] = true
				ts.begin(f.ToolUseID).name = text.OneLine(f.Description, 200)
			}
		}
	case "task_progress":
		if k := ts.open[f.ToolUseID]; k != nil && f.Description != "" {
			conversation.notice(event.LevelInfo, "TASK_PROGRESS", text.OneLine(k.name, 200)+": "+text.OneLine(f.Description, 200))
		}
	case "task_updated": // 2.1.197 delays task_notification until no turn runs
		if k := ts.open[ts.calls[f.TaskID]]; k != nil && (f.Patch.Status == "completed" || f.Patch.Status == "failed") {
			ts.release(k, taskEnd(f.Patch.Status))
		}
	case "task_notification":
		if k := ts.open[f.ToolUseID]; k != nil {
			ts.release(k, taskEnd(f.Status))
		}
		// A task in the foreground needs no notice: its call has an output.
		if ts.background[f.TaskID] || conversation.current == nil {
			conversation.reportTaskEnded(f.Summary)
		}
	}
}

// taskEnded is the notice before a turn that the agent starts without a prompt
// (recording background).
const taskEnded = "A task in the background has ended."

// reportTaskEnded emits the notice that a task in the background has ended.
func (ts *turns) reportTaskEnded(summary string) {
	msg := taskEnded
	if summary = text.OneLine(summary, 300); summary != "" {
		msg += " " + summary
	}
	ts.notice(event.LevelInfo, "TASK_ENDED", msg)
}

// taskEnd returns the terminal event of a task's turn. status is the agent's
// word for the end of the task; "" if the agent exited before the task ended.
func taskEnd(status string) event.Body {
	switch status {
	case "completed":
		return event.ResponseDone{Status: event.StatusCompleted}
	case "failed":
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The task in the background failed.").Fault()}
	case "stopped", "killed":
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The task in the background was stopped.").Fault()}
	}
	return event.ResponseError{Error: runnel.Fail(runnel.ProcessCrash, "The agent ended before its task in the background ended.").Fault()}
}

// weight returns the approximate size of an event, in bytes.
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

// taskID returns the id of the background task that a call started; "" if it
// started none.
func taskID(record json.RawMessage) string {
	return translate.DecodeLenient[struct {
		BackgroundTask string `json:"backgroundTaskId"`
	}](record).BackgroundTask
}

// isAsync reports whether the subagent of a call continues in the background,
// according to the call's record.
func isAsync(record json.RawMessage) bool {
	return translate.DecodeLenient[struct{ IsAsync bool }](record).IsAsync
}
