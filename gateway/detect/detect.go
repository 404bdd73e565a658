// Package detect finds out which agents are installed on this machine, and
// finds providers by name.
//
// A slow probe never blocks a caller for long: callers get cached results while
// agents are probed in the background.
package detect

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
)

// An Agent is a kind of agent that this server can run, with the result of its
// last probe on this machine.
type Agent struct {
	CLIType     string   `json:"cliType"`
	DisplayName string   `json:"displayName" doc:"Name for people, such as Claude Code."`
	Aliases     []string `json:"aliases" doc:"Other names that cliType accepts."`
	runnel.Installation
	Capabilities []runnel.Capability `json:"capabilities" doc:"Capabilities of the agent, such as agent_api.session.resume.v1."`

	Checking  bool      `json:"checking,omitempty" doc:"The server is still checking this agent; request the list again for the result."`
	CheckedAt time.Time `json:"checkedAt,omitzero" doc:"When the agent was last checked. Absent: never."`
}

const (
	probeTimeout  = 20 * time.Second           // for one agent
	maxProbes     = 2                          // concurrent probes; a probe may start the agent
	resultMaxAge  = 5 * time.Minute            // maximum age of a result without a problem
	problemMaxAge = 30 * time.Second           // maximum age of a result with a problem, which the user may be solving
	firstWait     = 1500 * time.Millisecond    // how long Agents waits for agents that were never probed
	refreshWait   = probeTimeout + time.Second // how long Agents waits for a refresh
)

// A Detector probes agents and caches the results. It is safe for concurrent
// use. It has one goroutine for each agent that is being probed.
type Detector struct {
	ctx   context.Context // context of the probes
	work  *sync.WaitGroup // counts the goroutines of the probes
	slots chan struct{}   // contains a token for each running probe

	mu     sync.Mutex // guards the fields below; no other lock is taken while it is held
	rows   []*row
	closed bool
}

type row struct {
	provider runnel.Provider
	agent    Agent
	probed   chan struct{} // closed when the running probe ends; nil: no probe runs
}

// New returns a Detector without results. Its goroutines count in work, and end
// soon after ctx. Its agents do not have the capabilities refused, which the
// server's configuration does not permit.
func New(ctx context.Context, work *sync.WaitGroup, ps []runnel.Provider, refused ...runnel.Capability) *Detector {
	d := &Detector{ctx: ctx, work: work, slots: make(chan struct{}, maxProbes)}
	index := NewIndex(ps)
	for _, p := range ps {
		able := slices.DeleteFunc(runnel.Capabilities(p), func(c runnel.Capability) bool { return slices.Contains(refused, c) })
		a := Agent{CLIType: p.Name(), DisplayName: runnel.DisplayName(p), Aliases: []string{}, Capabilities: able}
		for _, name := range aliases(p) {
			if index.alias[name] == p.Name() {
				a.Aliases = append(a.Aliases, name)
			}
		}
		d.rows = append(d.rows, &row{provider: p, agent: a})
	}
	return d
}

// Agents returns the agents with their cached results, in the order of the
// providers. It starts to probe agents that were never probed or whose result
// is too old. It waits at most 1.5 seconds for agents that were never probed.
//
// With refresh it starts to probe all agents and waits at most 21 seconds for
// them. It stops waiting when ctx is done, and probes continue. An agent whose
// probe still runs is returned with Checking set.
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

// Last returns the result of the last probe of the provider with this name, or
// nil if there is none. It neither starts a probe nor waits for one.
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

// start starts the probes that are due. It returns the channels that Agents
// waits for: with refresh those of all running probes, and otherwise those of
// agents that were never probed before.
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

// probe waits for a free slot and probes one agent.
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

// Close prevents new probes. Running probes end with the Detector's context.
func (d *Detector) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// Probe probes a provider's agent, for at most 20 seconds.
func Probe(ctx context.Context, p runnel.Provider) runnel.Installation {
	prober, ok := p.(runnel.Prober)
	if !ok {
		return runnel.Installation{Problem: "Runnel cannot check whether this agent is installed."}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	in := prober.Probe(ctx).Bounded()
	if ctx.Err() != nil { // the result is incomplete
		in.Installed = in.Installed || in.Path != ""
		in.Problem = "It did not answer completely within " + probeTimeout.String() + ". The first start can be slow. Check again."
	}
	return in
}

// All probes the agents of these providers and returns the results once all
// probes have ended. refused is as for [New].
func All(ctx context.Context, ps []runnel.Provider, refused ...runnel.Capability) []Agent {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer func() {
		cancel()
		work.Wait()
	}()
	return New(ctx, &work, ps, refused...).agents(ctx, true, time.Duration(len(ps))*refreshWait)
}
