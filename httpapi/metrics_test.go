package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
)

// measured returns the lines of the metrics.
func (rg *rig) measured() []string {
	rg.t.Helper()
	return strings.Split(rg.do("GET", "/metrics", "").Body.String(), "\n")
}

func (rg *rig) wantMetrics(lines ...string) {
	rg.t.Helper()
	got := rg.measured()
	for _, line := range lines {
		if !slices.Contains(got, line) {
			name, _, _ := strings.Cut(line, "{")
			var near []string
			for _, l := range got {
				if strings.HasPrefix(l, name) {
					near = append(near, l)
				}
			}
			rg.t.Errorf("no %s, but\n%s", line, strings.Join(near, "\n"))
		}
	}
}

// untilPending waits until people may answer an approval of a session.
func (rg *rig) untilPending(id string) {
	rg.t.Helper()
	for version := int64(-1); ; {
		_, now := rg.gw.Changes(version)
		version = now
		st, err := rg.gw.Status(rg.t.Context(), id)
		if err != nil {
			rg.t.Fatal(err)
		}
		if len(st.PendingApprovals) > 0 {
			return
		}
		<-rg.gw.Changed(version)
	}
}

func TestMetricsCountTurnsByOutcome(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	rg.events(id, rg.prompt(id, "text"))
	rg.events(id, rg.prompt(id, "fail"))
	rg.events(id, rg.prompt(id, `{"steps":[{"fail":{"code":"MADE_UP","message":"no code of ours"}}]}`))
	turn := rg.prompt(id, "hang")
	rg.until(id, func(ev event.Event) bool { return ev.Turn == turn && is[event.ItemDone](ev) })
	rg.do("POST", "/api/session/"+id+"/cancel", "{}")
	rg.events(id, turn)
	rg.wantMetrics(
		`runnel_turns_total{agent="script",code="",outcome="completed"} 1`,
		`runnel_turns_total{agent="script",code="AGENT_ERROR",outcome="failed"} 1`,
		`runnel_turns_total{agent="script",code="OTHER",outcome="failed"} 1`,
		`runnel_turns_total{agent="script",code="",outcome="cancelled"} 1`,
	)
}

func TestMetricsCountAbandonedRequests(t *testing.T) {
	rg := newRig(t)
	rg.router.add(&route{method: "GET", path: "/api/slow", scope: auth.Read, serve: func(_ http.ResponseWriter, r *http.Request) error { return context.Cause(r.Context()) }})
	ctx, end := context.WithCancel(t.Context())
	end()
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("got %v", p)
			}
		}()
		rg.ServeHTTP(httptest.NewRecorder(), rg.request("GET", "/api/slow", "").WithContext(ctx))
	}()
	rg.wantMetrics(
		`runnel_http_requests_total{route="/api/slow",status="0"} 1`,
		`runnel_http_request_seconds_count{route="/api/slow"} 1`,
	)
}

// Unknown error codes of agents share one label, so that the number of metrics
// is bounded.
func TestMetricsOfTurnsAreBounded(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	for i := range 200 {
		rg.events(id, rg.prompt(id, fmt.Sprintf(`{"steps":[{"fail":{"code":"C%d","message":"m"}}]}`, i)))
	}
	n := 0
	for _, line := range rg.measured() {
		if strings.HasPrefix(line, "runnel_turns_total{") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d metrics of turns, want one", n)
	}
	rg.wantMetrics(`runnel_turns_total{agent="script",code="OTHER",outcome="failed"} 200`)
}

