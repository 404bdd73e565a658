package gateway

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/prewarm"
)

// Metrics counts what happens in a Gateway, for programs that monitor the
// server.
type Metrics struct{ g *Gateway }

// MetricsOf returns the metrics of g.
func MetricsOf(g *Gateway) Metrics { return Metrics{g} }

// Tally returns the counts since the gateway was opened; see the type [Tally].
func (m Metrics) Tally() Tally { return m.g.opener.tally.counts() }

// A Census counts the open sessions and their agents at one time.
type Census struct {
	Open      int // open sessions
	Alive     int // sessions with a running agent
	Working   int // sessions with a running turn
	Approvals int // pending approvals

	Agents map[string]int // running agents, by name of their provider
}

// Census counts the open sessions and their agents now.
func (m Metrics) Census() Census {
	c := Census{Agents: make(map[string]int)}
	for _, p := range m.g.cfg.Providers {
		c.Agents[p.Name()] = 0
	}
	for _, e := range m.g.sessions.all() {
		st := e.session.Status()
		c.Open++
		c.Approvals += len(st.Pending)
		if st.AgentAlive {
			c.Alive++
			c.Agents[st.Provider]++
		}
		if st.Turn != "" {
			c.Working++
		}
	}
	return c
}

// LimitsReached returns how often each limit was reached since the gateway was
// opened, by name of the setting.
func (m Metrics) LimitsReached() map[string]int64 { return m.g.opener.limits.counts() }

// Counters returns the counters of each kind of agent, by name of its provider.
func (m Metrics) Counters() map[string]*runnel.Counters { return m.g.opener.counters }

// Prewarmed returns the counts of prewarmed agents.
func (m Metrics) Prewarmed() prewarm.Stats { return m.g.pool.Stats() }
