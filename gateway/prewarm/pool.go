// Package prewarm starts agents ahead of the sessions that will use them.
//
// A pool has one prewarmed agent for each of the most recently used pool keys
// (kind of agent, directory, options). A prewarmed agent has completed the
// handshake and has received no prompt. It uses the id of its future session,
// so that a restarted server can recognise and stop unused agents.
package prewarm

import (
	"cmp"
	"context"
	"errors"
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
	refillDelay   = 2 * time.Second  // between taking an agent and starting the next one, so that the turn that starts now gets the CPU
	startTimeout  = time.Minute      // for one agent
	minBackoff    = 5 * time.Second  // after the first failure to start; doubled after each further failure
	maxBackoff    = 10 * time.Minute // maximum backoff
	checkInterval = 15 * time.Second // between checks whether prewarmed agents still run
	statTimeout   = 3 * time.Second  // for one stat of a directory
	idleAfter     = time.Hour        // time without a prompt or a new session after which no agents are prewarmed
)

// Config configures a Pool.
type Config struct {
	Size   int           // maximum number of prewarmed agents. Default: 0; the pool then does nothing
	MaxAge time.Duration // maximum age of an unused agent, after which it is replaced. Default: 10 min

	// Start starts an agent for the future session with this id. The pool makes
	// one call at a time, on the goroutine of Run.
	Start func(ctx context.Context, k Key, id string) (runnel.Conn, error)

	Logger *slog.Logger
}

// A Pool owns prewarmed agents. It is safe for concurrent use. The goroutine
// that calls Run starts agents, one at a time, and stops unused ones.
type Pool struct {
	cfg  Config
	ctx  context.Context // context of Run
	stop context.CancelFunc
	kick wake.Signal  // holds a token if Run has something to do
	used atomic.Int64 // time of the last prompt or new session, in Unix nanoseconds; atomic, so that prompts do not wait for mu

	stat func(dir string) (os.FileInfo, error) // may block while a file system does not respond

	mu       sync.Mutex          // guards the fields below; never held during stat
	slots    []*slot             // most recently used first
	unused   []*Agent            // agents that Run has to stop
	dirStats map[string]*dirStat // running stats, by directory
	closed   bool
	stats    Stats
}

// A slot holds at most one agent, of one key.
type slot struct {
	Key
	agent   *Agent        // nil: none is ready
	after   time.Time     // earliest time to start the next agent
	backoff time.Duration // delay after the last failure
}

// An Agent is a prewarmed agent. The caller of Take owns it and must close
// Conn.
type Agent struct {
	ID      string // id of its future session
	Conn    runnel.Conn
	Options runnel.Options // options with which it was started

	started time.Time
	dir     os.FileInfo // its directory when it was started
}

// Stats counts prewarmed agents.
type Stats struct {
	Ready   int   // agents that are prewarmed now
	Hits    int64 // sessions that got a prewarmed agent
	Misses  int64 // sessions that got none
	Started int64
	Failed  int64 // agents that did not start, or exited before they were taken
	Unused  int64 // agents that were stopped before they were taken
}

// New returns an empty pool. When ctx ends, the pool starts no more agents and
// Run returns; Close stops the agents.
func New(ctx context.Context, cfg Config) *Pool {
	cfg.Size, cfg.MaxAge = max(cfg.Size, 0), cmp.Or(cfg.MaxAge, defaultMaxAge)
	p := &Pool{cfg: cfg, kick: wake.New(), stat: os.Stat, dirStats: make(map[string]*dirStat)}
	p.used.Store(time.Now().UnixNano())
	p.ctx, p.stop = context.WithCancel(ctx)
	return p
}

// Use records that a prompt was sent, so that the pool continues to prewarm
// agents. It never blocks.
func (p *Pool) Use() {
	if p.cfg.Size == 0 {
		return
	}
	p.used.Store(time.Now().UnixNano())
	p.kick.Send()
}

// Created records that a session was created with this key. The pool then
// prewarms an agent for the next session with the key.
func (p *Pool) Created(k Key) {
	if p.cfg.Size == 0 || !Eligible(k.Options) {
		return
	}
	p.mu.Lock()
	p.add(&slot{Key: k, after: time.Now().Add(refillDelay)}, true)
	p.mu.Unlock()
	p.Use()
}

// add adds a slot, as the most or the least recently used one. If there is a
// slot with an equal key, add keeps that one instead, and with newest makes it
// the most recently used. p.mu is held.
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

// drop removes the agent from a slot and schedules its stop; p.mu is held.
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

