package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/redact"
)

// random returns the n-th random source of a seed.
func random(seed, n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }

// session is the one session of a world.
const session = "s"

// A plan has the choices that a seed makes before the run begins.
type plan struct {
	users, ops int
	crashes    int
	kinds      []fate
	survive    bool // agents outlive a killed process, and are adopted
	faults     bool // syncs fail now and then
	timeout    time.Duration
	pace       time.Duration // mean time between the operations of a user
	unstable   time.Duration // mean time that a connection lasts
}

// A fate is how a process ends.
type fate string

const (
	killed    fate = "killed"
	powerless fate = "powerless"
	fenced    fate = "fenced" // the process goes on, but the disk has another owner
	detached  fate = "detached"
)

func makePlan(seed uint64) plan {
	r := random(seed, 0)
	p := plan{
		users: 2, ops: 2 + r.IntN(4), crashes: r.IntN(4), survive: r.IntN(2) == 0, faults: r.IntN(6) == 0,
		pace: time.Duration(20+r.IntN(150)) * time.Millisecond, unstable: time.Duration(20+r.IntN(400)) * time.Millisecond,
	}
	if r.IntN(3) == 0 {
		p.timeout = time.Duration(20+r.IntN(200)) * time.Millisecond
	}
	for range p.crashes {
		p.kinds = append(p.kinds, []fate{killed, killed, powerless, fenced, detached}[r.IntN(5)])
	}
	return p
}

// A world is one run of the simulation. work waits for its goroutines.
type world struct {
	seed uint64
	plan plan
	disk *disk
	work sync.WaitGroup
	over chan struct{} // closed when all goroutines must end

	mu      sync.Mutex // never held while time passes; guards the rest
	rng     *rand.Rand
	sources uint64
	clock   int64 // logical time of operations and events
	wrong   []string
	trace   []string
	seen    map[string]int64 // clock when an event became visible, by the event's id
	effects map[string]int   // prompts and decisions that reached an agent, and how often
	agent   *agent           // the newest agent
	now     *incarnation     // the process that is up; nil if none is
	changed chan struct{}    // closed and replaced when now changes
	all     []*incarnation
	calm    bool // no connection is cut any more
	ops     []op
	counts  map[string]int // what happened, and how often
	clients []*client
	paced   *paced
	agents  []*agent
	turns   []*turnView
}

func newWorld(seed uint64, p plan) *world {
	w := &world{
		seed: seed, plan: p, disk: newDisk(seed), over: make(chan struct{}), rng: random(seed, 2), sources: 10,
		seen: make(map[string]int64), counts: make(map[string]int), effects: make(map[string]int), changed: make(chan struct{}),
	}
	w.disk.shown = func(ev event.Event) {
		now := w.tick()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen[ev.ID()] = now
	}
	return w
}

// source returns a new random source.
func (w *world) source() *rand.Rand {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sources++
	return random(w.seed, w.sources)
}

func (w *world) span(mean time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rng.ExpFloat64() * float64(mean))
}

// chance returns true with a probability of 1/n.
func (w *world) chance(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n) == 0
}

func (w *world) violation(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 20 {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, time.Now().Format("05.000000 ")+fmt.Sprintf(format, args...))
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

func (w *world) tick() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock++
	return w.clock
}

// effect notes that a prompt or decision reaches an agent. That may happen only
// once, and only after the event that recorded accepts is durable in the log.
func (w *world) effect(what string, recorded func(event.Event) bool) {
	w.note("agent: %s", what)
	w.disk.mu.Lock()
	durable := w.disk.events[:w.disk.synced]
	w.disk.mu.Unlock()
	if !slices.ContainsFunc(durable, recorded) {
		w.violation("%s reached the agent before it was in the log", what)
	}
	w.mu.Lock()
	w.effects[what]++
	n := w.effects[what]
	w.mu.Unlock()
	if n > 1 {
		w.violation("%s reached an agent %d times", what, n)
	}
}

