package httpapi

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Why streams end that their clients would have gone on with.
var (
	errShutdown = errors.New("httpapi: the server is shutting down")
	errDeleted  = runnel.Fail(runnel.SessionNotFound, "the session was deleted")
	errLost     = runnel.Fail(runnel.StoreUnavailable, "what happens in this turn cannot be recorded any more; see the server's log")
)

// An endMessage is the last of a stream that ends here: what the client has, and
// why there is no more now.
type endMessage struct {
	Type      string   `json:"type"`
	SessionID string   `json:"sessionId"`
	Seq       int64    `json:"seq" doc:"the position to resume after"`
	Reason    string   `json:"reason" enum:"server_shutdown,error"`
	Error     *problem `json:"error,omitempty"`
}

const reasonShutdown, reasonError = "server_shutdown", "error"

// endings are what is to be told when a session is deleted.
type endings struct {
	mu sync.Mutex
	by map[string]map[*context.CancelCauseFunc]struct{}
}

// add has end called with errDeleted once the session is deleted. The caller
// calls forget when that is of no interest any more.
func (e *endings) add(session string, end context.CancelCauseFunc) (forget func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by == nil {
		e.by = make(map[string]map[*context.CancelCauseFunc]struct{})
	}
	if e.by[session] == nil {
		e.by[session] = make(map[*context.CancelCauseFunc]struct{})
	}
	e.by[session][&end] = struct{}{}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if delete(e.by[session], &end); len(e.by[session]) == 0 {
			delete(e.by, session)
		}
	}
}

func (e *endings) deleted(session string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for end := range e.by[session] {
		(*end)(errDeleted)
	}
}

// A vigil is kept by a stream of events: a turn that has begun must go on or end.
// If the store has failed it does neither, and no event will say so.
type vigil struct {
	s       *Server
	session string
	open    bool // a turn has begun and has no end, as far as was read
	suspect bool // and nobody worked at it when last looked
}

func (s *Server) vigil(ctx context.Context, session string) (vigil, error) {
	st, err := s.gw.Log().State(ctx, session)
	if err != nil {
		err = runnel.Fail(runnel.StoreUnavailable, "the session's log cannot be read now; see the server's log", err)
	}
	return vigil{s: s, session: session, open: len(st.Open) > 0}, err
}

func (v *vigil) saw(evs []event.Event) {
	for _, ev := range evs {
		if ev.Turn != "" {
			v.open, v.suspect = !event.Ends(ev.Body), false
		}
	}
}

// look is called when nothing has come for a while. It returns errLost the
// second time that the log has a turn without an end at which nobody works: once
// may be the moment between two.
func (v *vigil) look(ctx context.Context) error {
	if !v.open {
		return nil
	}
	st, err := v.s.gw.Status(ctx, v.session)
	if err != nil {
		return err
	}
	log, err := v.s.gw.Log().State(ctx, v.session)
	if err != nil {
		return runnel.Fail(runnel.StoreUnavailable, "the session's log cannot be read now; see the server's log", err)
	}
	nobody := len(log.Open) > 0 && !slices.ContainsFunc(log.Open, func(t runnel.OpenTurn) bool { return t.Turn == st.TurnID })
	if v.suspect && nobody {
		return errLost
	}
	v.suspect = nobody
	return nil
}

// timer returns what tells when to look, if there is anything to look at.
func (v *vigil) timer(wanted bool) (<-chan time.Time, func()) {
	if !v.open || !wanted {
		return nil, func() {}
	}
	t := time.NewTimer(v.s.cfg.Heartbeat)
	return t.C, func() { t.Stop() }
}
