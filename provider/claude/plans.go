package claude

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// plan is the agent's list of tasks to do. A conversation has one list, which
// its subagents share.
type plan []step

// step is an entry of the list. id is the agent's id; "" if the agent gave
// none.
type step struct {
	id string
	event.PlanEntry
}

// todo is an entry of the list in the arguments and the records of the tools.
type todo struct {
	ID       string `json:"id"`
	TaskID   string `json:"taskId"`
	Content  string `json:"content"`
	Subject  string `json:"subject"`
	Status   string `json:"status"`
	Priority string `json:"priority"`
}

// step converts the entry.
func (d todo) step() step {
	return step{d.ID + d.TaskID, translate.PlanEntry(d.Content+d.Subject, d.Status, d.Priority)}
}

// apply updates the list after a finished call and reports whether the list
// changed. TodoWrite has the whole list each time. The newer tools change one
// entry, so after a resumption the older entries are unknown until the agent
// calls TaskList.
func (p *plan) apply(c *call, out event.FunctionCallOutput, record json.RawMessage) (changed bool) {
	if out.IsError {
		return false
	}
	before := slices.Clone(*p)
	switch c.name {
	case "TodoWrite":
		*p = steps(translate.DecodeLenient[struct{ Todos []todo }](c.input).Todos)
	case "TaskCreate":
		p.created(c, out.Output)
	case "TaskUpdate":
		p.updated(translate.DecodeLenient[todo](c.input), out.Output)
	case "TaskList":
		*p = steps(listed(out.Output, record))
	default:
		return false
	}
	return !slices.Equal(before, *p)
}

// entries returns the list as events have it.
func (p plan) entries() []event.PlanEntry {
	out := make([]event.PlanEntry, 0, len(p))
	for _, s := range p {
		out = append(out, s.PlanEntry)
	}
	return out
}

// steps converts at most translate.MaxSteps entries.
func steps(todos []todo) plan {
	var out plan
	for _, d := range todos[:min(len(todos), translate.MaxSteps)] {
		out = append(out, d.step())
	}
	return out
}

// These expressions match the output of the tools. They are needed because a
// subagent's call has no record.
var (
	createdTask = regexp.MustCompile(`^Task #(\S+) created successfully`)
	changedTask = regexp.MustCompile(`^Updated task #\S+ `)
	listedTask  = regexp.MustCompile(`^#(\S+) \[(\w+)\] (.*)$`)
)

// created adds the entry that a TaskCreate call made.
func (p *plan) created(c *call, output string) {
	m := createdTask.FindStringSubmatch(output)
	if m == nil || len(*p) >= translate.MaxSteps {
		return
	}
	d := translate.DecodeLenient[todo](c.input)
	*p = append(*p, todo{ID: m[1], Subject: d.Subject}.step())
}

// updated changes or removes the entry that a TaskUpdate call names.
func (p *plan) updated(d todo, output string) {
	i := slices.IndexFunc(*p, func(s step) bool { return s.id == d.TaskID })
	if i < 0 || !changedTask.MatchString(output) {
		return
	}
	if d.Status == "deleted" {
		*p = slices.Delete(slices.Clone(*p), i, i+1)
		return
	}
	s, old := d.step(), (*p)[i]
	if d.Status == "" {
		s.Status = old.Status
	}
	if s.Content == "" {
		s.Content = old.Content
	}
	(*p)[i] = s
}

// listed returns the entries that a TaskList call found.
func listed(output string, record json.RawMessage) []todo {
	if tasks := translate.DecodeLenient[struct{ Tasks []todo }](record).Tasks; tasks != nil {
		return tasks
	}
	var out []todo
	for line := range strings.Lines(output) {
		if m := listedTask.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			out = append(out, todo{ID: m[1], Status: m[2], Subject: m[3]})
		}
	}
	return out
}
