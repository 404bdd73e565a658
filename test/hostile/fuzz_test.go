//go:build linux

package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testapi"
	"github.com/runnel-dev/runnel/internal/testload"
)

// fuzzTime returns how long a fuzzer runs: RUNNEL_FUZZ, or ten minutes with
// RUNNEL_LONG, or one second.
func fuzzTime(t *testing.T) time.Duration {
	t.Helper()
	if s := os.Getenv("RUNNEL_FUZZ"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if long() {
		return 10 * time.Minute
	}
	return time.Second
}

// warmUp returns how long a fuzzer that runs for d runs before it measures what
// the server holds. In this time the server does everything once.
func warmUp(d time.Duration) time.Duration { return min(max(d, 2*time.Second), 30*time.Second) }

// fuzzSeed returns RUNNEL_FUZZ_SEED, or a new seed. The seed decides what each
// worker sends, but not the ids in it and not the order of the workers, which
// depend on the server.
func fuzzSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("RUNNEL_FUZZ_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("the seed is %d: give it again with RUNNEL_FUZZ_SEED=%d", seed, seed)
	return seed
}

const (
	fuzzWorkers = 4
	fuzzFaults  = 10 // number of faults after which a fuzzer stops
)

// A fuzzer sends requests to a world's server.
type fuzzer struct {
	*world
	admin  string // a token with every scope that no fuzzed request uses
	doc    *apiDocument
	pool   *valuePool
	client *http.Client
	tls    *tls.Config // nil without TLS
	keys   []credential
	faults atomic.Int32
	sent   atomic.Int64
	counts sync.Map // number of responses, by status: *atomic.Int64
}

// A credential is what a request authenticates with.
type credential struct {
	name   string
	header http.Header
	host   string // Host header; "" for the server's address
}

// newFuzzer starts a server, with TLS if secure is true, makes credentials, and
// reads the server's OpenAPI document.
func newFuzzer(t *testing.T, secure bool) *fuzzer {
	t.Helper()
	w := newWorld(t, nil, "60s")
	f := &fuzzer{world: w, client: &http.Client{}}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: fuzzWorkers, MaxResponseHeaderBytes: 64 << 10}
	f.client.Transport = transport
	f.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	f.flags = []string{"--max-agents", "6", "--max-new-sessions-per-credential", "60", "--max-exports-per-credential", "100", "--max-file-requests-per-credential", "1000000"}
	if secure {
		cert, key := certificate(w)
		for path, text := range map[string]string{w.dir + "/cert.pem": cert, w.dir + "/key.pem": key} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f.flags = append(f.flags, "--tls-cert", w.dir+"/cert.pem", "--tls-key", w.dir+"/key.pem")
		f.tls = &tls.Config{InsecureSkipVerify: true}
		transport.TLSClientConfig, transport.ForceAttemptHTTP2 = f.tls.Clone(), true
	}
	if err := os.WriteFile(filepath.Join(w.project, "note.txt"), []byte("a note\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.pool = newValuePool(w)
	f.tokens()
	w.start()
	if !secure {
		f.browser()
	}
	res, body := f.get("/openapi.json")
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the document: %s", res.Status)
	}
	var err error
	if f.doc, err = parseDocument(body); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.client.CloseIdleConnections)
	return f
}

func (f *fuzzer) scheme() string {
	if f.tls != nil {
		return "https"
	}
	return "http"
}

// tokens makes tokens with various scopes, and adds them and invalid ones to
// the credentials.
func (f *fuzzer) tokens() {
	bearer := func(name string, values ...string) {
		f.keys = append(f.keys, credential{name: name, header: http.Header{"Authorization": values}})
	}
	make := func(name string, args ...string) string {
		return "Bearer " + f.runnel(append([]string{"token", "create", strings.ReplaceAll(name, " ", "-"), "--data", f.data}, args...)...)
	}
	f.admin = make("watcher", "--scope", "read,send,approve,admin")
	all := make("all scopes", "--scope", "read,send,approve,admin")
	bearer("all scopes", all) // keys[0], for requests that must reach their handlers
	for _, scope := range []string{"read", "send", "approve", "admin"} {
		bearer(scope, make(scope, "--scope", scope))
	}
	bearer("one project", make("one project", "--scope", "read,send,approve", "--project", f.project))
	bearer("two credentials", all, all)
	bearer("a guess", "Bearer rnl_"+strings.Repeat("0", 43))
	bearer("junk", "Basic \xff")
	f.keys = append(f.keys, credential{name: "nothing"})
}

