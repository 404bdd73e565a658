package command

import (
	"context"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// Request bodies about the queue of a session.
type (
	// CancelRequest cancels the running turn.
	CancelRequest struct {
		ContinueQueue bool `json:"continueQueue,omitempty" doc:"Whether the queue continues when the turn has ended. Default: false, which holds the queue: queued prompts wait until POST /api/session/{id}/queue continues it."`
	}
	// HoldRequest holds or continues a queue.
	HoldRequest struct {
		Held *bool `json:"held" doc:"true holds the queue: no queued prompt starts until it is continued, and the running turn goes on. false continues it. An empty queue cannot be held and stays as it is."`
	}
	// EditPromptRequest changes a queued prompt.
	EditPromptRequest struct {
		Content *string `json:"content,omitempty" doc:"New text of the prompt. It may be blank only if the prompt has attachments. Default: the text does not change."`
		Before  *string `json:"before,omitempty" doc:"turnId of the queued prompt before which this one starts, or \"\" for the end of the queue. Default: the position does not change."`
	}
)

// Cancel cancels the running turn of a session.
func (c Commands) Cancel(ctx context.Context, id string, in CancelRequest) error {
	id, err := c.Sessions.VisibleRef(ctx, id)
	if err != nil {
		return err
	}
	if in.ContinueQueue {
		return gateway.QueuesOf(c.Sessions.Gateway).Skip(ctx, id)
	}
	return c.Sessions.Gateway.Cancel(ctx, id)
}

// Queue returns the queue of a session.
func (c Commands) Queue(ctx context.Context, id string) (gateway.Queue, error) {
	id, err := c.Sessions.VisibleRef(ctx, id)
	if err != nil {
		return gateway.Queue{}, err
	}
	return gateway.QueuesOf(c.Sessions.Gateway).Queue(ctx, id)
}

// HoldQueue holds or continues the queue of a session, and returns the queue.
func (c Commands) HoldQueue(ctx context.Context, id string, in HoldRequest) (gateway.Queue, error) {
	if in.Held == nil {
		return gateway.Queue{}, reply.Invalid("held: is missing; true holds the queue, false continues it")
	}
	id, err := c.Sessions.VisibleRef(ctx, id)
	if err != nil {
		return gateway.Queue{}, err
	}
	return gateway.QueuesOf(c.Sessions.Gateway).Hold(ctx, id, *in.Held)
}

// EditPrompt changes a queued prompt and returns the queue. Without the scope
// approve, a caller can neither make the prompt a command of the agent, nor
// choose the text of a prompt that is queued with options that need this scope.
func (c Commands) EditPrompt(ctx context.Context, id, turn string, in EditPromptRequest) (gateway.Queue, error) {
	if in.Content == nil && in.Before == nil {
		return gateway.Queue{}, reply.Invalid("nothing to change; give content, before or both")
	}
	if in.Content != nil {
		if err := checkCommand(ctx, "content", *in.Content); err != nil {
			return gateway.Queue{}, err
		}
	}
	id, err := c.Sessions.VisibleRef(ctx, id)
	if err != nil {
		return gateway.Queue{}, err
	}
	unattended := !access.Caller(ctx).Has(auth.Approve)
	return gateway.QueuesOf(c.Sessions.Gateway).Edit(ctx, id, turn, gateway.PromptEdit{Text: in.Content, Before: in.Before, Unattended: unattended})
}

// RemovePrompt removes a prompt from the queue of a session, and returns the
// queue.
func (c Commands) RemovePrompt(ctx context.Context, id, turn string) (gateway.Queue, error) {
	id, err := c.Sessions.VisibleRef(ctx, id)
	if err != nil {
		return gateway.Queue{}, err
	}
	return gateway.QueuesOf(c.Sessions.Gateway).Remove(ctx, id, turn)
}
