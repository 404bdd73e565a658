//go:build linux

package hostile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testapi"
)

// raw opens a connection to the server, sends the request unchanged, and
// returns the connection.
func (w *world) raw(request string) net.Conn {
	w.t.Helper()
	// The small receive buffer makes the server hold what the client does not
	// read.
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}}
	conn, err := small.Dial("tcp", w.Addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testapi.Timeout)); err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// head returns the first lines of a request with the token of the test's
// server. The caller adds further headers and the empty line.
func (w *world) head(method, path string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: " + w.Addr + "\r\nAuthorization: Bearer " + w.Token + "\r\n"
}

// A webSocket is a client's connection on which a test can write valid and
// invalid frames.
type webSocket struct {
	net.Conn
	in *bufio.Reader
}

func (w *world) webSocket() *webSocket {
	w.t.Helper()
	conn := w.raw(w.head("GET", "/api/ws") +
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		w.t.Fatalf("upgrade: %v %v", res, err)
	}
	return &webSocket{conn, in}
}

// frame returns a masked frame of less than 64 KiB.
func frame(head byte, payload []byte) []byte {
	out := []byte{head, 0x80 | byte(len(payload))}
	if len(payload) > 125 {
		out = binary.BigEndian.AppendUint16([]byte{head, 0x80 | 126}, uint16(len(payload)))
	}
	return append(append(out, 0, 0, 0, 0), payload...) // a mask of zeros
}

func (s *webSocket) send(t *testing.T, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(frame(0x81, data)); err != nil {
		t.Fatal(err)
	}
}

// closed reads until the server closes the WebSocket, and returns the close
// code and reason.
func (s *webSocket) closed(t *testing.T) (code int, reason string) {
	t.Helper()
	for {
		var head [2]byte
		if _, err := io.ReadFull(s.in, head[:]); err != nil {
			t.Fatalf("the server closed the connection without a code: %v", err)
		}
		size := int(head[1])
		if size == 126 {
			var more [2]byte
			_, _ = io.ReadFull(s.in, more[:])
			size = int(binary.BigEndian.Uint16(more[:]))
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(s.in, payload); err != nil {
			t.Fatal(err)
		}
		if head[0] == 0x88 {
			return int(binary.BigEndian.Uint16(payload)), string(payload[2:])
		}
	}
}

// apiError is the body of an error response.
type apiError struct {
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Details struct {
			Limit string  `json:"limit"`
			Value float64 `json:"value"`
		} `json:"details"`
	} `json:"error"`
}

