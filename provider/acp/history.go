package acp

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// historyTimeout is the maximum time to list conversations, or to read one.
const historyTimeout = 2 * time.Minute

// PositionalTurns implements [runnel.PositionalHistorian]. The protocol has no
// field for the id of a turn, so turns match by their order.
func (historyProvider) PositionalTurns() {}

// History implements [runnel.Historian]. It starts an agent that replays the
// conversation, and translates the replay like a live conversation.
func (p historyProvider) History(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if ref.AgentSessionID == "" {
			yield(event.Event{}, runnel.Fail(runnel.SessionNotFound, p.DisplayName()+" has no such conversation"))
			return
		}
		ctx, cancel := context.WithTimeout(ctx, historyTimeout)
		defer cancel()
		dir := ref.Dir
		if dir == "" {
			dir = agentconn.EmptyDir()
		}
		c, err := p.open(ctx, runnel.Options{Dir: dir, Trusted: ref.Trusted}, opening{method: methodLoad, session: ref.AgentSessionID, show: true, pictures: ref.Pictures})
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		if err := c.Close(); err != nil {
			yield(event.Event{}, err)
			return
		}
		for {
			ev, err := c.Next(ctx)
			if errors.Is(err, io.EOF) || err == nil && !yield(ev, nil) {
				return
			}
			if err != nil {
				yield(event.Event{}, err)
				return
			}
		}
	}
}
