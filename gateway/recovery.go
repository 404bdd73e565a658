package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/supervisor"
	"github.com/runnel-dev/runnel/store"
)

// A recovery cleans up after the previous server process when the server
// starts. It takes over agents that still run, closes the other unfinished
// turns, deletes sessions whose creation was not completed, and starts the
// turns of queued prompts.
type recovery struct {
	opener   *opener
	sessions *sessions
	queue    *promptQueue
	cfg      *Config
	follows  *follows
	drop     func(context.Context, store.Session) // removes what an unfinished session left
}

func (r *recovery) run(ctx context.Context) error {
	incomplete, err := r.cfg.Catalogue.Sessions(ctx, store.SessionFilter{State: event.StateLoading, Trim: Described}) // their creation was not completed
	if err != nil {
		return storeError(err)
	}
	for _, rec := range incomplete {
		r.drop(ctx, rec) // before the record, so that another crash leaves nothing
		if err := r.cfg.Catalogue.DeleteSession(ctx, rec.ID); err != nil {
			return storeError(err)
		}
	}
	r.opener.captures.prune(ctx, r.cfg.Catalogue)
	r.opener.unknowns.prune(ctx, r.cfg.Catalogue)
	waiting, err := r.queue.recover(ctx, r.cfg.Log) // must precede the opening of sessions, which count their queued prompts
	if err != nil {
		return err
	}
	if err := r.takeOver(ctx); err != nil {
		return err
	}
	r.opener.egress.prune(ctx, r.cfg.Catalogue, r.opener.takeoverDir(), func(id string) bool { return r.sessions.peek(id) != nil })
	r.opener.denials.prune(ctx, r.cfg.Catalogue)
	r.opener.rules.prune(ctx, r.cfg.Catalogue)
	unfinished, err := r.cfg.Catalogue.Unfinished(ctx)
	if err != nil {
		return storeError(err)
	}
	for _, id := range unfinished {
		if r.sessions.peek(id) == nil { // an open session was taken over, and its turn continues
			r.finish(ctx, id)
		}
	}
	r.queue.resume(ctx, waiting, func(id string) (*entry, error) { return r.opener.open(id, "") })
	return nil
}

// maxTakeovers is how many agents are taken over or stopped concurrently.
const maxTakeovers = 8

// takeOver takes over the agents that the previous process left running under
// their supervisors. It stops the agents that cannot be taken over.
func (r *recovery) takeOver(ctx context.Context) error {
	if r.cfg.DataDir == "" {
		return nil
	}
	dir := r.opener.takeoverDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory for running agents: %w", err)
	}
	ids, err := supervisor.Names(dir)
	if err != nil {
		return fmt.Errorf("directory for running agents: %w", err)
	}
	if len(ids) == 0 {
		return nil
	}
	var all sync.WaitGroup
	for some := range slices.Chunk(ids, (len(ids)+maxTakeovers-1)/maxTakeovers) { // concurrently, because an agent may block its supervisor
		all.Go(func() {
			for _, id := range some {
				r.takeOverOrEnd(ctx, id)
			}
		})
	}
	all.Wait()
	return nil
}

func (r *recovery) takeOverOrEnd(ctx context.Context, id string) {
	log := r.cfg.Logger
	err := r.takeOverSession(ctx, id)
	if err == nil {
		log.LogAttrs(ctx, slog.LevelInfo, "agent taken over", slog.String("session", id))
		return
	}
	log.LogAttrs(ctx, slog.LevelInfo, "agent not taken over", slog.String("session", id), slog.String("error", err.Error()))
	if err := supervisor.End(supervisor.Takeover{Dir: r.opener.takeoverDir(), Name: id}); err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "agent could not be stopped", slog.String("session", id), slog.String("error", err.Error()))
	}
}

func (r *recovery) takeOverSession(ctx context.Context, id string) error {
	rec, err := r.opener.record(ctx, id)
	if err != nil {
		return err
	}
	if rec.State == event.StateDead || r.cfg.ReattachWindow < 0 {
		return errors.New("its session no longer needs it")
	}
	p, err := r.opener.providers.Choose(rec.CLIType)
	if err != nil {
		return err
	}
	if _, ok := p.(runnel.Adopter); !ok {
		return errors.New("this agent cannot be taken over")
	}
	res, err := r.opener.options(ctx, rec)
	if err != nil { // for example a mistake in a settings file, which must not end a running turn
		if res, err = r.opener.ownOptions(ctx, rec); err != nil {
			return err
		}
	}
	queued, err := queueOf(ctx, r.cfg.Catalogue, id)
	if err != nil {
		return err
	}
	st, err := r.cfg.Log.State(ctx, id)
	if err != nil {
		return storeError(err)
	}
	past := &entry{rec: rec, archived: keptOf(rec.Options).Archived}
	if len(st.Open) > 0 {
		if err := past.catchUp(ctx, r.cfg.Log, st.Open[0].After); err != nil {
			return storeError(err)
		}
		rec = past.rec
	}
	e, err := r.opener.start(ctx, p, res, rec, queued, runnel.Config{Dormant: true, Adopt: true})
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.reported, e.unwritten = past.reported.with(e.reported), e.unwritten || past.unwritten
	e.mu.Unlock()
	r.sessions.add(id, e)
	e.feed.touch(id)
	e.records.mark(e, true)
	if err := e.session.NotAdopted(); err != nil {
		return cmp.Or(errors.Unwrap(err), err)
	}
	if !e.session.Status().AgentAlive {
		return errors.New("it has ended")
	}
	return nil
}

// finish closes the unfinished turns of a session. Opening the session does
// that. finish then closes the session again to free its memory.
func (r *recovery) finish(ctx context.Context, id string) {
	err := func() error {
		rec, err := r.opener.record(ctx, id)
		if err != nil {
			return err
		}
		p, err := r.opener.providers.Choose(rec.CLIType)
		if err != nil {
			return err
		}
		st, err := r.cfg.Log.State(ctx, id)
		if err != nil {
			return err
		}
		if len(st.Open) > 0 && r.follows.isFollowed(rec) {
			return r.follows.resume(ctx, id)
		}
		res, cfg := resolution{Options: runnel.Options{Dir: workDir(rec)}}, runnel.Config{Dormant: true, Changed: func(runnel.Settings) {}}
		if own, err := r.opener.ownOptions(ctx, rec); err == nil && (own.AllowBypass || own.PermissionMode != runnel.ModeBypass) {
			res, cfg.Changed = own, nil // other options cannot be used; the turn is closed without them
		}
		e, err := r.opener.start(ctx, p, res, rec, nil, cfg)
		if err != nil {
			return err
		}
		defer e.records.retire(e)
		err = e.session.Close()
		if len(st.Open) > 0 {
			err = errors.Join(err, e.catchUp(ctx, r.cfg.Log, st.Open[0].After))
		}
		return errors.Join(err, e.records.write(ctx, e))
	}()
	if err != nil {
		r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "unfinished turn not closed", slog.String("session", id), slog.String("error", err.Error()))
	}
}
