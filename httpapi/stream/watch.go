package stream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/wake"
)

// A watcher sends the status of sessions to one connection: each status once at
// the beginning, then whenever it has changed. It reads a status only when it
// can write, so a slow client gets the newest status and skips those in
// between.
type watcher struct {
	k    *socket
	kick wake.Signal // wakes run because fresh is not empty

	mu    sync.Mutex
	every bool            // all sessions are watched
	some  map[string]bool // watched sessions, unless every is set
	fresh map[string]bool // watched sessions whose status was not sent yet; "" means the whole list

	known map[string]bool // used by run only: live sessions whose status was sent to a client that is bound to a project

	commands map[string][]event.AgentCommand // used by run only: the commands that were sent last, by session

	sending sync.Mutex // held from the decision to send a status until it is sent; locked before mu
}

// watch returns the connection's watcher. The first call starts it.
func (k *socket) watch() *watcher {
	if k.watcher == nil {
		k.watcher = &watcher{k: k, kick: wake.New(), some: make(map[string]bool), fresh: make(map[string]bool), known: make(map[string]bool), commands: make(map[string][]event.AgentCommand)}
		_, version := k.s.cfg.Gateway.Changes(-1)
		k.work.Go(func() {
			if err := k.watcher.run(version); err != nil && k.ctx.Err() == nil {
				k.end(errors.Join(errBroken, err))
			}
		})
	}
	return k.watcher
}

func (w *watcher) one(session string) {
	w.mu.Lock()
	w.some[session], w.fresh[session] = true, true
	w.mu.Unlock()
	w.kick.Send()
}

// none ends the watch of a session. Once it has returned, no status of the
// session is sent, unless all sessions are watched.
func (w *watcher) none(session string) {
	w.sending.Lock()
	defer w.sending.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.some, session)
	delete(w.fresh, session)
}

func (w *watcher) watches(session string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.every || w.some[session]
}

func (w *watcher) all() {
	w.mu.Lock()
	w.every = true
	w.fresh[""] = true
	w.mu.Unlock()
	w.kick.Send()
}

// take returns the sessions whose status is to be sent now: the sessions in
// fresh, which it empties, and those in changed that are watched. If first is
// true, the caller must send the whole list of sessions.
func (w *watcher) take(changed []string) (ids []string, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first = w.fresh[""]
	delete(w.fresh, "")
	ids = slices.Collect(maps.Keys(w.fresh))
	clear(w.fresh)
	for _, id := range changed {
		if (w.every || w.some[id]) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, first
}

func (w *watcher) run(version int64) error {
	gw, ctx := w.k.s.cfg.Gateway, w.k.ctx
	for {
		changed := gw.Changed(version)
		ids, now := gw.Changes(version)
		version = now
		ids, first := w.take(ids)
		if first {
			list, err := w.k.s.cfg.Sessions.Listed(ctx, gateway.Filter{})
			if err != nil {
				return err
			}
			for _, l := range list {
				if err := w.send(l.SessionID, l.State, l.JSON); err != nil {
					return err
				}
			}
		}
		if err := w.sendChanged(ctx, ids); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-w.kick:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *watcher) sendChanged(ctx context.Context, ids []string) error {
	own := w.k.id.Project
	for _, id := range ids {
		st, err := w.k.s.cfg.Gateway.Status(ctx, id)
		if own != "" && (err == nil && st.ProjectDir != own || runnel.CodeOf(err) == runnel.SessionNotFound && !w.known[id]) {
			continue
		}
		if runnel.CodeOf(err) == runnel.SessionNotFound { // deleted
			st, err = gateway.Status{SessionID: id, Deleted: true, State: event.StateDead, Status: event.StateDead,
				Activity: event.ActivityIdle, PendingApprovals: []event.Approval{}}, nil
		}
		if err == nil {
			w.leaveOutCommands(&st)
			err = w.send(st.SessionID, st.State, st)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leaveOutCommands removes the commands from st if the client has them.
func (w *watcher) leaveOutCommands(st *gateway.Status) {
	switch sent, ok := w.commands[st.SessionID]; {
	case st.Deleted:
		delete(w.commands, st.SessionID)
	case ok && slices.Equal(sent, st.Commands):
		st.Commands = nil
	case st.Commands != nil:
		w.commands[st.SessionID] = st.Commands
	}
}

// send sends the status of a session, unless the session is not watched any
// more. status is a [gateway.Status] or its JSON.
func (w *watcher) send(id string, state event.SessionState, status any) error {
	w.sending.Lock()
	defer w.sending.Unlock()
	if !w.watches(id) {
		return nil
	}
	if w.k.id.Project != "" {
		w.known[id] = state != event.StateDead
	}
	return w.k.write(liveMessage{"session:status", id, status})
}
