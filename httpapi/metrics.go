package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/conns"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// metrics holds the server's metrics. Their labels contain no sessions,
// directories or callers.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	refusals  *prometheus.CounterVec
	connected *prometheus.CounterVec
	streams   *prometheus.GaugeVec
	messages  *prometheus.CounterVec
	stalled   prometheus.Counter
	lag       *prometheus.HistogramVec
	answers   *prometheus.CounterVec
	limits    limitCounts
	conns     *connCollector
	handler   http.Handler
}

func newMetrics(gw *gateway.Gateway) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "runnel_http_requests_total", Help: "HTTP requests, by route and status."}, []string{"route", "status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "runnel_http_request_seconds", Help: "Duration of HTTP requests in seconds, by route; streams are not included.",
			Buckets: []float64{.0005, .001, .005, .01, .05, .1, .5, 1, 5}}, []string{"route"}),
		refusals:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "runnel_auth_refusals_total", Help: "Requests that were refused because of their credential or sender, by reason."}, []string{"reason"}),
		connected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "runnel_stream_connections_total", Help: "Streams opened, by family."}, []string{"family"}),
		streams:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "runnel_streams", Help: "Streams open now, by family."}, []string{"family"}),
		messages:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "runnel_stream_messages_total", Help: "Messages written to streams, by family."}, []string{"family"}),
		stalled:   prometheus.NewCounter(prometheus.CounterOpts{Name: "runnel_streams_stalled_total", Help: "Streams closed because the client stopped reading."}),
		lag: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "runnel_stream_lag_seconds",
			Help:    "Age of new events when they were written to a stream, by family (upsert-v1: when they were read): the oldest of each batch.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30}}, []string{"family"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "runnel_refusals_total", Help: "Errors sent to clients, by code."}, []string{"code"}),
		conns:   new(connCollector),
	}
	m.registry.MustRegister(m.requests, m.latency, m.refusals, m.connected, m.streams, m.messages, m.stalled, m.lag, m.answers, m.conns,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &sessionCollector{gateway.MetricsOf(gw), &m.limits})
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

// reached adds one to the count of how often a setting's limit was reached.
func (m *metrics) reached(setting string) { m.limits.add(setting) }

// refuse counts that the limit of one credential or one connection was reached,
// and returns the error for the request that exceeds it.
func (m *metrics) refuse(setting string, limit int64, what string) error {
	m.reached(setting)
	return &runnel.Error{
		Code: runnel.RateLimited, Message: fmt.Sprintf("%s (%s: %d)", what, setting, limit),
		Details: map[string]any{"limit": setting, "value": limit},
	}
}

// limitCounts counts, for each setting, how often its limit was reached.
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

// listening adds a listener whose connections are counted.
func (m *metrics) listening(l *conns.Listener) {
	m.conns.mu.Lock()
	defer m.conns.mu.Unlock()
	m.conns.list = append(m.conns.list, l)
}

// connCollector collects the connections of all listeners at each scrape.
type connCollector struct {
	mu   sync.Mutex
	list []*conns.Listener
}

// counts returns how many connections are open, and on how many of them no
// credential was accepted yet.
func (d *connCollector) counts() (open, unauthenticated int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.list {
		o, u := l.Counts()
		open, unauthenticated = open+o, unauthenticated+u
	}
	return open, unauthenticated
}

func connectionsDesc() *prometheus.Desc {
	return prometheus.NewDesc("runnel_connections", "Open connections: all of them (open), and those on which no credential was accepted yet (unauthenticated).", []string{"which"}, nil)
}

// Describe implements [prometheus.Collector].
func (d *connCollector) Describe(out chan<- *prometheus.Desc) { out <- connectionsDesc() }

// Collect implements [prometheus.Collector].
func (d *connCollector) Collect(out chan<- prometheus.Metric) {
	open, unauthenticated := d.counts()
	out <- prometheus.MustNewConstMetric(connectionsDesc(), prometheus.GaugeValue, float64(open), "open")
	out <- prometheus.MustNewConstMetric(connectionsDesc(), prometheus.GaugeValue, float64(unauthenticated), "unauthenticated")
}

// answered counts an error that a client gets.
func (m *metrics) answered(code runnel.Code) {
	m.answers.WithLabelValues(knownCode(string(code))).Inc()
}

// knownCode returns code unchanged if it is one of the codes with an HTTP
// status, and gateway.OtherCode otherwise.
func knownCode(code string) string {
	if code != "" && reply.StatusOf(runnel.Code(code)) == 0 {
		return gateway.OtherCode
	}
	return code
}

func (m *metrics) refused(reason string) { m.refusals.WithLabelValues(reason).Inc() }

// ofStreams returns the metrics that streams update.
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
		Lag: func(family string) func(time.Duration) {
			h := m.lag.WithLabelValues(family)
			return func(d time.Duration) { h.Observe(d.Seconds()) }
		},
	}
}

func (m *metrics) serve(w http.ResponseWriter, r *http.Request) error {
	m.handler.ServeHTTP(w, r)
	return nil
}
