// Package detect finds out which agents are on this machine, and finds their
// providers by name.
//
// A slow probe never blocks: callers get cached results while agents are probed
// in the background.
package detect

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

const (
	probeTimeout  = 20 * time.Second           // for one agent
	maxProbes     = 2                          // at a time: a probe may start the agent
	resultMaxAge  = 5 * time.Minute            // of a result without a problem
	problemMaxAge = 30 * time.Second           // of a result that the user is about to change
	firstWait     = 1500 * time.Millisecond    // for agents that were never probed
	refreshWait   = probeTimeout + time.Second // for a refresh
)

// A Detector probes agents and caches the results. It is safe for concurrent
// use. It has one goroutine for each agent that is being probed.
type Detector struct {
	ctx   context.Context // of the probes
	work  *sync.WaitGroup // of the probes
	slots chan struct{}   // holds a token for each running probe

	mu     sync.Mutex // guards the rest; nothing else is locked under it
	rows   []*row
	closed bool
}

type row struct {
	provider runnel.Provider
	agent    Agent
	probed   chan struct{} // closed at the end of the running probe; nil: none runs
}

// New returns a Detector that has probed nothing yet. Its goroutines belong to
// work, and end soon after ctx.
func New(ctx context.Context, work *sync.WaitGroup, ps []runnel.Provider) *Detector {
	d := &Detector{ctx: ctx, work: work, slots: make(chan struct{}, maxProbes)}
	index := NewIndex(ps)
	for _, p := range ps {
		a := Agent{CLIType: p.Name(), DisplayName: displayName(p), Aliases: []string{}, Capabilities: runnel.Capabilities(p)}
		for _, name := range aliases(p) {
			if index.alias[name] == p.Name() {
				a.Aliases = append(a.Aliases, name)
			}
		}
		d.rows = append(d.rows, &row{provider: p, agent: a})
	}
	return d
}

// Agents returns what is known, in the order of the providers. It starts to
// probe agents that were never probed or whose result is old. It waits a moment
// for agents that were never probed.
//
// With refresh it starts to probe all agents, and waits some seconds for all of
// them. An agent that is still being probed is returned with Checking set.
func (d *Detector) Agents(ctx context.Context, refresh bool) []Agent {
	wait := firstWait
	if refresh {
		wait = refreshWait
	}
	return d.agents(ctx, refresh, wait)
}

func (d *Detector) agents(ctx context.Context, refresh bool, wait time.Duration) []Agent {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for _, probed := range d.start(refresh) {
		select {
		case <-probed:
			continue
		case <-timeout.C:
		case <-ctx.Done():
		}
		break
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]Agent, len(d.rows))
	for i, r := range d.rows {
		out[i] = r.agent
		out[i].Checking = r.probed != nil
	}
	return out
}

// Last returns what the last probe of an agent found; nil if it was never
// probed. It starts no probe and waits for none.
func (d *Detector) Last(name string) *runnel.Installation {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rows {
		if r.provider.Name() == name && !r.agent.CheckedAt.IsZero() {
			in := r.agent.Installation
			return &in
		}
	}
	return nil
}

// start starts the probes that are due, and returns the ends of the probes that
// are worth waiting for.
func (d *Detector) start(refresh bool) (wait []<-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rows {
		if r.probed == nil && (refresh || r.expired()) && !d.closed {
			r.probed = make(chan struct{})
			d.work.Go(func() { d.probe(r) })
		}
		if r.probed != nil && (refresh || r.agent.CheckedAt.IsZero()) {
			wait = append(wait, r.probed)
		}
	}
	return wait
}

func (r *row) expired() bool {
	maxAge := resultMaxAge
	if in := r.agent.Installation; !in.Installed || in.Problem != "" || in.LoggedIn != nil && !*in.LoggedIn {
		maxAge = problemMaxAge
	}
	return time.Since(r.agent.CheckedAt) >= maxAge
}

// probe probes one agent, once there is a slot.
func (d *Detector) probe(r *row) {
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
	close(r.probed)
	r.probed = nil
}

// Close starts no more probes. Those that run end with the Detector's context.
func (d *Detector) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// Probe asks a provider's agent about itself, for twenty seconds at most.
func Probe(ctx context.Context, p runnel.Provider) runnel.Installation {
	prober, ok := p.(runnel.Prober)
	if !ok {
		return runnel.Installation{Problem: "cannot be asked"}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	in := prober.Probe(ctx).Bounded()
	if ctx.Err() != nil { // the rest of the result is incomplete
		in.Installed = in.Installed || in.Path != ""
		in.Problem = "It did not answer completely within " + probeTimeout.String() + ". The first start can be slow. Check again."
	}
	return in
}

// All probes the agents of these providers, and returns the results once every
// probe has ended.
func All(ctx context.Context, ps []runnel.Provider) []Agent {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer func() {
		cancel()
		work.Wait()
	}()
	return New(ctx, &work, ps).agents(ctx, true, time.Duration(len(ps))*refreshWait)
}
