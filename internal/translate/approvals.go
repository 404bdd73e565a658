package translate

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// Ids of choices, as a decision names them.
const (
	AllowOnce    = "allow_once"
	AllowSession = "allow_session"
	AllowAlways  = "allow_always"
	Deny         = "deny"
	DenyStop     = "deny_stop"
	OptionPrefix = "option_" // and the number of the answer, from 1
)

// Option returns the id of the choice that is the nth answer, from 1.
func Option(n int) string { return OptionPrefix + strconv.Itoa(n) }

// AnswerLabel returns the label of the choice with which the user answers in
// the arguments. first are the answers to questions that are left out there:
// the first option of each.
func AnswerLabel(first []string) string {
	label := "Answer in the arguments"
	if len(first) > 0 {
		label += "; else: " + strings.Join(first, ", ")
	}
	return text.OneLine(label, MaxLabel)
}

// Bounds of approvals.
const (
	MaxOpen    = 100            // questions that wait for an answer
	MaxLabel   = event.MaxTitle // bytes of the label of a choice
	MaxOptions = 20             // answers to a question that are choices of their own
)

// Approvals are the questions of the agent that wait for an answer. Q is the
// provider's own part of a question. The zero value is ready to use.
//
// A question that is asked while no turn runs, or by background work, has a
// turn that holds nothing else. Such an out-of-turn question leaves its turn
// behind when it is removed: [Approvals.Settled] returns that turn, so that the
// translator can end it with the agent's next line.
type Approvals[Q any] struct {
	open    map[string]Approval[Q]
	settled []string
}

// An Approval is one open question.
type Approval[Q any] struct {
	ID        string // ours
	Turn      string // id of the turn in which it is asked
	OutOfTurn bool   // that turn holds nothing else
	Request   string // the agent's id of the question; see jsonrpc.ID.Key
	Digest    string // of what is asked
	Question  Q
}

// Add opens a question.
func (a *Approvals[Q]) Add(q Approval[Q]) {
	if a.open == nil {
		a.open = make(map[string]Approval[Q])
	}
	a.open[q.ID] = q
}

// Full reports whether as many questions are open as may be.
func (a *Approvals[Q]) Full() bool { return len(a.open) >= MaxOpen }

// Len returns how many questions are open.
func (a *Approvals[Q]) Len() int { return len(a.open) }

// IDs returns the ids of the open questions, sorted.
func (a *Approvals[Q]) IDs() []string { return slices.Sorted(maps.Keys(a.open)) }

// All returns the open questions, sorted by id.
func (a *Approvals[Q]) All() []Approval[Q] {
	all := make([]Approval[Q], 0, len(a.open))
	for _, id := range a.IDs() {
		all = append(all, a.open[id])
	}
	return all
}

// Of returns the open questions of a turn, sorted by id.
func (a *Approvals[Q]) Of(turn string) []Approval[Q] {
	return slices.DeleteFunc(a.All(), func(q Approval[Q]) bool { return q.Turn != turn })
}

// Get returns the open question with an id of ours.
func (a *Approvals[Q]) Get(id string) (Approval[Q], bool) {
	q, ok := a.open[id]
	return q, ok
}

// ByRequest returns the open question with the agent's id.
func (a *Approvals[Q]) ByRequest(request string) (Approval[Q], bool) {
	for _, id := range a.IDs() {
		if q := a.open[id]; q.Request == request {
			return q, true
		}
	}
	return Approval[Q]{}, false
}

// Open returns the question that a decision is for. It fails with ApprovalGone
// if the question is not open.
func (a *Approvals[Q]) Open(id string) (Approval[Q], error) {
	q, ok := a.open[id]
	if !ok {
		return q, runnel.Fail(runnel.ApprovalGone, "this approval is already settled")
	}
	return q, nil
}

// NoSuchChoice returns the error for a decision whose choice a question does
// not have.
func NoSuchChoice() error {
	return runnel.Fail(runnel.InvalidRequest, "choice: the approval has no such choice")
}

// Remove settles a question. Its turn, if it is out of turn, waits for its end
// from then on.
func (a *Approvals[Q]) Remove(id string) {
	q, ok := a.open[id]
	if !ok {
		return
	}
	delete(a.open, id)
	if q.OutOfTurn {
		a.settled = append(a.settled, q.Turn)
	}
}

// Changed takes a question that the agent asks under the id of an open one. If
// both are the same, the first one stays open, and Changed reports false. If
// they differ, an answer to the first would be taken for one to the second: the
// open question is removed and returned, for both to be denied.
func (a *Approvals[Q]) Changed(request, digest string) (Approval[Q], bool) {
	q, ok := a.ByRequest(request)
	if !ok || q.Digest == digest {
		return q, false
	}
	a.Remove(q.ID)
	return q, true
}

// Drop forgets the questions of a turn that is over, and returns them. The end
// of the turn resolves them.
func (a *Approvals[Q]) Drop(turn string) []Approval[Q] {
	dropped := a.Of(turn)
	for _, q := range dropped {
		delete(a.open, q.ID)
	}
	return dropped
}

// Settled returns the turns whose out-of-turn question is settled, in the order
// in which they were, and forgets them: the caller ends them.
func (a *Approvals[Q]) Settled() []string {
	turns := a.settled
	a.settled = nil
	return turns
}

// Idle reports whether no question is open and no turn of a settled question
// waits for its end.
func (a *Approvals[Q]) Idle() bool { return len(a.open) == 0 && len(a.settled) == 0 }

// Resolved is the event for a decision of the user's.
func Resolved(id, choice string) event.ApprovalResolved {
	return event.ApprovalResolved{ApprovalID: id, Choice: choice, By: event.ByUser}
}

// Cancelled is the event for a question that is open when we interrupt its turn.
// A session has recorded the same before it asks for the interruption.
func Cancelled(id string) event.ApprovalResolved {
	return event.ApprovalResolved{ApprovalID: id, Choice: event.ChoiceWithdrawn, By: event.ByPolicy, Reason: "the turn was cancelled"}
}

// Withdrawn is the event for a question that the agent took back.
func Withdrawn(id string) event.ApprovalResolved {
	return event.ApprovalResolved{ApprovalID: id, Choice: event.ChoiceWithdrawn, By: event.ByAgent}
}
