package httpapi

import (
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/conns"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// metrics counts without names of sessions, directories or callers.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	refusals  *prometheus.CounterVec
	connected *prometheus.CounterVec
	streams   *prometheus.GaugeVec
	messages  *prometheus.CounterVec
	stalled   prometheus.Counter
	limits    limitCounts
	doors     *doors
	handler   http.Handler
}

func newMetrics(gw *gateway.Gateway) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "runnel_http_requests_total", Help: "Requests by route and status."}, []string{"route", "status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "runnel_http_request_seconds", Help: "Time to answer, without streams.",
			Buckets: []float64{.0005, .001, .005, .01, .05, .1, .5, 1, 5}}, []string{"route"}),
		refusals:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "runnel_auth_refusals_total", Help: "Requests without a usable credential."}, []string{"reason"}),
		connected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "runnel_stream_connections_total", Help: "Streams that were opened, by family."}, []string{"family"}),
		streams:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "runnel_streams", Help: "Streams that are open, by family."}, []string{"family"}),
		messages:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "runnel_stream_messages_total", Help: "Messages written to streams, by family."}, []string{"family"}),
		stalled:   prometheus.NewCounter(prometheus.CounterOpts{Name: "runnel_streams_stalled_total", Help: "Streams closed because their reader took nothing."}),
		doors:     new(doors),
	}
	m.registry.MustRegister(m.requests, m.latency, m.refusals, m.connected, m.streams, m.messages, m.stalled, m.doors,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &sessionCollector{gw, &m.limits})
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m
}

func (m *metrics) request(rt *route, status int, took time.Duration) {
	name := rt.path
	if rt.path == "/" {
		name = "other"
	}
	m.requests.WithLabelValues(name, strconv.Itoa(status)).Inc()
	if !rt.stream {
		m.latency.WithLabelValues(name).Observe(took.Seconds())
	}
}

// reached counts that the limit of a setting was reached.
func (m *metrics) reached(setting string) { m.limits.add(setting) }

// limitCounts counts how often each limit of the server was reached, by its
// setting.
type limitCounts struct {
	mu sync.Mutex
	n  map[string]int64
}

func (l *limitCounts) add(setting string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == nil {
		l.n = make(map[string]int64)
	}
	l.n[setting]++
}

func (l *limitCounts) counts() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.n)
}

// listening has the connections of a listener counted.
func (m *metrics) listening(l *conns.Listener) {
	m.doors.mu.Lock()
	defer m.doors.mu.Unlock()
	m.doors.list = append(m.doors.list, l)
}

// doors collects the connections of all listeners at each scrape.
type doors struct {
	mu   sync.Mutex
	list []*conns.Listener
}

func connectionsDesc() *prometheus.Desc {
	return prometheus.NewDesc("runnel_connections", "Connections: all that are open, and those on which no credential was accepted.", []string{"which"}, nil)
}

// Describe implements [prometheus.Collector].
func (d *doors) Describe(out chan<- *prometheus.Desc) { out <- connectionsDesc() }

// Collect implements [prometheus.Collector].
func (d *doors) Collect(out chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	open, unauthenticated := 0, 0
	for _, l := range d.list {
		o, u := l.Counts()
		open, unauthenticated = open+o, unauthenticated+u
	}
	out <- prometheus.MustNewConstMetric(connectionsDesc(), prometheus.GaugeValue, float64(open), "open")
	out <- prometheus.MustNewConstMetric(connectionsDesc(), prometheus.GaugeValue, float64(unauthenticated), "unauthenticated")
}

func (m *metrics) refused(reason string) { m.refusals.WithLabelValues(reason).Inc() }

// ofStreams returns what counts the streams.
func (m *metrics) ofStreams() stream.Metrics {
	return stream.Metrics{
		Open: func(family string) func() {
			m.connected.WithLabelValues(family).Inc()
			g := m.streams.WithLabelValues(family)
			g.Inc()
			return g.Dec
		},
		Message: func(family string) func() { return m.messages.WithLabelValues(family).Inc },
		Stalled: m.stalled.Inc,
	}
}

func (m *metrics) serve(w http.ResponseWriter, r *http.Request) error {
	m.handler.ServeHTTP(w, r)
	return nil
}

// sessionCollector asks the gateway at each scrape.
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

// Describe implements [prometheus.Collector].
func (c *sessionCollector) Describe(out chan<- *prometheus.Desc) {
	ready, sessions, agents := prewarmDescs()
	for _, d := range []*prometheus.Desc{sessionsDesc(), ready, sessions, agents, droppedDesc(), limitDesc()} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *sessionCollector) Collect(out chan<- prometheus.Metric) {
	open, alive, working := c.gw.Counts()
	d := sessionsDesc()
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(open), "open")
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(alive), "alive")
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(working), "working")
	p := c.gw.Prewarmed()
	ready, sessions, agents := prewarmDescs()
	out <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, float64(p.Ready))
	out <- prometheus.MustNewConstMetric(sessions, prometheus.CounterValue, float64(p.Hits), "hit")
	out <- prometheus.MustNewConstMetric(sessions, prometheus.CounterValue, float64(p.Misses), "miss")
	out <- prometheus.MustNewConstMetric(agents, prometheus.CounterValue, float64(p.Started), "started")
	out <- prometheus.MustNewConstMetric(agents, prometheus.CounterValue, float64(p.Failed), "failed")
	out <- prometheus.MustNewConstMetric(agents, prometheus.CounterValue, float64(p.Unused), "unused")
	dropped := droppedDesc()
	for _, limits := range []map[string]int64{c.gw.LimitsReached(), c.limits.counts()} { // no setting is in both
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