func TestMetricsCountApprovals(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	rg.wantMetrics(`runnel_approvals_open 0`)
	a := rg.asked(id, "make")
	rg.untilPending(id)
	rg.wantMetrics(`runnel_approvals_open 1`)
	call[any](rg, "POST", "/api/session/"+id+"/approvals/"+a.ID, fmt.Sprintf(`{"choice":"allow","argumentsDigest":%q}`, a.ArgumentsDigest), 200)
	turn, _, _ := strings.Cut(a.ID, ":")
	rg.events(id, turn)
	a = rg.asked(id, "make clean")
	call[any](rg, "POST", "/api/session/"+id+"/approvals/"+a.ID, `{"choice":"deny"}`, 200)
	turn, _, _ = strings.Cut(a.ID, ":")
	rg.events(id, turn)
	rg.addRule(`{"effect":"allow","kind":"execute","pattern":"ls"}`, 201)
	rg.events(id, rg.prompt(id, asks("ls")))
	rg.events(id, rg.prompt(id, "withdraw"))
	rg.wantMetrics(
		`runnel_approvals_open 0`,
		`runnel_approvals_total{by="user",decision="allow_once",source=""} 1`,
		`runnel_approvals_total{by="user",decision="deny",source=""} 1`,
		`runnel_approvals_total{by="policy",decision="allow_once",source="rules"} 1`,
		`runnel_approvals_total{by="agent",decision="withdrawn",source=""} 1`,
	)
}

// An agent that ends during a turn is started again for the next one.
func TestMetricsCountAgents(t *testing.T) {
	rg := newRig(t)
	rg.wantMetrics(`runnel_agents{agent="script"} 0`)
	id := rg.create()
	rg.events(id, rg.prompt(id, "text"))
	rg.wantMetrics(`runnel_agents{agent="script"} 1`, `runnel_agent_starts_total{agent="script",how="new"} 1`)
	rg.events(id, rg.prompt(id, "crash"))
	rg.events(id, rg.prompt(id, "text"))
	rg.wantMetrics(
		`runnel_agents{agent="script"} 1`,
		`runnel_agent_starts_total{agent="script",how="new"} 1`, `runnel_agent_starts_total{agent="script",how="resumed"} 1`,
		`runnel_turns_total{agent="script",code="PROCESS_CRASH",outcome="failed"} 1`,
	)
}

func TestMetricsCountRefusals(t *testing.T) {
	s := serve(t)
	s.do("GET", "/api/session/none/status", "")
	s.do("GET", "/api/session/none/status", "")
	s.do("GET", "/api/me", "", anonymous)
	p := s.dial()
	p.send(`{"type":"session:subscribe","sessionId":"none"}`)
	p.await("error")
	s.wantMetrics(`runnel_refusals_total{code="SESSION_NOT_FOUND"} 3`, `runnel_refusals_total{code="UNAUTHORIZED"} 1`)
}

// answeredTurn streams a turn that waits until its reader answers an approval.
func (s *site) answeredTurn(id string) {
	s.t.Helper()
	body, _ := json.Marshal(map[string]string{"sessionId": id, "message": asks("make")})
	res := s.roundTrip("POST", "/api/harness/turn", string(body))
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if lines.Text() == "event: permission:request" {
			a := s.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
			call[any](s.rig, "POST", "/api/session/"+id+"/approvals/"+a.ID, `{"choice":"deny"}`, 200)
		}
	}
	if err := lines.Err(); err != nil {
		s.t.Error(err)
	}
}

// A reader's lag is measured for events after it connected, not for history.
func TestMetricsMeasureLagByFamily(t *testing.T) {
	s := serve(t)
	id := s.create()
	s.events(id, s.prompt(id, "text"))
	lags := regexp.MustCompile(`^runnel_stream_lag_seconds_count\{family="([^"]+)"\} [1-9]\d*$`)
	measured := func() map[string]bool {
		out := make(map[string]bool)
		for _, line := range s.measured() {
			if m := lags.FindStringSubmatch(line); m != nil {
				out[m[1]] = true
			}
		}
		return out
	}
	readers := map[string]*peer{"upsert-v1": s.subscribed("upsert-v1", id), "events-v1": s.subscribed("events-v1", id)}
	if got := measured(); len(got) != 0 {
		t.Errorf("history has a lag: %v", got)
	}
	s.answeredTurn(id)
	for f := readers["upsert-v1"].await("session:turn"); !strings.Contains(string(f.Payload), "turn_complete"); f = readers["upsert-v1"].await("session:turn") {
	}
	for f := readers["events-v1"].await("session:event"); !strings.Contains(string(f.Payload), "response_done"); f = readers["events-v1"].await("session:event") {
	}
	for _, p := range readers { // the lag is measured after the write, and the answer to this message is sent later
		p.send(`{"type":"session:unsubscribe","requestId":"u","sessionId":%q}`, id)
		p.await("response")
	}
	if got := measured(); !got["upsert-v1"] || !got["events-v1"] || !got["sse-turn"] {
		t.Errorf("lags of %v", got)
	}
}

