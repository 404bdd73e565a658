package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
)

// An Agent is a kind of agent this server can run, with what is known of it on
// this machine.
type Agent struct {
	CLIType     string   `json:"cliType"`
	DisplayName string   `json:"displayName"`
	Aliases     []string `json:"aliases"`
	runnel.Installation
	Capabilities []runnel.Capability `json:"capabilities"`

	Checking  bool      `json:"checking,omitempty" doc:"it is being looked at; ask again for the news"`
	CheckedAt time.Time `json:"checkedAt,omitzero" doc:"when it was looked at last; absent: not yet"`
}

// The bounds of looking at agents.
const (
	probeTime    = 10 * time.Second        // for one agent
	probesAtOnce = 2                       // an agent that says what it offers is started for that
	probeLife    = 5 * time.Minute         // how long an answer counts
	problemLife  = 30 * time.Second        // how long one counts that the user is about to change
	probeWait    = 1500 * time.Millisecond // how long who asks waits for agents never looked at
	refreshWait  = probeTime + time.Second // how long who wants the news waits for them
)

// A detector knows which agents are on this machine. Nobody waits long for an
// agent that is slow to say who it is: what is known of it is told meanwhile.
type detector struct {
	ctx   context.Context // of the looking
	work  *sync.WaitGroup
	slots chan struct{} // holds one for each agent that is being looked at

	mu     sync.Mutex // guards the rest
	rows   []*detected
	closed bool
}

type detected struct {
	provider runnel.Provider
	agent    Agent
	looking  chan struct{} // closed once the look under way is over; nil: none is
}

// newDetector returns a detector that has looked at nothing yet. Its goroutines,
// one for each agent that is being looked at, are those of work; they end soon
// after ctx.
func newDetector(ctx context.Context, work *sync.WaitGroup, ps []runnel.Provider) *detector {
	d := &detector{ctx: ctx, work: work, slots: make(chan struct{}, probesAtOnce)}
	_, alias := index(ps)
	for _, p := range ps {
		a := Agent{CLIType: p.Name(), DisplayName: displayName(p), Aliases: []string{}, Capabilities: runnel.Capabilities(p)}
		for _, name := range aliases(p) {
			if alias[name] == p.Name() {
				a.Aliases = append(a.Aliases, name)
			}
		}
		d.rows = append(d.rows, &detected{provider: p, agent: a})
	}
	return d
}

// agents returns what is known, in the order of the configuration. Whatever is
// unknown or old is looked at in the background, and with now everything. Those
// of which nothing is known, and with now all, are waited for up to wait.
func (d *detector) agents(ctx context.Context, now bool, wait time.Duration) []Agent {
	patience := time.NewTimer(wait)
	defer patience.Stop()
	for _, looking := range d.look(now) {
		select {
		case <-looking:
			continue
		case <-patience.C:
		case <-ctx.Done():
		}
		break
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]Agent, len(d.rows))
	for i, r := range d.rows {
		out[i] = r.agent
		out[i].Checking = r.looking != nil
	}
	return out
}

// look begins to look where that is due, and returns what is worth waiting for.
func (d *detector) look(now bool) (wait []<-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rows {
		if r.looking == nil && (now || r.old()) && !d.closed {
			r.looking = make(chan struct{})
			d.work.Go(func() { d.probe(r) })
		}
		if r.looking != nil && (now || r.agent.CheckedAt.IsZero()) {
			wait = append(wait, r.looking)
		}
	}
	return wait
}

func (r *detected) old() bool {
	life := probeLife
	if in := r.agent.Installation; !in.Installed || in.Problem != "" || in.LoggedIn != nil && !*in.LoggedIn {
		life = problemLife
	}
	return time.Since(r.agent.CheckedAt) >= life
}

// probe asks an agent who it is, once there is a slot.
func (d *detector) probe(r *detected) {
	var in runnel.Installation
	select {
	case d.slots <- struct{}{}:
		in = Probe(d.ctx, r.provider)
		<-d.slots
	case <-d.ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() == nil {
		r.agent.Installation, r.agent.CheckedAt = in, time.Now().UTC()
	}
	close(r.looking)
	r.looking = nil
}

// close has nothing more begin.
func (d *detector) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// Probe asks a provider's agent who it is, and gives it ten seconds.
func Probe(ctx context.Context, p runnel.Provider) runnel.Installation {
	prober, ok := p.(runnel.Prober)
	if !ok {
		return runnel.Installation{Problem: "cannot be asked"}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	in := prober.Probe(ctx)
	if ctx.Err() != nil { // what it did not come to say is not known, whatever that looks like
		in.Installed = in.Installed || in.Path != ""
		in.Problem = "It did not say all about itself within " + probeTime.String() + ". It may be slow the first time: look again."
	}
	return in
}

// Detect looks at agents of these kinds and returns what it found, once all
// have answered or had their time.
func Detect(ctx context.Context, ps []runnel.Provider) []Agent {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer func() {
		cancel()
		work.Wait()
	}()
	return newDetector(ctx, &work, ps).agents(ctx, true, time.Duration(len(ps))*refreshWait)
}

// Agents returns the kinds of agents, in the order of the configuration, with
// what is known of them on this machine: as of some minutes ago, or of now. It
// waits a moment at most, with now some seconds; what is still being looked at
// says so.
func (g *Gateway) Agents(ctx context.Context, now bool) []Agent {
	wait := probeWait
	if now {
		wait = refreshWait
	}
	list := g.detector.agents(ctx, now, wait)
	if !g.cfg.AllowBypass {
		for i := range list {
			list[i].Modes = without(list[i].Modes, string(runnel.ModeBypass))
		}
	}
	return list
}

func without(list []string, not string) []string {
	out := list[:0:0]
	for _, s := range list {
		if s != not {
			out = append(out, s)
		}
	}
	return out
}