// machine makes a the running agent. The agent before it must be dead.
func (w *world) machine(a *agent) {
	w.mu.Lock()
	before := w.agent
	w.agent = a
	w.agents = append(w.agents, a)
	w.mu.Unlock()
	if before != nil && before.alive() {
		w.violation("an agent was started while the one before it ran")
	}
}

func (w *world) running() *agent {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.agent == nil || !w.agent.alive() {
		return nil
	}
	return w.agent
}

// An incarnation is one simulated process of runnel.
type incarnation struct {
	w       *world
	n       int
	log     *diskLog
	session *runnel.Session
	killed  chan struct{} // closed when dead becomes true

	mu    sync.Mutex
	dead  bool
	how   fate // how it ended, or is about to
	taint bool // the log may fail, because the process is ending or lost the disk
}

// reach calls f unless the process is dead, and reports whether the process is
// alive. f must take no time.
func (inc *incarnation) reach(f func()) bool {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	if !inc.dead {
		f()
	}
	return !inc.dead
}

func (inc *incarnation) end(how fate, dead bool) {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	if inc.how == "" {
		inc.how = how
	}
	inc.taint = true
	if dead && !inc.dead {
		inc.dead = true
		close(inc.killed)
	}
}

func (inc *incarnation) tainted() bool {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	return inc.taint
}

func filter(runnel.Options) runnel.Filter { return redact.New(secret).Events() }

