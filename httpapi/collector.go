package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/runnel-dev/runnel/gateway"
)

// A sessionCollector reads metrics from the gateway each time Prometheus
// scrapes the server.
type sessionCollector struct {
	metrics gateway.Metrics
	limits  *limitCounts
}

func limitDesc() *prometheus.Desc {
	return prometheus.NewDesc("runnel_limit_reached_total", "How often a limit refused or ended something, by the setting of the limit.", []string{"limit"}, nil)
}

func sessionsDesc() *prometheus.Desc {
	return prometheus.NewDesc("runnel_sessions", "Open sessions: all of them (open), those with a running agent (alive), those with a running turn (working).", []string{"which"}, nil)
}

func prewarmDescs() (ready, sessions, agents *prometheus.Desc) {
	return prometheus.NewDesc("runnel_prewarm_ready", "Prewarmed agents that are ready for a session.", nil, nil),
		prometheus.NewDesc("runnel_prewarm_sessions_total", "New sessions that received a prewarmed agent (hit) or started a new agent (miss).", []string{"result"}, nil),
		prometheus.NewDesc("runnel_prewarm_agents_total", "Prewarmed agents that were started (started), that did not start or exited unused (failed), or that were stopped unused (unused).", []string{"what"}, nil)
}

func droppedDesc() *prometheus.Desc {
	return prometheus.NewDesc("runnel_agent_dropped_total",
		"Agent output that was dropped: events that were invalid, repeated or after the end of their turn; messages that Runnel does not use; lines that were too long or could not be decoded.",
		[]string{"agent", "what"}, nil)
}

func unknownDesc() *prometheus.Desc {
	return prometheus.NewDesc("runnel_unknown_native_messages_total",
		"Messages of agents whose type Runnel does not know, by type; a newer version of the agent may have added it. After 64 types of an agent, further types are counted as other.",
		[]string{"agent", "type"}, nil)
}

func tallyDescs() (turns, open, approvals, up, starts *prometheus.Desc) {
	return prometheus.NewDesc("runnel_turns_total", "Turns that ended, by outcome: completed, cancelled or failed; failed turns also by error code.", []string{"agent", "outcome", "code"}, nil),
		prometheus.NewDesc("runnel_approvals_open", "Approvals that are waiting for an answer.", nil, nil),
		prometheus.NewDesc("runnel_approvals_total", "Approvals that were resolved, by who decided (by) and the decision; for decisions by policy, also by the policy's source.", []string{"by", "source", "decision"}, nil),
		prometheus.NewDesc("runnel_agents", "Agents running in sessions.", []string{"agent"}, nil),
		prometheus.NewDesc("runnel_agent_starts_total", "Agents that a session received: started for a new conversation (new), started to resume one (resumed), or taken over from the previous server (taken_over).", []string{"agent", "how"}, nil)
}

// collectSessions collects the metrics of sessions, turns and approvals.
func (c *sessionCollector) collectSessions(out chan<- prometheus.Metric) {
	turns, open, approvals, up, starts := tallyDescs()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, n, labels...)
	}
	now, d := c.metrics.Census(), sessionsDesc()
	send(d, prometheus.GaugeValue, float64(now.Open), "open")
	send(d, prometheus.GaugeValue, float64(now.Alive), "alive")
	send(d, prometheus.GaugeValue, float64(now.Working), "working")
	send(open, prometheus.GaugeValue, float64(now.Approvals))
	for agent, n := range now.Agents {
		send(up, prometheus.GaugeValue, float64(n), agent)
	}
	past, ends := c.metrics.Tally(), make(map[gateway.TurnEnd]int64)
	for end, n := range past.Turns {
		end.Code = knownCode(end.Code)
		ends[end] += n
	}
	for end, n := range ends {
		send(turns, prometheus.CounterValue, float64(n), end.Agent, end.Outcome, end.Code)
	}
	for end, n := range past.Approvals {
		send(approvals, prometheus.CounterValue, float64(n), string(end.By), end.Source, end.Decision)
	}
	for s, n := range past.Starts {
		send(starts, prometheus.CounterValue, float64(n), s.Agent, s.How)
	}
}

// Describe implements [prometheus.Collector].
func (c *sessionCollector) Describe(out chan<- *prometheus.Desc) {
	ready, sessions, agents := prewarmDescs()
	turns, open, approvals, up, starts := tallyDescs()
	for _, d := range []*prometheus.Desc{sessionsDesc(), ready, sessions, agents, droppedDesc(), unknownDesc(), limitDesc(), turns, open, approvals, up, starts} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *sessionCollector) Collect(out chan<- prometheus.Metric) {
	c.collectSessions(out)
	p := c.metrics.Prewarmed()
	ready, sessions, agents := prewarmDescs()
	out <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, float64(p.Ready))
	out <- prometheus.MustNewConstMetric(sessions, prometheus.CounterValue, float64(p.Hits), "hit")
	out <- prometheus.MustNewConstMetric(sessions, prometheus.CounterValue, float64(p.Misses), "miss")
	out <- prometheus.MustNewConstMetric(agents, prometheus.CounterValue, float64(p.Started), "started")
	out <- prometheus.MustNewConstMetric(agents, prometheus.CounterValue, float64(p.Failed), "failed")
	out <- prometheus.MustNewConstMetric(agents, prometheus.CounterValue, float64(p.Unused), "unused")
	dropped := droppedDesc()
	for _, limits := range []map[string]int64{c.metrics.LimitsReached(), c.limits.counts()} { // no setting occurs in both
		for setting, n := range limits {
			out <- prometheus.MustNewConstMetric(limitDesc(), prometheus.CounterValue, float64(n), setting)
		}
	}
	for agent, n := range c.metrics.Counters() {
		out <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(n.Events.Load()), agent, "event")
		out <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(n.Messages.Load()), agent, "message")
		out <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(n.Lines.Load()), agent, "line")
		for typ, n := range n.Unknown() {
			out <- prometheus.MustNewConstMetric(unknownDesc(), prometheus.CounterValue, float64(n), agent, typ)
		}
	}
}