// browser logs a browser in and adds its credential, complete and without its
// key.
func (f *fuzzer) browser() {
	both, _ := f.browse(f.link())
	cookie, key, _ := strings.Cut(both, " ")
	origin, _ := f.pageAndCode()
	_, host, _ := strings.Cut(origin, "://")
	page := http.Header{"Cookie": {"runnel_session=" + cookie}, "Runnel-Key": {key}, "Origin": {origin}, "Sec-Fetch-Site": {"same-origin"}}
	halved := page.Clone()
	halved.Del("Runnel-Key")
	f.keys = append(f.keys, credential{"browser", page, host}, credential{"browser", page, host}, credential{"half a browser", halved, host})
}

// get sends a GET request with the token admin.
func (f *fuzzer) get(path string) (*http.Response, []byte) {
	f.t.Helper()
	return f.ask("GET", path, nil)
}

func (f *fuzzer) ask(method, path string, body io.Reader) (*http.Response, []byte) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testapi.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, f.scheme()+"://"+f.Addr+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {f.admin}, "Content-Type": {"application/json"}}
	res, err := f.client.Do(req)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res, answer
}

// dial opens a connection to the server.
func (f *fuzzer) dial() (net.Conn, error) {
	if f.tls != nil {
		return tls.Dial("tcp", f.Addr, f.tls) // HTTP/1.1, because the handshake offers no other protocol
	}
	return net.Dial("tcp", f.Addr)
}

// fault fails the test with what is wrong, what was sent, and the response.
func (f *fuzzer) fault(what string, sent, answer []byte) {
	f.faults.Add(1)
	short := func(b []byte) string { return strconv.Quote(string(b[:min(len(b), 2000)])) }
	f.t.Errorf("%s\nsent %d bytes: %s\nanswered %s", what, len(sent), short(sent), short(answer))
}

func (f *fuzzer) answered(status int) {
	f.sent.Add(1)
	n, _ := f.counts.LoadOrStore(status, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

func (f *fuzzer) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d sent; answers", f.sent.Load())
	for status := range 6000 {
		if n, ok := f.counts.Load(status); ok {
			fmt.Fprintf(&b, " %d: %d", status, n.(*atomic.Int64).Load())
		}
	}
	return b.String()
}

// run opens the sessions and has each worker call once again and again for the
// time d. Each worker has its own random numbers.
func (f *fuzzer) run(seed uint64, d time.Duration, once func(*maker)) {
	f.t.Helper()
	f.open()
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for worker := range uint64(fuzzWorkers) {
		m := &maker{Rand: rand.New(rand.NewPCG(seed, worker)), doc: f.doc, pool: f.pool}
		all.Go(func() {
			for time.Now().Before(end) && f.faults.Load() < fuzzFaults {
				once(m)
			}
		})
	}
	all.Wait()
}

// open creates the sessions that a run begins with. One of them has a history
// and a pending approval.
func (f *fuzzer) open() {
	f.t.Helper()
	f.pool.forget("sessionId")
	m := rand.New(rand.NewPCG(0, 0))
	for _, kind := range []string{"script", "script", "script", "claude"} {
		body, err := json.Marshal(object{"cliType": kind, "projectDir": f.project})
		if err != nil {
			f.t.Fatal(err)
		}
		var made struct{ SessionID string }
		res, answer := f.ask("POST", "/api/session/create", bytes.NewReader(body))
		if err := json.Unmarshal(answer, &made); err != nil || res.StatusCode != http.StatusCreated {
			f.t.Fatalf("create: %s %s", res.Status, answer)
		}
		f.pool.add(m, "sessionId", made.SessionID)
		if kind != "claude" {
			continue
		}
		if body, err = json.Marshal(object{"content": plan{Pages: 50, Deltas: 20, Ask: true}.prompt()}); err != nil {
			f.t.Fatal(err)
		}
		if res, answer := f.ask("POST", "/api/session/"+made.SessionID+"/send", bytes.NewReader(body)); res.StatusCode != http.StatusAccepted {
			f.t.Fatalf("send: %s %s", res.Status, answer)
		}
	}
}

// fillRedactor creates as many tokens as the server remembers in order to
// redact them. Tokens of the fuzzer then replace older ones and take no more
// memory. It does nothing before a run of less than a minute, in which the fuzzer
// makes few tokens.
func (f *fuzzer) fillRedactor(d time.Duration) {
	f.t.Helper()
	const remembered = 512
	if d < time.Minute {
		return
	}
	inEights(remembered, func(int) {
		if res, answer := f.ask("POST", "/api/tokens", strings.NewReader(`{"name":"remembered","scopes":["read"]}`)); res.StatusCode != http.StatusCreated {
			f.t.Errorf("token: %s %s", res.Status, answer)
		}
	})
}

// holding is what a server holds after a garbage collection.
type holding struct {
	heap, resident  float64 // bytes
	goroutines, fds float64
}

func (h holding) String() string {
	return fmt.Sprintf("%.1f MiB of heap, %.1f MiB resident, %.0f goroutines, %.0f descriptors", h.heap/(1<<20), h.resident/(1<<20), h.goroutines, h.fds)
}

// measure deletes all sessions and returns the least that the server holds in
// several samples, each after a garbage collection.
func (f *fuzzer) measure() holding {
	f.t.Helper()
	f.deleteAll()
	f.client.CloseIdleConnections()
	var least holding
	for i := range 12 {
		h := f.collected()
		if i == 0 {
			least = h
		}
		least = holding{min(least.heap, h.heap), min(least.resident, h.resident), min(least.goroutines, h.goroutines), min(least.fds, h.fds)}
	}
	return least
}

// collected sends large requests until the server has collected its garbage
// twice, and returns what the server holds then.
func (f *fuzzer) collected() holding {
	f.t.Helper()
	large := strings.Repeat(" ", 1<<20-1) // the server reads it and then rejects it
	_, metrics := f.get("/metrics")
	before := f.sample(metrics, "go_gc_duration_seconds_count")
	for f.sample(metrics, "go_gc_duration_seconds_count") < before+2 {
		f.ask("POST", "/api/session/create", strings.NewReader(large))
		_, metrics = f.get("/metrics")
	}
	resident, _ := rss(f.cmd.Process.Pid)
	fds, _ := descriptors(f.cmd.Process.Pid)
	return holding{f.sample(metrics, "go_memstats_heap_alloc_bytes"), float64(resident) * 1024, f.sample(metrics, "go_goroutines"), fds}
}

// sample returns a value of the text of /metrics.
func (f *fuzzer) sample(metrics []byte, name string) float64 {
	f.t.Helper()
	_, rest, ok := bytes.Cut(metrics, []byte("\n"+name+" "))
	var n float64
	if _, err := fmt.Sscan(string(rest), &n); !ok || err != nil {
		f.t.Fatalf("no metric %s: %v", name, err)
	}
	return n
}

// deleteAll deletes every session.
func (f *fuzzer) deleteAll() {
	f.t.Helper()
	_, body := f.get("/api/session/list?projectId=*&all=1")
	var list struct {
		Sessions []struct{ SessionID string }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		f.t.Fatalf("sessions: %v", err)
	}
	for _, s := range list.Sessions {
		f.ask("POST", "/api/session/"+s.SessionID+"/kill", strings.NewReader("{}"))
		if res, answer := f.ask("DELETE", "/api/harness/session/"+s.SessionID, nil); res.StatusCode != http.StatusOK {
			f.t.Errorf("delete: %s %s", res.Status, answer)
		}
	}
}

// settleTime is how long the server may take to end connections and agents, and
// to return memory to the system.
const settleTime = 30 * time.Second

// cached is by how many bytes caches may grow. It is added to the fifth of the
// heap that settles allows, because a fifth of an idle server's heap is less
// than a megabyte.
const cached = 4 << 20

// stacks kills the server with SIGQUIT and returns the stacks of its
// goroutines.
func (f *fuzzer) stacks() string {
	said := len(f.stderr.String())
	if err := f.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		f.t.Fatal(err)
	}
	_ = f.cmd.Wait() // the server ends with an error
	return f.stderr.String()[said:]
}

