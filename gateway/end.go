package gateway

import (
	"context"
	"errors"

	"github.com/runnel-dev/runnel/event"
)

// Kill ends a session and stops its agent and everything that the agent
// started. The session's events stay. [Gateway.Load] reopens it.
func (g *Gateway) Kill(ctx context.Context, ref string) error {
	id, err := g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return err
	}
	rec, err := g.opener.record(ctx, id)
	if err != nil || rec.State == event.StateDead {
		return err
	}
	e, err := g.lock(ctx, id) // no other call restarts its agent meanwhile
	if err != nil {
		return err
	}
	defer g.unlock(e)
	if err := g.queue.clear(ctx, e); err != nil {
		return err
	}
	e.end()
	// The record is written before the session is removed. Other calls can then
	// open the session only from a record that is already dead.
	err = g.records.write(context.WithoutCancel(ctx), e)
	err = errors.Join(err, e.session.Close())
	err = errors.Join(err, g.records.write(context.WithoutCancel(ctx), e))
	g.records.retire(e) // a later write could undo what a load writes once the session is removed
	g.sessions.remove(id)
	g.feed.touch(id)
	return err
}

// Delete ends a session and deletes it with its events. It fails with
// TURN_IN_PROGRESS while a turn runs. [Housekeeping.Delete] ends the turn.
func (g *Gateway) Delete(ctx context.Context, ref string) error {
	_, err := HousekeepingOf(g).DeleteIdle(ctx, ref)
	return err
}
