package gateway

import (
	"context"
	"slices"
	"sync"
)

// sessions holds the open sessions by id. A session that is being opened or
// closed is in transition: one goroutine opens or closes it, and all other
// callers wait for that goroutine.
type sessions struct {
	limits *limiter
	work   *sync.WaitGroup // counts goroutines of transitions and of the queue, and callers of enter
	opened func(*entry)    // called after a session was opened

	mu          sync.Mutex // guards the fields below, entry.users, entry.draining and entry.again
	open        map[string]*entry
	transitions map[string]*transition
	closing     bool
}

// A transition is the opening or closing of one session.
type transition struct {
	credential string        // credential for which the session is opened; "" for none
	done       chan struct{} // closed once err is set
	err        error
}

// wait waits for the end of the transition and returns its error. If ctx ends
// first, it returns ctx's error.
func (t *transition) wait(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newSessions(work *sync.WaitGroup, limits *limiter) *sessions {
	return &sessions{limits: limits, work: work, open: make(map[string]*entry), transitions: make(map[string]*transition)}
}

// acquire returns the session with this id. If the session is not open, acquire
// calls open, once for all concurrent callers. The session stays open until the
// caller releases it.
func (s *sessions) acquire(ctx context.Context, id string, open func() (*entry, error)) (*entry, error) {
	for {
		s.mu.Lock()
		if s.closing {
			s.mu.Unlock()
			return nil, errClosing()
		}
		if e := s.open[id]; e != nil {
			e.users++
			s.mu.Unlock()
			return e, nil
		}
		t := s.transitions[id]
		if t == nil {
			if err := s.room(ctx); err != nil {
				s.mu.Unlock()
				return nil, err
			}
			t = s.begin(id, credentialOf(ctx), open)
		}
		s.mu.Unlock()
		if err := t.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// lookup is like acquire but returns nil if the session is not open. It first
// waits for a running transition of the session.
func (s *sessions) lookup(ctx context.Context, id string) (*entry, error) {
	for {
		s.mu.Lock()
		e, t := s.open[id], s.transitions[id]
		if e != nil {
			e.users++
		}
		s.mu.Unlock()
		if e != nil || t == nil {
			return e, nil
		}
		if _ = t.wait(ctx); ctx.Err() != nil { // the transition's own error is for callers that asked for it
			return nil, ctx.Err()
		}
	}
}

func (s *sessions) release(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.users--
}

// peek returns the session if it is open, and nil otherwise. The session may be
// closed while the caller uses it.
func (s *sessions) peek(id string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}

// all returns the open sessions.
func (s *sessions) all() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list()
}

// working reports whether an agent of an open session works: it runs a turn and
// waits for no decision.
func (s *sessions) working() bool {
	return slices.ContainsFunc(s.all(), func(e *entry) bool {
		st := e.session.Status()
		return st.Turn != "" && !st.Followed && len(st.Pending) == 0
	})
}

// list is all; s.mu is held.
func (s *sessions) list() []*entry {
	out := make([]*entry, 0, len(s.open))
	for _, e := range s.open {
		out = append(out, e)
	}
	return out
}

// close prevents new transitions and new queue goroutines, and returns the open
// sessions.
func (s *sessions) close() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	return s.list()
}

// add adds an open session during recovery, before any client can ask for it.
func (s *sessions) add(id string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[id] = e
}

func (s *sessions) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
}

// enter makes Gateway.Close wait until the caller calls leave. It returns an
// error once the gateway is closing.
func (s *sessions) enter() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errClosing()
	}
	s.work.Add(1)
	return s.work.Done, nil
}

// room returns an error if one more session would exceed a limit, in all or for
// the credential of ctx; s.mu is held.
func (s *sessions) room(ctx context.Context) error {
	credential, own := credentialOf(ctx), 0
	for _, e := range s.open {
		if e.credential == credential {
			own++
		}
	}
	for _, t := range s.transitions {
		if t.credential == credential {
			own++
		}
	}
	return s.limits.session(credential, len(s.open)+len(s.transitions), own)
}

// create starts the transition that opens a new session; id must not be in use.
func (s *sessions) create(ctx context.Context, id string, open func() (*entry, error)) (*transition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errClosing()
	}
	if err := s.room(ctx); err != nil {
		return nil, err
	}
	return s.begin(id, credentialOf(ctx), open), nil
}

// replace removes an open session and starts the transition that opens it
// again.
func (s *sessions) replace(old *entry, open func() (*entry, error)) (*transition, error) {
	id := old.session.ID()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.transitions[id] != nil {
		return nil, errClosing()
	}
	delete(s.open, id)
	return s.begin(id, old.credential, open), nil
}

// closeIf starts a transition for each open session that has no users and for
// which idle returns true. The transition calls shut. If shut returns an entry,
// that entry is open afterwards; nil means that the session was closed.
func (s *sessions) closeIf(idle func(*entry) bool, shut func(id string, e *entry) *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	for id, e := range s.open {
		if e.users > 0 || s.transitions[id] != nil || !idle(e) {
			continue
		}
		delete(s.open, id)
		s.begin(id, e.credential, func() (*entry, error) { return shut(id, e), nil })
	}
}

// hold calls f while no other goroutine can open or close the session. e is the
// session's open entry, or nil if it is not open. hold removes e from the open
// sessions. If the open entry is no longer e, hold returns false and does not
// call f.
func (s *sessions) hold(ctx context.Context, id string, e *entry, f func() error) (held bool, err error) {
	t := &transition{done: make(chan struct{})}
	for {
		s.mu.Lock()
		other := s.transitions[id]
		if other == nil {
			break
		}
		s.mu.Unlock()
		if _ = other.wait(ctx); ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	if s.closing || s.open[id] != e {
		defer s.mu.Unlock()
		if s.closing {
			return false, errClosing()
		}
		return false, nil
	}
	delete(s.open, id)
	s.transitions[id] = t
	s.work.Add(1)
	s.mu.Unlock()
	defer s.work.Done()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.transitions, id)
		close(t.done)
	}()
	return true, f()
}

// begin starts a transition, which calls f; s.mu is held. If f returns an
// entry, it is open afterwards.
func (s *sessions) begin(id, credential string, f func() (*entry, error)) *transition {
	t := &transition{credential: credential, done: make(chan struct{})}
	s.transitions[id] = t
	s.work.Go(func() {
		e, err := f()
		s.mu.Lock()
		if e != nil && s.closing { // close did not include it in its result
			s.mu.Unlock()
			_ = e.session.Close()
			e, err = nil, errClosing()
			s.mu.Lock()
		}
		if e != nil {
			s.open[id] = e
		}
		t.err = err
		delete(s.transitions, id)
		close(t.done)
		s.mu.Unlock()
		if e != nil {
			s.opened(e)
		}
	})
	return t
}
