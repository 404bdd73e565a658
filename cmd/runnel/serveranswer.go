package main

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/universal"
)

// An answerer answers the approvals of a session of the running server.
type answerer struct {
	*serverLink
	session  string
	approve  runnel.Approver // finds answers. Default: deny all approvals
	optional bool            // an approval without a valid answer continues to wait instead of being denied

	answering sync.WaitGroup
	mu        sync.Mutex // guards asked
	asked     map[string]asked
}

// asked is an approval for which an answer is being found.
type asked struct {
	turn string
	over context.CancelCauseFunc
}

// errResolved is the cause with which the context of an [runnel.Approver] ends
// if the approval was answered elsewhere, or by this command.
type errResolved struct{ event.ApprovalResolved }

func (e *errResolved) Error() string { return "the approval was resolved" }

// errTurnOver is the cause if the turn has ended without an answer.
var errTurnOver = errors.New("the turn is over")

// note applies an event of the session. It does not wait for an answer.
func (n *answerer) note(ctx context.Context, ev event.Event) {
	switch b := ev.Body.(type) {
	case event.ApprovalRequested:
		n.ask(ctx, ev.Turn, b.Approval)
	case event.ApprovalResolved:
		n.over(func(id string, _ asked) bool { return id == b.ApprovalID }, &errResolved{b})
	}
	if event.Ends(ev.Body) {
		n.over(func(_ string, a asked) bool { return a.turn == ev.Turn }, errTurnOver)
	}
}

// ask begins to find an answer to an approval.
func (n *answerer) ask(ctx context.Context, turn string, a event.Approval) {
	ctx, over := context.WithCancelCause(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked == nil {
		n.asked = make(map[string]asked)
	}
	n.asked[a.ID] = asked{turn, over}
	n.answering.Go(func() { n.answer(ctx, a) })
}

// over ends the search for answers to the approvals that f selects.
func (n *answerer) over(f func(id string, a asked) bool, cause error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, a := range n.asked {
		if f(id, a) {
			delete(n.asked, id)
			a.over(cause)
		}
	}
}

// wait returns once no answer is being found or sent.
func (n *answerer) wait() { n.answering.Wait() }

// answer finds an answer to an approval and sends it. ctx ends once the
// approval is resolved. Unless n.optional is set, an approval without a valid
// answer is denied, as without a server.
func (n *answerer) answer(ctx context.Context, a event.Approval) {
	d := runnel.Decision{Choice: denial(a), By: event.ByPolicy, Reason: universal.ApprovalRequired + ": no one can answer, so it was denied"}
	if n.approve != nil {
		d = n.approve(ctx, a)
		d.ArgumentsDigest = cmp.Or(d.ArgumentsDigest, a.ArgumentsDigest)
	}
	if ctx.Err() != nil || n.optional && d.By == event.ByPolicy {
		return
	}
	err := n.decide(ctx, a.ID, d)
	switch code := runnel.CodeOf(err); {
	case err == nil || ctx.Err() != nil:
		return
	case code == runnel.InvalidRequest || code == runnel.ApprovalGone:
		if !n.waits(ctx, a) { // somebody else was faster
			return
		}
		if !n.optional {
			err = n.decide(ctx, a.ID, runnel.Decision{Choice: denial(a), By: event.ByPolicy, Reason: "the answer was invalid for this approval, so it was denied"})
		}
	}
	if err != nil && ctx.Err() == nil {
		n.say("runnel: the approval cannot be answered from here: %s; answer it on the page", explain(err))
	}
}

// waits reports whether this approval still waits for an answer. An agent may
// use the id of an approval again for other arguments.
func (n *answerer) waits(ctx context.Context, a event.Approval) bool {
	var open struct {
		Approval event.Approval `json:"approval"`
	}
	err := n.get(ctx, sessionPath(n.session, "approvals/"+url.PathEscape(a.ID)), &open)
	return err == nil && open.Approval.ArgumentsDigest == a.ArgumentsDigest
}

// denial returns the id of a choice that denies, as the server would choose it.
func denial(a event.Approval) string {
	for _, kind := range []event.ChoiceKind{event.ChoiceDeny, event.ChoiceDenyStop} {
		for _, c := range a.Choices {
			if c.Kind == kind {
				return c.ID
			}
		}
	}
	return event.ChoiceWithdrawn
}

// decide sends a decision. A withdrawal cancels the turn, which withdraws the
// approval.
func (n *answerer) decide(ctx context.Context, id string, d runnel.Decision) error {
	if d.Choice == event.ChoiceWithdrawn {
		return n.cancel(ctx, n.session)
	}
	return n.post(ctx, sessionPath(n.session, "approvals/"+url.PathEscape(id)), decisionBody{d, d.By == event.ByPolicy}, nil)
}

// decisionBody is a decision in the form of the API.
type decisionBody struct {
	runnel.Decision
	Automatic bool `json:"automatic,omitempty"`
}