// metric returns the value of a sample of /metrics; zero if there is none.
func (w *world) metric(sample string) float64 {
	w.t.Helper()
	res, err := w.Do(w.t.Context(), "GET", "/metrics", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), sample+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				w.t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// limited checks that a request was rejected because of the limit in a setting,
// and that the metric counts it.
func (w *world) limited(what string, code, want int, e apiError, setting string) {
	w.t.Helper()
	if code != want || e.Error.Details.Limit != setting || !strings.Contains(e.Error.Message, setting) {
		w.t.Errorf("%s: %d %+v, want %d and the setting %s", what, code, e.Error, want, setting)
	}
	if n := w.metric(`runnel_limit_reached_total{limit="` + setting + `"}`); n < 1 {
		w.t.Errorf("%s: the limit %s was reached %v times, says the metric", what, setting, n)
	}
}

func (w *world) mint(name string) testapi.Server {
	w.t.Helper()
	s := w.Server
	s.Token = w.runnel("token", "create", name, "--scope", "read,send,approve", "--data", w.data)
	return s
}

// TestValidCredentialsAreNotLockedOutByGuesses guesses many tokens and login
// codes. The server must still accept a valid token, even one that was never
// used, and a valid login link.
func TestValidCredentialsAreNotLockedOutByGuesses(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	guesser := w.Server
	throttled := 0
	for i := range 300 {
		guesser.Token = fmt.Sprintf("rnl_%043d", i)
		if code, _ := guesser.Call("GET", "/api/me", nil, nil); code == http.StatusTooManyRequests {
			throttled++
		} else if code != http.StatusUnauthorized {
			t.Errorf("a guess: %d", code)
		}
		body := strings.NewReader(`{"code":"` + guesser.Token + `"}`)
		req, err := http.NewRequest("POST", "http://"+w.Addr+"/api/login", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	if throttled < 280 {
		t.Errorf("%d of 300 guesses were throttled", throttled)
	}
	if code, _ := w.Call("GET", "/api/me", nil, nil); code != http.StatusOK {
		t.Errorf("a valid token that was never used: %d", code)
	}
	if a, b := w.browse(w.link()); a == "" || b == "" {
		t.Error("a valid link does not log in")
	}
}

// TestAgentsAreLimitedPerCredentialAndInAll checks the limit of agents for one
// credential and the limit for all credentials together. A credential at its
// own limit must not prevent another one from starting agents.
func TestAgentsAreLimitedPerCredentialAndInAll(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.flags = []string{"--max-agents", "3", "--max-agents-per-credential", "2"}
	w.start()
	create := func(s testapi.Server) (id string, code int, e apiError) {
		var made struct {
			apiError
			SessionID string `json:"sessionId"`
		}
		code, _ = s.Call("POST", "/api/session/create", object{"cliType": "claude", "projectDir": w.project}, &made)
		w.knows(made.SessionID)
		return made.SessionID, code, made.apiError
	}
	mine, other := w.Server, w.mint("other")
	first, _, _ := create(mine)
	create(mine)
	_, code, e := create(mine)
	w.limited("a third agent", code, http.StatusTooManyRequests, e, "max-agents-per-credential")
	if _, code, e := create(other); code != http.StatusCreated {
		t.Fatalf("another's agent: %d %+v", code, e)
	}
	_, code, e = create(other)
	w.limited("a fourth agent", code, http.StatusServiceUnavailable, e, "max-agents")
	if n := len(w.agents()); n != 3 {
		t.Errorf("%d agents run", n)
	}
	if code, _ := mine.Call("POST", "/api/session/"+first+"/kill", object{}, nil); code != http.StatusOK {
		t.Fatalf("kill: %d", code)
	}
	if _, code, e := create(other); code != http.StatusCreated {
		t.Errorf("after one has ended: %d %+v", code, e)
	}
}

// agents returns the process ids of the running agents.
func (w *world) agents() (pids []int) {
	for _, p := range w.processes() {
		if strings.HasPrefix(p.line, w.agent()+" --") {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func TestOpenSessionsAreLimitedPerCredentialAndInAll(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.flags = []string{"--max-sessions", "3", "--max-sessions-per-credential", "2"}
	w.start()
	create := func(s testapi.Server) (code int, e apiError) {
		code, _ = s.Call("POST", "/api/session/create", object{"cliType": "script", "projectDir": w.project}, &e)
		return code, e
	}
	mine, other := w.Server, w.mint("other")
	for i := range 2 {
		if code, e := create(mine); code != http.StatusCreated {
			t.Fatalf("session %d: %d %+v", i, code, e)
		}
	}
	code, e := create(mine)
	w.limited("a third session", code, http.StatusTooManyRequests, e, "max-sessions-per-credential")
	if code, e := create(other); code != http.StatusCreated {
		t.Fatalf("another's session: %d %+v", code, e)
	}
	code, e = create(other)
	w.limited("a fourth session", code, http.StatusServiceUnavailable, e, "max-sessions")
}

// TestStoredEventsAreLimitedPerTurnAndSession checks that a turn that stores
// too much ends with an error, and that a session that has stored too much
// rejects prompts.
func TestStoredEventsAreLimitedPerTurnAndSession(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.flags = []string{"--max-turn-mib", "4", "--max-session-mib", "6"}
	w.start()
	c := w.Follow(w.create())
	defer c.Leave()
	turn := c.Send(plan{Stdout: 30}.prompt())
	end, ok := c.End(turn).Body.(event.ResponseError)
	if !ok || end.Error.Code != "PAYLOAD_TOO_LARGE" || !strings.Contains(end.Error.Message, "max-turn-mib") {
		t.Errorf("the turn ended with %+v", end)
	}
	stored := 0
	for _, ev := range c.Events {
		stored += event.Weight(ev.Body)
	}
	if stored > 8<<20 {
		t.Errorf("a turn of at most 4 MiB has stored %d bytes", stored)
	}
	if n := w.metric(`runnel_limit_reached_total{limit="max-turn-mib"}`); n < 1 {
		t.Error("the metric counts no turn that stored too much")
	}
	second := c.Send(plan{Stdout: 30}.prompt()) // needs about 4 MiB again, but only 2 MiB are left
	if end, ok := c.End(second).Body.(event.ResponseError); !ok || !strings.Contains(end.Error.Message, "max-session-mib") {
		t.Errorf("the second turn ended with %+v", end)
	}
	refused := func(when string) {
		var e apiError
		code, _ := w.Call("POST", "/api/session/"+c.Session+"/send", object{"content": "again"}, &e)
		w.limited("a third turn "+when, code, http.StatusRequestEntityTooLarge, e, "max-session-mib")
	}
	refused("at once")
	w.stop()
	w.flags[3] = "3" // the session is smaller, because its streamed deltas have been removed
	w.start()
	refused("after a restart")
}

// TestParallelItemPagesTakeLittleMemory sends parallel requests for a long
// history. The memory that they take must not depend on the history's length.
func TestParallelItemPagesTakeLittleMemory(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.flags = []string{"--compact-after=-1s"}
	w.start()
	id := w.create()
	const size, clients, most = 8, 20, 216 // MiB, and at most this many MiB of the server
	w.Send(id, plan{Stdout: size}.prompt())
	w.idle(id)
	before, _ := rss(w.cmd.Process.Pid)
	var all sync.WaitGroup
	lengths := make([]int64, clients)
	for i := range clients {
		all.Go(func() {
			res, err := w.Do(t.Context(), "GET", "/api/session/"+id+"/items?limit=1000", nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if lengths[i], err = io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%d, %d bytes: %v", res.StatusCode, lengths[i], err)
			}
		})
	}
	all.Wait()
	after := peak(w.cmd.Process.Pid)
	t.Logf("%d MiB before, at most %d MiB", before>>10, after>>10)
	if after > most<<10 {
		t.Errorf("%d requests for %d MiB took %d MiB", clients, size, (after-before)>>10)
	}
	var page struct {
		Items []json.RawMessage
		More  bool
	}
	if code, ok := w.Call("GET", "/api/session/"+id+"/items?limit=1000", nil, &page); !ok || code != http.StatusOK || page.More || len(page.Items) < size {
		t.Errorf("%d, %d entries, more: %v", code, len(page.Items), page.More)
	}
	if least := slices.Min(lengths); least < size<<20 {
		t.Errorf("an answer has only %d bytes", least)
	}
}

// heap returns the bytes that the server's heap and stacks take, with some
// garbage. It returns the least of several samples.
func (w *world) heap() float64 {
	w.t.Helper()
	least := math.Inf(1)
	for range 10 {
		least = min(least, w.metric("go_memstats_heap_alloc_bytes")+w.metric("go_memstats_stack_inuse_bytes"))
	}
	return least
}

// TestUnreadSubscriptionsHoldLittleMemory checks that each subscription of a
// client that reads nothing holds at most 64 kB, besides the large messages
// that max-unread-mib limits.
func TestUnreadSubscriptionsHoldLittleMemory(t *testing.T) {
	const (
		each    = 64 << 10
		garbage = 2 << 20
		unread  = 4 // MiB
	)
	for name, tt := range map[string]struct {
		turns int
		plan  plan
		fixed float64 // bytes that all subscriptions together may take besides each
	}{
		"many items":  {20, plan{Pages: 100}, garbage},
		"large items": {1, plan{Stdout: 12}, garbage + unread<<20},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, "60s")
			w.flags = []string{"--compact-after=-1s", fmt.Sprintf("--max-unread-mib=%d", unread)}
			w.under = []string{"/usr/bin/env", "GOGC=10"} // little garbage
			w.start()
			id := w.create()
			for range tt.turns {
				w.Send(id, tt.plan.prompt())
				w.idle(id)
			}
			clients := 60
			if tt.plan.Stdout > 0 {
				clients = often(60, 30) // the server reads the large items for each
			}
			for attempt := 1; ; attempt++ {
				most := float64(clients*each) + tt.fixed
				took, ok := w.unread(id, clients, most)
				t.Logf("attempt %d: %d unread subscriptions take %.0f kB of %.0f kB", attempt, clients, took/1e3, most/1e3)
				if took <= most {
					break
				}
				if ok || attempt == 10 {
					t.Fatal("too much")
				}
				clients = max(clients*2/3, 10) // a busy machine has time for fewer
			}
		})
	}
}

// unread opens subscriptions of clients that read nothing. It returns the memory
// in bytes that they take once that is at most enough, or before the server
// disconnects them after 15 s. ok is false if the machine was so busy that the
// server was still reading the history for them.
func (w *world) unread(id string, clients int, enough float64) (took float64, ok bool) {
	w.t.Helper()
	var sockets []*webSocket
	for range clients {
		s := w.webSocket()
		defer s.Close()
		sockets = append(sockets, s)
	}
	before := w.heap()
	began := time.Now()
	for _, s := range sockets {
		s.send(w.t, object{"type": "session:subscribe", "sessionId": id})
	}
	for _, s := range sockets {
		if _, err := s.in.Peek(1); err != nil { // waits until the history begins to arrive
			w.t.Fatal(err)
		}
	}
	const idle = 32 << 20 // bytes; one sample allocates less in a server that does nothing else
	for took = enough + 1; took > enough && time.Since(began) < 12*time.Second; {
		allocated := w.metric("go_memstats_alloc_bytes_total")
		took = w.heap() - before
		ok = w.metric("go_memstats_alloc_bytes_total")-allocated < idle
	}
	return took, ok
}

// TestStrangersCannotTakeAllDescriptors opens many connections without a
// credential. The server must still accept clients with a credential, over TCP
// and on the unix socket, and turns must go on.
func TestStrangersCannotTakeAllDescriptors(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.flags = []string{"--max-unauthenticated-connections", "32"}
	w.start()
	w.limit(w.cmd.Process.Pid, 256)
	c := w.Follow(w.create())
	defer c.Leave()
	turn := c.Send(plan{Deltas: 50, Pace: 20 * time.Millisecond, Ask: true}.prompt())
	for i := range 400 {
		conn, err := net.Dial("tcp", w.Addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: ")
		if i%20 == 0 {
			if code, ok := w.Call("GET", "/api/me", nil, nil); !ok || code != http.StatusOK {
				t.Errorf("with %d strangers: %d", i, code)
			}
			http.DefaultClient.CloseIdleConnections()
		}
	}
	w.create()
	if _, ok := c.End(turn).Body.(event.ResponseDone); !ok {
		t.Error("the turn failed")
	}
	if out := w.runnel("sessions", "list", "--data", w.data); !strings.Contains(out, "claude") {
		t.Errorf("by the socket: %s", out)
	}
	if n := w.metric(`runnel_connections{which="unauthenticated"}`); n > 32 {
		t.Errorf("%v connections without a credential", n)
	}
	if n := w.metric(`runnel_limit_reached_total{limit="max-unauthenticated-connections"}`); n < 300 {
		t.Errorf("the metric counts %v of them", n)
	}
}

// TestConnectionsAreLimited opens more connections with a credential than the
// limit allows. The server must close an idle connection to make room, and must
// reject the connection beyond the limit with an error that names the setting.
func TestConnectionsAreLimited(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.flags = []string{"--max-connections", "8"}
	w.start()
	id := w.create()
	idle := w.raw(w.head("GET", "/api/me") + "\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(idle), nil); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	for i := range 8 {
		stream := w.raw(w.head("GET", "/api/session/"+id+"/events") + "\r\n")
		if res, err := http.ReadResponse(bufio.NewReader(stream), nil); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(w.raw(w.head("GET", "/api/me")+"\r\n")), nil)
	if err != nil {
		t.Fatal(err)
	}
	var e apiError
	if err := json.NewDecoder(res.Body).Decode(&e); err != nil || res.StatusCode != http.StatusServiceUnavailable || e.Error.Type != "OVERLOADED" || !strings.Contains(e.Error.Message, "max-connections") {
		t.Errorf("one too many: %d %+v %v", res.StatusCode, e.Error, err)
	}
}

// TestEmptyFragmentsCloseTheWebSocket sends empty fragments without end. The
// server must close the connection.
func TestEmptyFragmentsCloseTheWebSocket(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	s := w.webSocket()
	go func() {
		_, _ = s.Write(frame(0x01, nil)) // a text message begins
		empty := bytes.Repeat(frame(0x00, nil), 1000)
		for {
			if _, err := s.Write(empty); err != nil {
				return
			}
		}
	}()
	if code, reason := s.closed(t); code != 1008 || !strings.Contains(reason, "max-fragments") {
		t.Errorf("closed with %d %q", code, reason)
	}
}

func TestCloseReasonThatIsNotUTF8Answers1007(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	for name, chunks := range map[string][][]byte{
		"whole":          {frame(0x88, []byte("\x03\xe8\xff\xfe"))},
		"in pieces":      {frame(0x88, []byte("\x03\xe8ab\xff"))[:4], frame(0x88, []byte("\x03\xe8ab\xff"))[4:9], frame(0x88, []byte("\x03\xe8ab\xff"))[9:]},
		"behind another": {append(frame(0x81, []byte(`{"type":"session:hello"}`)), frame(0x88, []byte("\x03\xe8\xc3"))...)},
	} {
		s := w.webSocket()
		for _, chunk := range chunks {
			if _, err := s.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
		if code, _ := s.closed(t); code != 1007 {
			t.Errorf("%s: closed with %d", name, code)
		}
	}
	s := w.webSocket()
	if _, err := s.Write(frame(0x88, []byte("\x03\xe8gr\xc3\xbc\xc3\x9fe"))); err != nil {
		t.Fatal(err)
	}
	if code, reason := s.closed(t); code != 1000 || reason != "grüße" {
		t.Errorf("a good reason: closed with %d %q", code, reason)
	}
}

// TestMalformedRequestsAreAnsweredInTheFormOfTheAPI checks that requests which
// no handler can serve get an error in the form of the API.
func TestMalformedRequestsAreAnsweredInTheFormOfTheAPI(t *testing.T) {
	for name, secure := range map[string]bool{"without TLS": false, "with TLS": true} {
		t.Run(name, func(t *testing.T) { malformedRequests(t, secure) })
	}
}

func malformedRequests(t *testing.T, secure bool) {
	w := newWorld(t, nil, "60s")
	if secure {
		w.useTLS()
	}
	w.start()
	answer := func(name string, conn net.Conn, status int) {
		t.Helper()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		var e apiError
		body, _ := io.ReadAll(res.Body)
		err = json.Unmarshal(body, &e)
		if err != nil || res.StatusCode != status || e.Error.Type != "INVALID_REQUEST" || e.Error.Message == "" || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s %q", name, res.StatusCode, res.Header.Get("Content-Type"), body)
		}
	}
	for name, tt := range map[string]struct {
		request string
		status  int
	}{
		"a percent sign in the path":  {w.head("GET", "/api/session/%/status") + "\r\n", 400},
		"a bad escape":                {w.head("GET", "/%zz") + "\r\n", 400},
		"no HTTP":                     {"hello\r\n\r\n", 400},
		"large headers":               {w.head("GET", "/api/me") + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
		"an unknown transfer":         {w.head("POST", "/api/logout") + "Transfer-Encoding: magic\r\n\r\n", 501},
		"no WebSocket":                {w.head("GET", "/api/ws") + "\r\n", 426},
		"a WebSocket without version": {w.head("GET", "/api/ws") + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", 400},
	} {
		if !secure {
			answer(name, w.raw(tt.request), tt.status)
			continue
		}
		conn := tls.Client(w.raw(""), &tls.Config{InsecureSkipVerify: true}) // HTTP/1.1, because the handshake offers no other protocol
		if _, err := io.WriteString(conn, tt.request); err != nil {
			t.Fatal(err)
		}
		answer(name, conn, tt.status)
	}
	if secure {
		answer("no TLS", w.raw(w.head("GET", "/api/me")+"\r\n"), 400)
	}
}

// TestClientAbortsAreNotLoggedAsErrors has clients disconnect before they get a
// response. The server must not log that as an error.
func TestClientAbortsAreNotLoggedAsErrors(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	id := w.create()
	w.Send(id, plan{Stdout: 8}.prompt())
	w.idle(id)
	for i := range 60 {
		for _, path := range []string{"/api/session/" + id + "/items?limit=1000", "/api/session/list?projectId=*&all=1", "/api/agents?refresh=1", "/api/session/" + id + "/export?format=md"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
			if res, err := w.Do(ctx, "GET", path, nil); err == nil {
				res.Body.Close()
			}
			cancel()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
		body := io.MultiReader(strings.NewReader(`{"content":`), &stuck{ctx})
		if res, err := w.Do(ctx, "POST", "/api/session/"+id+"/send", body); err == nil {
			res.Body.Close()
		}
		cancel()
	}
	w.stop()
	for line := range strings.Lines(w.stderr.String()) {
		if strings.Contains(line, "level=ERROR") {
			t.Errorf("logged: %s", line)
		}
	}
}

// stuck is a request body that never arrives.
type stuck struct{ ctx context.Context }

func (s *stuck) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// TestHTTP2OverTLSServesRequestsAndStreams uses HTTP/2, as browsers do over
// TLS. There, a request without a body has an empty body, and the writer of a
// stream must not be used once its handler has returned.
func TestHTTP2OverTLSServesRequestsAndStreams(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.useTLS()
	w.start()
	curl := func(path string, args ...string) (status string, body []byte) {
		args = append([]string{"-sk", "--http2", "-w", "\n%{http_version} %{http_code}", "-H", "Authorization: Bearer " + w.Token, "-H", "Content-Type: application/json"}, args...)
		out, _ := exec.Command("curl", append(args, "https://"+w.Addr+path)...).Output() // a failure shows in the status
		at := bytes.LastIndexByte(out, '\n')
		return string(out[at+1:]), out[:max(at, 0)]
	}
	page, err := os.ReadFile(w.data + "/page-host")
	if err != nil {
		t.Fatal(err)
	}
	host := "Host: " + strings.TrimSpace(string(page)) + ".localhost"
	for path, args := range map[string][]string{"/api/me": nil, "/api/health": {"-I"}, "/": {"-H", host}, "/api/session/list?projectId=*": nil, "/api/logout": {"-d", "{}"}} {
		if status, _ := curl(path, args...); status != "2 200" && status != "2 204" {
			t.Errorf("%s %v: %s", path, args, status)
		}
	}
	body, err := json.Marshal(object{"cliType": "script", "projectDir": w.project})
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ SessionID string }
	if status, answer := curl("/api/session/create", "-d", string(body)); status != "2 201" || json.Unmarshal(answer, &made) != nil {
		t.Fatalf("create: %s %s", status, answer)
	}
	for range 10 { // clients that disconnect from their streams
		for seconds := 0.3; ; seconds *= 2 { // a busy machine needs longer for an answer
			status, _ := curl("/api/session/"+made.SessionID+"/events", "--max-time", fmt.Sprint(seconds))
			if status == "2 200" {
				break
			}
			if status != "0 000" || seconds > 20 {
				t.Fatalf("events: %s", status)
			}
		}
	}
	if status, _ := curl("/api/me"); status != "2 200" {
		t.Errorf("after they left: %s", status)
	}
}