// boot starts a process that owns generation gen of the disk.
func (w *world) boot(gen int) (up bool) {
	inc := &incarnation{w: w, n: gen, log: &diskLog{w.disk, gen}, killed: make(chan struct{})}
	cfg := runnel.Config{ID: session, Log: inc.log, Dormant: w.chance(2), Adopt: true, ApprovalTimeout: w.plan.timeout}
	for tries := 0; ; tries++ {
		s, err := runnel.Open(context.Background(), provider{inc}, runnel.Options{Filter: filter}, cfg)
		if err == nil {
			inc.session = s
			break
		}
		w.note("process %d: open: %v", gen, err)
		if code := runnel.CodeOf(err); code != runnel.SessionCreateFailed && !w.plan.faults || tries == 100 {
			w.violation("a session cannot be opened: %v", err)
			return false
		}
		time.Sleep(time.Millisecond)
	}
	if a := w.running(); a != nil && a.take() { // the new session did not adopt the agent
		a.kill()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = inc
	w.all = append(w.all, inc)
	close(w.changed)
	w.changed = make(chan struct{})
	w.trace = append(w.trace, fmt.Sprintf("%s process %d is up", time.Now().Format("05.000000"), gen))
	return true
}

// current returns the process that is up, and waits for one if there is none.
// It returns nil when the world ends.
func (w *world) current() *incarnation {
	for {
		w.mu.Lock()
		inc, changed := w.now, w.changed
		w.mu.Unlock()
		if inc != nil {
			return inc
		}
		select {
		case <-changed:
		case <-w.over:
			return nil
		}
	}
}

// strike ends the process that is up, and starts the next one.
func (w *world) strike(how fate) (up bool) {
	w.mu.Lock()
	inc, before := w.now, slices.Clone(w.all)
	w.now = nil
	w.mu.Unlock()
	w.note("process %d is %s", inc.n, how)
	w.count("process " + string(how))
	if how == detached {
		inc.end(how, false)
		if inc.session.Detach(context.Background()) {
			w.note("process %d left its agent", inc.n)
		} else {
			_ = inc.session.Close()
		}
		inc.end(how, true)
	}
	for _, old := range before { // processes that were fenced earlier die now
		old.end(how, how != fenced || old != inc)
	}
	shown := len(w.disk.snapshot())
	gen := w.disk.restart(how == powerless)
	w.disk.publishFrom(min(shown, len(w.disk.snapshot())))
	if how == powerless {
		w.forget()
	}
	if a := w.running(); a != nil {
		switch {
		case how == killed && w.plan.survive:
			a.disconnect()
		case how != detached: // as the agent's supervisor would
			a.kill()
		}
	}
	switch how {
	case detached:
	case fenced:
		lives := w.span(50 * time.Millisecond)
		w.work.Go(func() { time.Sleep(lives); _ = inc.session.Close() })
	default:
		w.work.Go(func() { _ = inc.session.Close() })
	}
	time.Sleep(w.span(20 * time.Millisecond))
	return w.boot(gen)
}

// An op is an operation of a user, with its result.
type op struct {
	user      int
	kind      string // send, decide, cancel
	arg       string // id of the turn or of the approval
	choice    string
	call, ret int64
	out       string // ok, busy, gone, unknown; else an error
	busy      string // the turn that is running, if busy
	stale     bool   // the decision has the digest of other arguments
}

const forever = int64(1) << 62

// do runs one operation and records it with its result.
func (w *world) do(inc *incarnation, o op, f func() error) op {
	o.call = w.tick()
	err := f()
	o.ret, o.out = w.tick(), "ok"
	if err != nil {
		o.out = string(runnel.CodeOf(err))
	}
	e, _ := errors.AsType[*runnel.Error](err)
	switch {
	case !inc.reach(func() {}) && inc.how != detached:
		o.out, o.ret = "unknown", forever // the user got no response
	case err == nil:
	case e != nil && e.Code == runnel.TurnInProgress:
		o.out = "busy"
		if details, ok := e.Details.(map[string]string); ok {
			o.busy = details["turnId"]
		}
	case e != nil && e.Code == runnel.ApprovalGone:
		o.out = "gone"
	case e != nil && (e.Code == runnel.SessionDead || e.Code == runnel.ProcessCrash):
		o.out, o.ret = "unknown", forever
	case e != nil && e.Code == runnel.StoreUnavailable && (w.plan.faults || inc.tainted()):
		o.out, o.ret = "unknown", forever
	default:
		w.violation("%s %s: %v", o.kind, o.arg, err)
	}
	w.note("user %d: %s %s %s: %s %s", o.user, o.kind, o.arg, o.choice, o.out, o.busy)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops = append(w.ops, o)
	w.counts[o.kind+" "+o.out]++
	return o
}

// user runs the operations of user n, who knows what client c has received.
func (w *world) user(n int, c *client) {
	r := w.source()
	for range w.plan.ops {
		time.Sleep(time.Duration(r.ExpFloat64() * float64(w.plan.pace)))
		inc := w.current()
		if inc == nil {
			return
		}
		pending, old := c.approvals()
		switch dice := r.IntN(100); {
		case len(pending) > 0 && dice < 75:
			w.decide(r, inc, n, pending[r.IntN(len(pending))])
		case len(old) > 0 && dice < 85:
			w.decide(r, inc, n, old[r.IntN(len(old))])
		case dice < 97:
			w.send(r, inc, n)
		default:
			w.do(inc, op{user: n, kind: "cancel"}, func() error { return inc.session.Cancel(context.Background()) })
		}
	}
}

func (w *world) decide(r *rand.Rand, inc *incarnation, user int, a event.Approval) {
	d := runnel.Decision{Choice: choices[r.IntN(len(choices))].ID, ArgumentsDigest: a.ArgumentsDigest}
	stale := r.IntN(8) == 0
	if stale {
		d.ArgumentsDigest = "digest of what was asked before"
	}
	o := w.do(inc, op{user: user, kind: "decide", arg: a.ID, choice: d.Choice, stale: stale}, func() error { return inc.session.Decide(context.Background(), a.ID, d) })
	if stale && o.out == "ok" {
		w.violation("the approval %s was given for other arguments, and counted", a.ID)
	}
}

func (w *world) send(r *rand.Rand, inc *incarnation, user int) {
	var id uuid.UUID
	binary.LittleEndian.PutUint64(id[:], r.Uint64())
	binary.LittleEndian.PutUint64(id[8:], r.Uint64())
	in := runnel.Input{Text: "prompt " + id.String(), Turn: id.String()}
	var t *runnel.Turn
	o := w.do(inc, op{user: user, kind: "send", arg: in.Turn}, func() (err error) {
		t, err = inc.session.Send(context.Background(), in)
		return err
	})
	if o.out == "ok" && r.IntN(2) == 0 {
		w.work.Go(func() { w.watch(inc, t) })
	}
}
