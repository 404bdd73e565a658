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
	g.sessions.remove(id)
	err = errors.Join(err, g.records.write(context.WithoutCancel(ctx), e))
	g.records.retire(e)
	g.feed.touch(id)
	return err
}

// Delete ends a session and deletes it with its events. It fails with
// TURN_IN_PROGRESS while a turn runs.
func (g *Gateway) Delete(ctx context.Context, ref string) error {
	id, err := g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return err
	}
	for deleted := false; !deleted; {
		if _, err := g.opener.record(ctx, id); err != nil {
			return err
		}
		if deleted, err = g.deleteOnce(ctx, id); err != nil {
			return err
		}
	}
	g.feed.touch(id)
	return nil
}

// deleteOnce deletes a session. It returns false if the session was opened
// meanwhile.
func (g *Gateway) deleteOnce(ctx context.Context, id string) (bool, error) {
	e, err := g.lockOpened(ctx, id)
	if err != nil {
		return false, err
	}
	if e != nil {
		defer g.unlock(e)
		if turn := e.session.Status().Turn; turn != "" {
			return false, inProgress(id, turn)
		}
		e.end()
		_ = e.session.Close()
	}
	// hold prevents other calls from opening the session while its record is
	// deleted.
	return g.sessions.hold(ctx, id, e, func() error {
		if e != nil {
			g.records.retire(e)
		}
		if err := g.opener.captures.remove(id); err != nil {
			return err
		}
		if err := g.cfg.Catalogue.DeleteSession(context.WithoutCancel(ctx), id); err != nil {
			return storeError(err)
		}
		return nil
	})
}