// A describedMetric is a metric that the server may export.
type describedMetric struct{ labels []string }

func (rg *rig) describedMetrics() map[string]describedMetric {
	rg.t.Helper()
	ch := make(chan *prometheus.Desc)
	go func() { defer close(ch); rg.metrics.registry.Describe(ch) }()
	form := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	out := make(map[string]describedMetric)
	for d := range ch {
		m := form.FindStringSubmatch(d.String())
		if m == nil {
			rg.t.Fatalf("unreadable: %s", d)
		}
		out[m[1]] = describedMetric{strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })}
	}
	return out
}

// The page about operations lists every metric of the server with its labels,
// and no others.
func TestMetricsAreDocumented(t *testing.T) {
	rg := newRig(t)
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `(runnel_\\w+)` \\|([^|]*)\\|").FindAllStringSubmatch(string(page), -1) {
		got[m[1]] = strings.TrimSpace(strings.ReplaceAll(m[2], "`", ""))
	}
	want := make(map[string]string)
	for name, d := range rg.describedMetrics() {
		if strings.HasPrefix(name, "runnel_") {
			want[name] = strings.Join(d.labels, ", ")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Every query of the dashboard uses existing metrics and labels, and every
// metric of the server is in a query.
func TestDashboardAsksForMetricsThatExist(t *testing.T) {
	rg := newRig(t)
	data, err := os.ReadFile("../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	exist, asked := rg.describedMetrics(), make(map[string]bool)
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			for _, problem := range checkQuery(q.Expr, exist, asked) {
				t.Errorf("%s: %s in %s", p.Title, problem, q.Expr)
			}
		}
	}
	for name := range exist {
		if strings.HasPrefix(name, "runnel_") && !asked[name] {
			t.Errorf("no panel has %s", name)
		}
	}
	for query, want := range map[string]string{
		`sum(rate(runnel_turn_total[5m]))`:                "there is no runnel_turn_total",
		`sum by (model) (runnel_turns_total)`:             "runnel_turns_total has no label model",
		`runnel_turns_total{outcome="failed",status="x"}`: "runnel_turns_total has no label status",
	} {
		if got := strings.Join(checkQuery(query, exist, asked), ""); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
}

// checkQuery returns what is wrong with a query of one metric. It adds the
// metric to asked.
func checkQuery(query string, exist map[string]describedMetric, asked map[string]bool) (problems []string) {
	m := regexp.MustCompile(`\b(runnel|process)_\w+`).FindString(query)
	name := m
	if _, ok := exist[name]; !ok {
		name = strings.TrimSuffix(m, "_bucket")
	}
	d, ok := exist[name]
	if !ok {
		return []string{"there is no " + m}
	}
	asked[name] = true
	var labels []string
	for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(query, -1) {
		labels = append(labels, strings.FieldsFunc(by[1], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	for _, eq := range regexp.MustCompile(`(\w+)=~?"`).FindAllStringSubmatch(query, -1) {
		labels = append(labels, eq[1])
	}
	for _, label := range labels {
		if own := label == "instance" || label == "le" && name != m; !own && !slices.Contains(d.labels, label) {
			problems = append(problems, name+" has no label "+label)
		}
	}
	return problems
}
