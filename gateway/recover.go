package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/supervisor"
	"github.com/runnel-dev/runnel/store"
)

// keepOf says how the agent of a session is found again after a restart.
func (g *Gateway) keepOf(id string) runnel.Keep {
	if g.cfg.DataDir == "" || g.cfg.ReattachWindow < 0 {
		return runnel.Keep{}
	}
	return runnel.Keep{Dir: g.keepDir(), Name: id, Window: g.cfg.ReattachWindow}
}

// keepDir is where supervisors leave word of themselves.
func (g *Gateway) keepDir() string { return filepath.Join(g.cfg.DataDir, "run") }

// takeOver takes up the agents that the process before us left to their
// supervisors, and ends those that cannot be.
func (g *Gateway) takeOver(ctx context.Context) error {
	if g.cfg.DataDir == "" {
		return nil
	}
	if err := os.MkdirAll(g.keepDir(), 0o700); err != nil {
		return fmt.Errorf("directory for running agents: %w", err)
	}
	ids, err := supervisor.Names(g.keepDir())
	if err != nil {
		return fmt.Errorf("directory for running agents: %w", err)
	}
	if len(ids) == 0 {
		return nil
	}
	var all sync.WaitGroup
	for some := range slices.Chunk(ids, (len(ids)+atOnce-1)/atOnce) { // an agent may hold its supervisor up: the others do not wait
		all.Go(func() {
			for _, id := range some {
				g.takeOverOrEnd(ctx, id)
			}
		})
	}
	all.Wait()
	return nil
}

// atOnce is how many agents are looked after at a time.
const atOnce = 8

func (g *Gateway) takeOverOrEnd(ctx context.Context, id string) {
	err := g.takeOverSession(ctx, id)
	if err == nil {
		g.log.LogAttrs(ctx, slog.LevelInfo, "agent taken over", slog.String("session", id))
		return
	}
	g.log.LogAttrs(ctx, slog.LevelInfo, "agent not taken over", slog.String("session", id), slog.String("error", err.Error()))
	if err := supervisor.End(supervisor.Keep{Dir: g.keepDir(), Name: id}); err != nil {
		g.log.LogAttrs(ctx, slog.LevelWarn, "agent not ended", slog.String("session", id), slog.String("error", err.Error()))
	}
}

func (g *Gateway) takeOverSession(ctx context.Context, id string) error {
	rec, err := g.record(ctx, id)
	if err != nil {
		return err
	}
	if rec.State == event.StateDead || g.cfg.ReattachWindow < 0 {
		return errors.New("not wanted any more")
	}
	p, err := g.providers.Choose(rec.CLIType)
	if err != nil {
		return err
	}
	if _, ok := p.(runnel.Adopter); !ok {
		return errors.New("this agent cannot be taken over")
	}
	opt, err := g.options(ctx, rec)
	if err != nil {
		return err
	}
	waiting, err := g.cfg.Catalogue.Queue(ctx, id)
	if err != nil {
		return storeError(err)
	}
	st, err := g.cfg.Log.State(ctx, id)
	if err != nil {
		return storeError(err)
	}
	if len(st.Open) > 0 {
		past := &entry{g: g, rec: rec}
		if err := g.renote(ctx, past, st.Open[0].After); err != nil {
			return storeError(err)
		}
		rec = past.rec
	}
	e, err := g.start(ctx, p, opt, rec, len(waiting), runnel.Config{Dormant: true, Adopt: true})
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.live[id] = e
	g.mu.Unlock()
	g.feed.touch(id)
	g.keeper.dirty(e, true)
	if !e.session.Status().AgentAlive {
		return errors.New("its supervisor is gone, or has not kept its turn")
	}
	return nil
}

// recover takes up what the process before us left.
func (g *Gateway) recover(ctx context.Context) error {
	all, err := g.cfg.Catalogue.Sessions(ctx, store.SessionFilter{})
	if err != nil {
		return storeError(err)
	}
	for _, rec := range all {
		if rec.State == event.StateLoading { // half made
			if err := g.cfg.Catalogue.DeleteSession(ctx, rec.ID); err != nil {
				return storeError(err)
			}
		}
	}
	waiting, err := g.recoverQueues(ctx) // before sessions count what waits in them
	if err != nil {
		return err
	}
	if err := g.takeOver(ctx); err != nil {
		return err
	}
	unfinished, err := g.cfg.Catalogue.Unfinished(ctx)
	if err != nil {
		return storeError(err)
	}
	for _, id := range unfinished {
		if g.peek(id) == nil { // else its turn goes on
			g.finish(ctx, id)
		}
	}
	g.resumeQueues(ctx, waiting)
	return nil
}

// renote brings e's record to what the log says: a crash may have come before
// the record of what happened after that position was written.
func (g *Gateway) renote(ctx context.Context, e *entry, after int64) error {
	for ev, err := range g.cfg.Log.Read(ctx, e.rec.ID, after) {
		if err != nil {
			return err
		}
		e.mu.Lock()
		e.note(ev)
		e.mu.Unlock()
	}
	return nil
}

// finish closes the turns of a session that have no end: opening it does that.
// It is put away again, so that a start costs no memory.
func (g *Gateway) finish(ctx context.Context, id string) {
	err := func() error {
		rec, err := g.record(ctx, id)
		if err != nil {
			return err
		}
		p, err := g.providers.Choose(rec.CLIType)
		if err != nil {
			return err
		}
		st, err := g.cfg.Log.State(ctx, id)
		if err != nil {
			return err
		}
		e, err := g.start(ctx, p, runnel.Options{Dir: rec.ProjectDir}, rec, 0, runnel.Config{Dormant: true})
		if err != nil {
			return err
		}
		defer g.retire(e)
		err = e.session.Close()
		if len(st.Open) > 0 {
			err = errors.Join(err, g.renote(ctx, e, st.Open[0].After))
		}
		return errors.Join(err, g.put(ctx, e))
	}()
	if err != nil {
		g.log.LogAttrs(ctx, slog.LevelWarn, "unfinished turn not closed", slog.String("session", id), slog.String("error", err.Error()))
	}
}
