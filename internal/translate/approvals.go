package translate

import (
	"maps"
	"slices"
	"strconv"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Ids of choices in decisions.
const (
	AllowOnce    = "allow_once"
	AllowSession = "allow_session"
	AllowAlways  = "allow_always"
	Deny         = "deny"
	DenyStop     = "deny_stop"
	OptionPrefix = "option_" // the number of the answer follows, from 1
)

// Option returns the id of the choice for the nth answer, counted from 1.
func Option(n int) string { return OptionPrefix + strconv.Itoa(n) }

// Bounds of approvals.
const (
	MaxOpen    = 100            // open questions
	MaxShown   = 2 << 20        // bytes of the open questions together, before the last one
	MaxLabel   = event.MaxTitle // bytes of a choice's label
	MaxOptions = 20             // answers to a question that are choices
)

// Approvals are the open questions of the agent. Q is the provider's own part
// of a question. The zero value is ready to use.
//
// A question that is asked out of turn, or by background work, gets a turn that
// contains only this question. When such a question is removed, its turn is
// still open. [Approvals.Settled] returns the turn, so that the translator ends
// it with the agent's next line.
type Approvals[Q any] struct {
	open    map[string]Approval[Q]
	settled []string
}

// Asked counts the questions of one turn. The zero value is ready to use.
type Asked map[string]int

// ID returns the approval id of a new question of the turn. request is the
// agent's id of the question, and digest that of its content. An agent chooses
// its ids and can repeat them. Two questions must not share an approval id: the
// second would not be shown, or would get the answer to the first. So the id
// derives from the turn, the content, and how often the turn asked this before.
// A restarted server that reads the turn's lines again gives each question the
// same id. derive is the provider's [Derive].
func (a *Asked) ID(turn, request, digest string, derive func(string) string) string {
	if *a == nil {
		*a = make(Asked)
	}
	key := Digest([]byte(request + " " + digest))
	(*a)[key]++
	return derive("approval " + strconv.Quote(turn) + " " + strconv.Itoa((*a)[key]) + " " + key)
}

// An Approval is one open question.
type Approval[Q any] struct {
	ID        string // id of the approval
	Turn      string // id of the turn in which it is asked
	OutOfTurn bool   // the turn contains only this question
	Request   string // the agent's id of the question; see jsonrpc.ID.Key
	Digest    string // digest of the question's content
	Shown     int    // size of the question; see SizeOf
	Question  Q
}

// SizeOf returns the bytes that count for MaxShown: those of the question in
// lists of sessions, or in memory if that is more.
func SizeOf(asks event.ApprovalRequested) int {
	return max(asks.Approval.Listed(), event.Weight(asks))
}

// Add adds an open question.
func (a *Approvals[Q]) Add(q Approval[Q]) {
	if a.open == nil {
		a.open = make(map[string]Approval[Q])
	}
	a.open[q.ID] = q
}

// Refuses reports whether a question is to be denied because too many are open.
// A question that repeats the agent's id of an open one is not.
func (a *Approvals[Q]) Refuses(request string) bool {
	_, open := a.ByRequest(request)
	return !open && a.Full()
}

// Full reports whether MaxOpen questions are open, or MaxShown bytes of them.
// Every list of sessions has all open questions, and every change of a session's
// status sends them again.
func (a *Approvals[Q]) Full() bool {
	shown := 0
	for _, q := range a.open {
		shown += q.Shown
	}
	return len(a.open) >= MaxOpen || shown >= MaxShown
}

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

// Get returns the open question with an approval id.
func (a *Approvals[Q]) Get(id string) (Approval[Q], bool) {
	q, ok := a.open[id]
	return q, ok
}

// ByRequest returns the open question with the agent's id; see jsonrpc.ID.Key.
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

// NoSuchChoice returns the error for a decision with a choice that the question
// does not have.
func NoSuchChoice() error {
	return runnel.Fail(runnel.InvalidRequest, "choice: the approval has no such choice")
}

// Remove removes a settled question. For an out-of-turn question, Settled then
// returns its turn.
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

// Changed processes a question with the request id of an open question. If both
// have the same digest, the first stays open and Changed reports false. If they
// differ, an answer to the first could be taken as an answer to the second.
// Changed then removes and returns the open question, and the caller denies
// both.
func (a *Approvals[Q]) Changed(request, digest string) (Approval[Q], bool) {
	q, ok := a.ByRequest(request)
	if !ok || q.Digest == digest {
		return q, false
	}
	a.Remove(q.ID)
	return q, true
}

// Drop removes and returns the questions of a turn that has ended. The end of
// the turn resolves them.
func (a *Approvals[Q]) Drop(turn string) []Approval[Q] {
	dropped := a.Of(turn)
	for _, q := range dropped {
		delete(a.open, q.ID)
	}
	return dropped
}

// Settled returns the turns whose out-of-turn question was settled, oldest
// first, and forgets them. The caller ends these turns.
func (a *Approvals[Q]) Settled() []string {
	turns := a.settled
	a.settled = nil
	return turns
}

// Idle reports whether no question is open and no turn of a settled question is
// waiting for its end.
func (a *Approvals[Q]) Idle() bool { return len(a.open) == 0 && len(a.settled) == 0 }

// Resolved returns the event for a decision by the user.
func Resolved(id, choice string) event.ApprovalResolved {
	return event.ApprovalResolved{ApprovalID: id, Choice: choice, By: event.ByUser}
}

// Cancelled returns the event for a question that is open when Runnel
// interrupts its turn. A live session logs the same event before it sends the
// interrupt.
func Cancelled(id string) event.ApprovalResolved {
	return event.ApprovalResolved{ApprovalID: id, Choice: event.ChoiceWithdrawn, By: event.ByPolicy, Reason: "the turn was cancelled"}
}

// Withdrawn returns the event for a question that the agent withdrew.
func Withdrawn(id string) event.ApprovalResolved {
	return event.ApprovalResolved{ApprovalID: id, Choice: event.ChoiceWithdrawn, By: event.ByAgent}
}