// Take returns a prewarmed agent for a new session with this key, or nil if no
// agent fits. It also returns the settings that the caller must change in the
// agent; Take prefers an agent that needs no change. Take waits only for stats
// of the directory of the key. It returns nil if the file system does not
// respond within a few seconds.
func (p *Pool) Take(k Key) (*Agent, runnel.Settings) {
	if p.cfg.Size == 0 {
		return nil, runnel.Settings{}
	}
	defer p.kick.Send()
	for {
		a, differs := p.claim(k)
		if a == nil {
			p.count(nil)
			return nil, differs
		}
		err := p.inPlace(a)
		if err == nil {
			p.count(a)
			return a, differs
		}
		p.discard(a)
		if errors.Is(err, errNoResponse) { // all other agents that fit work in the same directory
			p.count(nil)
			return nil, runnel.Settings{}
		}
	}
}

// claim removes a fitting agent from its slot. It does not check whether the
// agent's directory was replaced.
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

// count counts a hit if Take returns an agent, and a miss if a is nil.
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

// discard stops an agent that was claimed but does not fit.
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

// inPlace returns an error unless the path of an agent's directory still refers
// to the directory in which the agent was started.
func (p *Pool) inPlace(a *Agent) error {
	now, err := p.statDir(a.Options.Dir)
	if err == nil && (a.dir == nil || !os.SameFile(now, a.dir)) {
		return errReplaced
	}
	return err
}

// A dirStat is one stat of a directory, for which several callers may wait.
type dirStat struct {
	done chan struct{} // closed once info and err are set
	info os.FileInfo
	err  error
}

// statDir stats a directory. It returns an error if the file system does not
// respond in time. A file system that hangs delays only callers that use it,
// and blocks one goroutine for each directory.
func (p *Pool) statDir(dir string) (os.FileInfo, error) {
	p.mu.Lock()
	d := p.dirStats[dir]
	if d == nil {
		d = &dirStat{done: make(chan struct{})}
		p.dirStats[dir] = d
		go func() {
			d.info, d.err = p.stat(dir)
			p.mu.Lock()
			delete(p.dirStats, dir)
			p.mu.Unlock()
			close(d.done)
		}()
	}
	p.mu.Unlock()
	timer := time.NewTimer(statTimeout)
	defer timer.Stop()
	select {
	case <-d.done:
		return d.info, d.err
	case <-timer.C:
		return nil, errNoResponse
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
}

var (
	errNoResponse = runnel.Fail(runnel.WorkingRootInaccessible, "the file system of the project directory does not answer")
	errReplaced   = errors.New("prewarm: the directory was replaced")
)

func (a *Agent) isOld(maxAge time.Duration) bool { return time.Since(a.started) >= maxAge }

func (a *Agent) ended() bool {
	x, ok := a.Conn.(runnel.Exiter)
	if !ok {
		return false
	}
	_, ended := x.ExitStatus()
	return ended
}

// Run starts and stops agents until Close is called or the context of New ends.
// It first calls recall, which returns the keys for the first agents, most
// recently used first.
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

// inspect drops agents that have exited, are too old, or whose directory was
// replaced.
func (p *Pool) inspect() {
	p.mu.Lock()
	slots := slices.Clone(p.slots)
	p.mu.Unlock()
	for _, s := range slots {
		p.mu.Lock()
		a := s.agent
		p.mu.Unlock()
		if a == nil || !a.ended() && !a.isOld(p.cfg.MaxAge) && p.inPlace(a) == nil {
			continue
		}
		p.mu.Lock()
		if s.agent == a { // the agent was not taken meanwhile
			p.drop(s)
		}
		p.mu.Unlock()
	}
}

// next returns the slot in which to start an agent now, and the agents to stop
// now. If there is no slot, Run calls next again after wait.
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

// fail delays the next start in a slot, longer after each failure.
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
	if a.dir, err = p.statDir(s.Options.Dir); err == nil {
		a.Conn, err = p.cfg.Start(ctx, s.Key, a.ID)
	}
	p.mu.Lock()
	if err != nil {
		if !p.closed {
			p.stats.Failed++
			s.fail(time.Now())
			p.cfg.Logger.LogAttrs(p.ctx, slog.LevelInfo, "agent not prewarmed", slog.String("agent", s.Provider.Name()),
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

// Close stops all prewarmed agents and returns once they have ended. If Run is
// just starting an agent, Run stops it and then returns.
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

// Stats returns the current counts.
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
