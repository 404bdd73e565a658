package push

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/atonce"
)

// Run watches the sessions while there are subscriptions, and sends notes. It
// returns once ctx has ended and no note is being sent.
func (s *Service) Run(ctx context.Context) {
	out := &outbox{Service: s, busy: make(map[noteID]bool), slots: make(chan struct{}, maxSending), own: atonce.Limit{Most: 1}}
	defer out.work.Wait()
	for ctx.Err() == nil {
		switch all, err := s.cfg.Store.PushSubscriptions(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.cfg.Logger.Warn("subscriptions could not be read", "error", err)
			sleep(ctx, time.Minute)
		case len(all) > 0:
			s.watch(ctx, out)
		default:
			select {
			case <-s.more:
			case <-ctx.Done():
			}
		}
	}
}

// watch watches the sessions until ctx ends or there are no subscriptions.
func (s *Service) watch(ctx context.Context, out *outbox) {
	_, version := s.cfg.Sessions.Changes(-1)
	w := watch{settle: s.cfg.Settle, sessions: make(map[string]*track)}
	list, err := s.cfg.Sessions.List(ctx, gateway.Filter{})
	if err != nil {
		s.cfg.Logger.Warn("sessions could not be listed for notes", "error", err)
	}
	for _, st := range list {
		w.begin(st)
	}
	clock := time.NewTimer(0)
	defer clock.Stop()
	<-clock.C
	for {
		select {
		case <-s.cfg.Sessions.Changed(version):
		case <-s.more:
		case <-clock.C:
		case <-ctx.Done():
			return
		}
		var ids []string
		ids, version = s.cfg.Sessions.Changes(version)
		now := time.Now()
		for _, id := range ids {
			st, err := s.cfg.Sessions.Status(ctx, id)
			switch {
			case err == nil:
				w.observe(st, now)
			case runnel.CodeOf(err) == runnel.SessionNotFound:
				delete(w.sessions, id)
			}
		}
		if due := w.take(now); len(due) > 0 && !out.deliver(ctx, due) {
			return
		}
		clock.Reset(w.wait(now))
		if !sleep(ctx, s.pace) {
			return
		}
	}
}

// sleep waits and reports whether ctx is still valid.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A note says something about a session of a project.
type note struct {
	kind    NoteKind
	project string
}

// A watch decides, from the statuses of sessions, which notes are due. It
// belongs to one goroutine.
type watch struct {
	settle   time.Duration
	sessions map[string]*track // live sessions, by id
}

// A track is what a watch knows about a session.
type track struct {
	project       string
	waiting, busy bool
	ended         bool // the session has ended, and is forgotten once no note is due
	due           map[NoteKind]time.Time
}

func stateOf(st gateway.Status) (waiting, busy bool) {
	waiting = len(st.PendingApprovals) > 0 || st.Activity == event.ActivityWaiting
	return waiting, waiting || st.Activity == event.ActivityWorking || st.Queued > 0
}

// begin records the status of a session without a note. A session that already
// waits has been announced before, or somebody is looking at it.
func (w *watch) begin(st gateway.Status) {
	t := &track{project: st.ProjectDir, due: make(map[NoteKind]time.Time)}
	t.waiting, t.busy = stateOf(st)
	w.sessions[st.SessionID] = t
}

// observe records the status of a session. A note is due once the session has
// been in its new state for the time settle. An approval that a rule decides at
// once is therefore not announced, nor is a pause between two turns. A turn
// that somebody cancelled is not announced either.
func (w *watch) observe(st gateway.Status, now time.Time) {
	if st.Archived || st.Deleted {
		delete(w.sessions, st.SessionID)
		return
	}
	t := w.sessions[st.SessionID]
	if t == nil {
		t = &track{due: make(map[NoteKind]time.Time)}
		w.sessions[st.SessionID] = t
	}
	t.project = st.ProjectDir
	waiting, busy := stateOf(st)
	if waiting && !t.waiting {
		t.due[NeedsYou] = now.Add(w.settle)
	}
	if !busy && t.busy && st.LastTurn != event.StatusCancelled {
		t.due[Finished] = now.Add(w.settle)
	}
	if !waiting {
		delete(t.due, NeedsYou)
	}
	if busy {
		delete(t.due, Finished)
	}
	t.waiting, t.busy, t.ended = waiting, busy, st.State == event.StateDead
}

// take removes and returns the notes that are due.
func (w *watch) take(now time.Time) (notes []note) {
	for id, t := range w.sessions {
		for kind, at := range t.due {
			if at.After(now) {
				continue
			}
			delete(t.due, kind)
			if n := (note{kind, t.project}); !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
		if t.ended && len(t.due) == 0 {
			delete(w.sessions, id)
		}
	}
	return notes
}

// wait returns the time until the next note is due.
func (w *watch) wait(now time.Time) time.Duration {
	next := time.Hour
	for _, t := range w.sessions {
		for _, at := range t.due {
			next = min(next, max(0, at.Sub(now)))
		}
	}
	return next
}

// A noteID identifies a note to one subscription.
type noteID struct {
	endpoint [32]byte
	kind     NoteKind
}

// An outbox sends notes, each in a goroutine of its own.
type outbox struct {
	*Service
	work  sync.WaitGroup
	slots chan struct{} // one element for each request to a push service
	own   atonce.Limit  // requests of one credential, whose push service may not answer

	mu   sync.Mutex
	busy map[noteID]bool // notes that are being sent
}
