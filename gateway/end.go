package gateway

import (
	"context"
	"errors"

	"github.com/runnel-dev/runnel/event"
)

// Kill ends a session and everything it started. Its transcript stays.
func (g *Gateway) Kill(ctx context.Context, ref string) error {
	id, err := g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return err
	}
	rec, err := g.opener.record(ctx, id)
	if err != nil || rec.State == event.StateDead {
		return err
	}
	e, err := g.lock(ctx, id) // nobody starts its agent anew meanwhile
	if err != nil {
		return err
	}
	defer g.unlock(e)
	if err := g.queue.clear(ctx, e); err != nil {
		return err
	}
	e.end()
	// Recorded first: until then nobody may find it open again.
	err = g.records.write(context.WithoutCancel(ctx), e)
	err = errors.Join(err, e.session.Close())
	g.sessions.remove(id)
	err = errors.Join(err, g.records.write(context.WithoutCancel(ctx), e))
	g.records.retire(e)
	g.feed.touch(id)
	return err
}

// Delete ends a session and removes it with its events. It fails while a turn
// runs.
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

// deleteOnce deletes a session, or reports false if it was opened meanwhile.
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
	// Nobody can open the session from a record that is about to be deleted.
	return g.sessions.hold(ctx, id, e, func() error {
		if e != nil {
			g.records.retire(e)
		}
		if err := g.cfg.Catalogue.DeleteSession(context.WithoutCancel(ctx), id); err != nil {
			return storeError(err)
		}
		return nil
	})
}
