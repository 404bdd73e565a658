// Package prewarm keeps agents started ahead of the sessions that will use
// them.
//
// A pool has one prewarmed agent for each of the pool keys (kind of agent,
// directory, options) that were used last. Prewarmed agents have completed the
// handshake, and have seen no prompt. Each uses its future session's id, so
// that a restarted server can recognise and stop unclaimed agents.
package prewarm

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/wake"
)

const (
	defaultMaxAge = 10 * time.Minute
	refillDelay   = 2 * time.Second  // after an agent was taken: the turn that begins now comes first
	startTimeout  = time.Minute      // for one agent
	minBackoff    = 5 * time.Second  // after the first failure to start; doubled with each further one
	maxBackoff    = 10 * time.Minute // between failures
	checkInterval = 15 * time.Second // of whether prewarmed agents still run
	lookTimeout   = 3 * time.Second  // for one read of a directory
	idleAfter     = time.Hour        // without prompt and new session; then no agent is prewarmed
)

// Config is what a Pool needs.
type Config struct {
	Size   int           // agents that are kept. Default: none, and no method does anything
	MaxAge time.Duration // of an unused agent, which is then replaced. Default: 10 min

	// Start starts an agent for the session with this id. It may be called
	// until Close returns, once at a time.
	Start func(ctx context.Context, k Key, id string) (runnel.Conn, error)

	Logger *slog.Logger
}

// A Pool keeps prewarmed agents. It is safe for concurrent use. Its one
// goroutine is the caller of Run, which starts and stops the agents, one after
// the other.
type Pool struct {
	cfg  Config
	ctx  context.Context // of Run
	stop context.CancelFunc
	kick wake.Signal  // holds a token once something has changed
	used atomic.Int64 // when a prompt or a session came last, in Unix nanoseconds: prompts do not wait for mu

	stat func(dir string) (os.FileInfo, error) // may block for as long as a file system does not answer

	mu     sync.Mutex       // guards the rest; never held while a directory is read
	slots  []*slot          // by last use, newest first
	unused []*Agent         // to be stopped
	looks  map[string]*look // by directory, those that go on
	closed bool
	stats  Stats
}

// A slot is the place for one agent of a key.
type slot struct {
	Key
	agent   *Agent        // nil: none is ready
	after   time.Time     // when the next one may be started
	backoff time.Duration // after the last failure
}

// An Agent is prewarmed. Whoever takes it from its pool owns it, and closes
// Conn.
type Agent struct {
	ID      string // of its future session
	Conn    runnel.Conn
	Options runnel.Options // it was started with

	started time.Time
	dir     os.FileInfo // its directory then
}

// Stats counts prewarmed agents.
type Stats struct {
	Ready   int   // now
	Hits    int64 // sessions that got a prewarmed agent
	Misses  int64 // sessions that got none
	Started int64
	Failed  int64 // did not start, or ended before they were taken
	Unused  int64 // stopped without having been taken
}

// New returns an empty pool. ctx bounds its life.
func New(ctx context.Context, cfg Config) *Pool {
	cfg.Size, cfg.MaxAge = max(cfg.Size, 0), cmp.Or(cfg.MaxAge, defaultMaxAge)
	p := &Pool{cfg: cfg, kick: wake.New(), stat: os.Stat, looks: make(map[string]*look)}
	p.used.Store(time.Now().UnixNano())
	p.ctx, p.stop = context.WithCancel(ctx)
	return p
}

// Use notes that a prompt came: the pool goes on prewarming. It never blocks.
func (p *Pool) Use() {
	if p.cfg.Size == 0 {
		return
	}
	p.used.Store(time.Now().UnixNano())
	p.kick.Send()
}

// Created notes that a session was created with this key. The pool prewarms an
// agent for the next one.
func (p *Pool) Created(k Key) {
	if p.cfg.Size == 0 || !Eligible(k.Options) {
		return
	}
	p.mu.Lock()
	p.add(&slot{Key: k, after: time.Now().Add(refillDelay)}, true)
	p.mu.Unlock()
	p.Use()
}

