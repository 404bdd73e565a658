package gateway

import (
	"context"
	"sync"
)

// sessions holds the open sessions by id. A session that is being opened or
// closed is in transition: one goroutine does that for all who want it, and
// they wait.
type sessions struct {
	limits *limiter
	work   *sync.WaitGroup // of all transitions, and of those who entered
	opened func(*entry)    // is called after a session was opened

	mu          sync.Mutex // guards the rest, entry.users and the queue's state in entries
	open        map[string]*entry
	transitions map[string]*transition
	closing     bool
}

// A transition is the opening or closing of one session.
type transition struct {
	credential string        // for which a session is opened; "" for none
	done       chan struct{} // closed once err is set
	err        error
}

// wait waits for the end of the transition, and returns its error or ctx's.
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

// acquire returns the session with this id. If it is not open, open is called,
// once for all who ask. The session stays open until the caller releases it.
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

// lookup is acquire for a session that is only wanted if it is open: else it
// returns nil. It waits for a transition, which decides whether it is.
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
		if _ = t.wait(ctx); ctx.Err() != nil { // its own error is for those who wanted it opened
			return nil, ctx.Err()
		}
	}
}

func (s *sessions) release(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.users--
}

// peek returns the session if it is open. The caller does not keep it open.
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

// list is all; s.mu is held.
func (s *sessions) list() []*entry {
	out := make([]*entry, 0, len(s.open))
	for _, e := range s.open {
		out = append(out, e)
	}
	return out
}

// close lets no more transitions and goroutines begin, and returns the sessions
// that are open.
func (s *sessions) close() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	return s.list()
}

// add adds a session that was opened while nobody else could want it.
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

// enter makes Gateway.Close wait until the caller calls leave. It fails once
// the gateway closes.
func (s *sessions) enter() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errClosing()
	}
	s.work.Add(1)
	return s.work.Done, nil
}

// room returns the error for one more session of the credential of ctx, if
// there are too many; s.mu is held.
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

// create begins to open a session that is new; its id is not in use.
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

// replace removes an open session and begins to open it again.
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

// closeIf begins a transition for each open session that nobody uses and that
// is idle. What shut returns is open after it: nil if the session was closed.
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

// hold calls f while nobody can open or close the session. e is its open entry,
// which hold takes out of the open sessions; nil if the session is not open. It
// reports false, without calling f, if another entry is open by then.
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

// begin starts a transition; s.mu is held. The session that f returns is open
// after it.
func (s *sessions) begin(id, credential string, f func() (*entry, error)) *transition {
	t := &transition{credential: credential, done: make(chan struct{})}
	s.transitions[id] = t
	s.work.Go(func() {
		e, err := f()
		s.mu.Lock()
		if e != nil && s.closing { // close has not returned it
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
