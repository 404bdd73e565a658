package claude

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// step is an entry of the agent's list of what it means to do, with the
// agent's id of it where it has one.
type step struct {
	id string
	event.PlanEntry
}

// Bounds of a plan: its entries, and the text of each in bytes.
const (
	maxSteps    = 500
	maxStepText = 1000
)

// todo is an entry of the list in the words of the tools.
type todo struct {
	ID       string `json:"id"`
	TaskID   string `json:"taskId"`
	Content  string `json:"content"`
	Subject  string `json:"subject"`
	Status   string `json:"status"`
	Priority string `json:"priority"`
}

func (d todo) step() step {
	s := step{d.ID + d.TaskID, event.PlanEntry{
		Content: oneLine(d.Content+d.Subject, maxStepText), Status: d.Status, Priority: oneLine(d.Priority, 40),
	}}
	if s.Status != "in_progress" && s.Status != "completed" {
		s.Status = "pending"
	}
	return s
}

// planned shows the agent's list after a call that changed it, as an item of
// its own beside the call. One list is kept for a conversation, subagents
// included. TodoWrite says it all each time; the newer tools change one entry,
// so entries from before a resumption are known only once the agent lists them.
func (t *translator) planned(c call, out event.FunctionCallOutput, record json.RawMessage, parent string) {
	if out.IsError {
		return
	}
	before := slices.Clone(t.plan)
	switch c.name {
	case "TodoWrite":
		t.plan = steps(decodeLoose[struct{ Todos []todo }](c.input).Todos)
	case "TaskCreate":
		t.taskCreated(c, out.Output)
	case "TaskUpdate":
		t.taskChanged(decodeLoose[todo](c.input), out.Output)
	case "TaskList":
		t.plan = steps(listed(out.Output, record))
	default:
		return
	}
	if slices.Equal(before, t.plan) {
		return
	}
	id := c.item + ":plan"
	entries := make([]event.PlanEntry, 0, len(t.plan))
	for _, s := range t.plan {
		entries = append(entries, s.PlanEntry)
	}
	t.emit(event.ItemStart{ItemID: id, ItemType: event.TypePlan, ParentCallID: parent})
	t.emit(event.ItemDone{ItemID: id, FinalItem: event.Plan{Entries: entries}})
}

func steps(todos []todo) []step {
	var out []step
	for _, d := range todos[:min(len(todos), maxSteps)] {
		out = append(out, d.step())
	}
	return out
}

// What the tools answer. A subagent's calls have no record beside it.
var (
	createdTask = regexp.MustCompile(`^Task #(\S+) created successfully`)
	changedTask = regexp.MustCompile(`^Updated task #\S+ `)
	listedTask  = regexp.MustCompile(`^#(\S+) \[(\w+)\] (.*)$`)
)

func (t *translator) taskCreated(c call, said string) {
	m := createdTask.FindStringSubmatch(said)
	if m == nil || len(t.plan) >= maxSteps {
		return
	}
	d := decodeLoose[todo](c.input)
	t.plan = append(t.plan, todo{ID: m[1], Subject: d.Subject}.step())
}

func (t *translator) taskChanged(d todo, said string) {
	i := slices.IndexFunc(t.plan, func(s step) bool { return s.id == d.TaskID })
	if i < 0 || !changedTask.MatchString(said) {
		return
	}
	if d.Status == "deleted" {
		t.plan = slices.Delete(slices.Clone(t.plan), i, i+1)
		return
	}
	s := d.step()
	if d.Status == "" {
		s.Status = t.plan[i].Status
	}
	if s.Content == "" {
		s.Content = t.plan[i].Content
	}
	t.plan[i] = s
}

// listed is what TaskList found.
func listed(said string, record json.RawMessage) []todo {
	if tasks := decodeLoose[struct{ Tasks []todo }](record).Tasks; tasks != nil {
		return tasks
	}
	var out []todo
	for line := range strings.Lines(said) {
		if m := listedTask.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			out = append(out, todo{ID: m[1], Status: m[2], Subject: m[3]})
		}
	}
	return out
}