// settles checks that the server is healthy, has logged no error, and releases
// what it has taken since before was measured.
func (f *fuzzer) settles(before holding) {
	f.t.Helper()
	if res, _ := f.get("/api/health"); res.StatusCode != http.StatusOK {
		f.t.Errorf("health: %s", res.Status)
	}
	tick := time.NewTicker(500 * time.Millisecond) // each sample takes the server some processor time
	defer tick.Stop()
	after := f.measure()
	back := func(after, before float64) bool { return after <= before*1.2+cached }
	fits := func() bool {
		return back(after.heap, before.heap) && back(after.resident, before.resident) && after.goroutines <= before.goroutines+2 && after.fds <= before.fds+2
	}
	for deadline := time.Now().Add(testload.Room(settleTime)); !fits() && time.Now().Before(deadline); <-tick.C {
		f.deleteAll() // a request whose connection was cut may have created a session after the first deletion
		h := f.collected()
		after = holding{min(after.heap, h.heap), min(after.resident, h.resident), min(after.goroutines, h.goroutines), min(after.fds, h.fds)}
	}
	f.t.Logf("before: %v; after: %v", before, after)
	if !fits() {
		f.t.Errorf("the server does not give back what it took; its goroutines:\n%s", f.stacks())
		return
	}
	f.logsNoError()
}

// logsNoError checks that the server has logged neither errors nor panics.
func (f *fuzzer) logsNoError() {
	f.t.Helper()
	for line := range strings.Lines(f.stderr.String()) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "panic") {
			f.t.Errorf("logged: %.2000s", line)
		}
	}
}
