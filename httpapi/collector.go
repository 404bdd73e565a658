package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/runnel-dev/runnel/gateway"
)

// A sessionCollector reads the gateway's metrics at each scrape.
type sessionCollector struct {
	gw     *gateway.Gateway
	limits *limitCounts
}

func limitDesc() *prometheus.Desc {
	return prometheus.NewDesc("runnel_limit_reached_total", "What was refused or ended because of a limit, by the name of its setting.", []string{"limit"}, nil)
}

func sessionsDesc() *prometheus.Desc {
	return prometheus.NewDesc("runnel_sessions", "Open sessions: all, those with an agent, those in a turn.", []string{"which"}, nil)
}

func prewarmDescs() (ready, sessions, agents *prometheus.Desc) {
	return prometheus.NewDesc("runnel_prewarm_ready", "Agents that wait for a session.", nil, nil),
		prometheus.NewDesc("runnel_prewarm_sessions_total", "New sessions: those that got a prewarmed agent (hit), those that started their own (miss).", []string{"result"}, nil),
		prometheus.NewDesc("runnel_prewarm_agents_total", "Agents kept ready: those started, those that failed, those ended unused.", []string{"what"}, nil)
}

func droppedDesc() *prometheus.Desc {
	return prometheus.NewDesc("runnel_agent_dropped_total",
		"What agents print and no log records: events after the end of their turn, invalid or repeated; messages without a meaning for Runnel; lines that are too long or cannot be decoded.",
		[]string{"agent", "what"}, nil)
}

func tallyDescs() (turns, open, approvals, up, starts *prometheus.Desc) {
	return prometheus.NewDesc("runnel_turns_total", "Turns that ended: completed, cancelled or failed; failed ones by the code of the error.", []string{"agent", "outcome", "code"}, nil),
		prometheus.NewDesc("runnel_approvals_open", "Approvals that wait for an answer.", nil, nil),
		prometheus.NewDesc("runnel_approvals_total", "Approvals that were resolved, by who decided and what; by policy also which source of policies.", []string{"by", "source", "decision"}, nil),
		prometheus.NewDesc("runnel_agents", "Agents that run in sessions.", []string{"agent"}, nil),
		prometheus.NewDesc("runnel_agent_starts_total", "Agents that came to a session: for a new conversation, resumed after their end, taken over from the server before.", []string{"agent", "how"}, nil)
}

// collectSessions collects the metrics of sessions, turns and approvals.
func (c *sessionCollector) collectSessions(out chan<- prometheus.Metric) {
	turns, open, approvals, up, starts := tallyDescs()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, n, labels...)
	}
	now, d := c.gw.Census(), sessionsDesc()
	send(d, prometheus.GaugeValue, float64(now.Open), "open")
	send(d, prometheus.GaugeValue, float64(now.Alive), "alive")
	send(d, prometheus.GaugeValue, float64(now.Working), "working")
	send(open, prometheus.GaugeValue, float64(now.Approvals))
	for agent, n := range now.Agents {
		send(up, prometheus.GaugeValue, float64(n), agent)
	}
	past, ends := c.gw.Tally(), make(map[gateway.TurnEnd]int64)
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
	for _, d := range []*prometheus.Desc{sessionsDesc(), ready, sessions, agents, droppedDesc(), limitDesc(), turns, open, approvals, up, starts} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *sessionCollector) Collect(out chan<- prometheus.Metric) {
	c.collectSessions(out)
	p := c.gw.Prewarmed()
	ready, sessions, agents := prewarmDescs()
	out <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, float64(p.Ready))
	out <- prometheus.MustNewConstMetric(sessions, prometheus.CounterValue, float64(p.Hits), "hit")
	out <- prometheus.MustNewConstMetric(sessions, prometheus.CounterValue, float64(p.Misses), "miss")
	out <- prometheus.MustNewConstMetric(agents, prometheus.CounterValue, float64(p.Started), "started")
	out <- prometheus.MustNewConstMetric(agents, prometheus.CounterValue, float64(p.Failed), "failed")
	out <- prometheus.MustNewConstMetric(agents, prometheus.CounterValue, float64(p.Unused), "unused")
	dropped := droppedDesc()
	for _, limits := range []map[string]int64{c.gw.LimitsReached(), c.limits.counts()} { // no setting occurs in both
		for setting, n := range limits {
			out <- prometheus.MustNewConstMetric(limitDesc(), prometheus.CounterValue, float64(n), setting)
		}
	}
	for agent, n := range c.gw.Counters() {
		out <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(n.Events.Load()), agent, "event")
		out <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(n.Messages.Load()), agent, "message")
		out <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(n.Lines.Load()), agent, "line")
	}
}