// add adds a slot, as the newest or as the oldest one, unless there is one with
// an equal key: that one becomes the newest, or stays. p.mu is held.
func (p *Pool) add(s *slot, newest bool) {
	i := slices.IndexFunc(p.slots, func(have *slot) bool { return have.equal(s.Key) })
	if i >= 0 {
		known := p.slots[i]
		if !newest {
			return
		}
		p.slots = slices.Delete(p.slots, i, i+1)
		if s.after.After(known.after) {
			known.after = s.after
		}
		s = known
	}
	if newest {
		p.slots = slices.Insert(p.slots, 0, s)
	} else {
		p.slots = append(p.slots, s)
	}
	for len(p.slots) > p.cfg.Size {
		last := len(p.slots) - 1
		p.drop(p.slots[last])
		p.slots = p.slots[:last]
	}
}

// drop removes the agent from a slot, to be stopped; p.mu is held.
func (p *Pool) drop(s *slot) {
	switch {
	case s.agent == nil:
		return
	case s.agent.ended():
		p.stats.Failed++
		s.fail(time.Now())
	default:
		p.stats.Unused++
	}
	p.unused = append(p.unused, s.agent)
	s.agent = nil
}

// Take returns an agent for a session that is to be created with this key, and
// the settings in which the agent differs from the key. It returns nil if no
// agent fits. Of several it prefers one that differs in nothing. It reads no
// directory but that of the key, for a few seconds at most.
func (p *Pool) Take(k Key) (*Agent, runnel.Settings) {
	if p.cfg.Size == 0 {
		return nil, runnel.Settings{}
	}
	defer p.kick.Send()
	for {
		a, differs := p.claim(k)
		if a == nil || p.inPlace(a) {
			p.count(a)
			return a, differs
		}
		p.discard(a)
	}
}

// claim takes an agent that fits out of its slot, wherever its directory is by
// now.
func (p *Pool) claim(k Key) (*Agent, runnel.Settings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var best *slot
	var differs runnel.Settings
	for _, s := range p.slots {
		if p.closed || s.agent == nil || s.Provider.Name() != k.Provider.Name() {
			continue
		}
		if s.agent.ended() || s.agent.isOld(p.cfg.MaxAge) {
			p.drop(s)
			continue
		}
		set, ok := s.settings(k)
		if !ok || !canSet(s.agent.Conn, set) || best != nil && !set.IsZero() {
			continue
		}
		if best, differs = s, set; set.IsZero() {
			break
		}
	}
	if best == nil {
		return nil, runnel.Settings{}
	}
	a := best.agent
	best.agent, best.after, best.backoff = nil, time.Now().Add(refillDelay), 0
	return a, differs
}

// count counts the agent that Take returns, or that it returns none.
func (p *Pool) count(a *Agent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case a != nil:
		p.stats.Hits++
	case !p.closed:
		p.stats.Misses++
	}
}

// discard stops an agent that is in no slot.
func (p *Pool) discard(a *Agent) {
	p.mu.Lock()
	p.stats.Unused++
	closed := p.closed
	if !closed {
		p.unused = append(p.unused, a)
	}
	p.mu.Unlock()
	if closed {
		_ = a.Conn.Close()
	}
}

// inPlace reports whether the name of an agent's directory still leads to the
// same one.
func (p *Pool) inPlace(a *Agent) bool {
	now, err := p.look(a.Options.Dir)
	return err == nil && a.dir != nil && os.SameFile(now, a.dir)
}

// A look is one read of a directory, which several callers may wait for.
type look struct {
	done chan struct{} // closed once info and err are set
	info os.FileInfo
	err  error
}

// look reads a directory. It fails if the file system does not answer: one that
// hangs delays only those who use it, and holds one goroutine.
func (p *Pool) look(dir string) (os.FileInfo, error) {
	p.mu.Lock()
	l := p.looks[dir]
	if l == nil {
		l = &look{done: make(chan struct{})}
		p.looks[dir] = l
		go func() {
			l.info, l.err = p.stat(dir)
			p.mu.Lock()
			delete(p.looks, dir)
			p.mu.Unlock()
			close(l.done)
		}()
	}
	p.mu.Unlock()
	patience := time.NewTimer(lookTimeout)
	defer patience.Stop()
	select {
	case <-l.done:
		return l.info, l.err
	case <-patience.C:
		return nil, errSilent
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
}

var errSilent = runnel.Fail(runnel.WorkingRootInaccessible, "the file system of the project directory does not answer")

func (a *Agent) isOld(maxAge time.Duration) bool { return time.Since(a.started) >= maxAge }

func (a *Agent) ended() bool {
	x, ok := a.Conn.(runnel.Exiter)
	if !ok {
		return false
	}
	_, ended := x.ExitStatus()
	return ended
}

// Run starts and stops agents until Close. It begins with the keys that recall
// returns, newest first.
func (p *Pool) Run(recall func(ctx context.Context) []Key) {
	for _, k := range recall(p.ctx) {
		p.mu.Lock()
		p.add(&slot{Key: k}, false)
		p.mu.Unlock()
	}
	for {
		p.inspect()
		s, unused, wait := p.next(time.Now())
		for _, a := range unused {
			_ = a.Conn.Close()
		}
		if s != nil {
			p.fill(s)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-p.kick:
		case <-timer.C:
		case <-p.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// inspect drops the agents that cannot be taken any more.
func (p *Pool) inspect() {
	p.mu.Lock()
	slots := slices.Clone(p.slots)
	p.mu.Unlock()
	for _, s := range slots {
		p.mu.Lock()
		a := s.agent
		p.mu.Unlock()
		if a == nil || !a.ended() && !a.isOld(p.cfg.MaxAge) && p.inPlace(a) {
			continue
		}
		p.mu.Lock()
		if s.agent == a { // nobody has taken it meanwhile
			p.drop(s)
		}
		p.mu.Unlock()
	}
}

// next returns what is to be done now: the slot in which to start an agent, and
// the agents to stop. If it returns neither, it is called again after wait.
func (p *Pool) next(now time.Time) (fill *slot, unused []*Agent, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, checkInterval
	}
	wait = checkInterval
	idle := now.Sub(time.Unix(0, p.used.Load())) >= idleAfter
	for _, s := range p.slots {
		if s.agent != nil || idle || fill != nil {
			continue
		}
		if !now.Before(s.after) {
			fill = s
		} else {
			wait = min(wait, s.after.Sub(now))
		}
	}
	unused, p.unused = p.unused, nil
	return fill, unused, wait
}

// fail delays the next start in a slot.
func (s *slot) fail(now time.Time) {
	s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
	s.after = now.Add(s.backoff)
}

// fill starts an agent in a slot.
func (p *Pool) fill(s *slot) {
	ctx, cancel := context.WithTimeout(p.ctx, startTimeout)
	defer cancel()
	a := &Agent{ID: uuid.Must(uuid.NewV7()).String(), Options: s.Options, started: time.Now()}
	var err error
	if a.dir, err = p.look(s.Options.Dir); err == nil {
		a.Conn, err = p.cfg.Start(ctx, s.Key, a.ID)
	}
	p.mu.Lock()
	if err != nil {
		if !p.closed {
			p.stats.Failed++
			s.fail(time.Now())
			p.cfg.Logger.LogAttrs(p.ctx, slog.LevelInfo, "no agent could be kept ready", slog.String("agent", s.Provider.Name()),
				slog.String("error", runnel.Safe(err).Message), slog.Duration("pause", s.backoff))
		}
		p.mu.Unlock()
		return
	}
	p.stats.Started++
	if p.closed || !slices.Contains(p.slots, s) {
		p.mu.Unlock()
		_ = a.Conn.Close()
		return
	}
	s.agent = a
	p.mu.Unlock()
}

// Close stops all prewarmed agents, and returns when they have ended. Run stops
// an agent that is just being started, and returns soon after.
func (p *Pool) Close() {
	p.stop()
	p.mu.Lock()
	p.closed = true
	for _, s := range p.slots {
		p.drop(s)
	}
	unused := p.unused
	p.unused = nil
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, a := range unused {
		all.Go(func() { _ = a.Conn.Close() })
	}
	all.Wait()
}

// Stats returns the counts so far.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.stats
	for _, s := range p.slots {
		if s.agent != nil {
			st.Ready++
		}
	}
	return st
}
