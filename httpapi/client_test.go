package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// A pipes is a listener in memory. Its connections have no buffer, so a write
// waits for a read.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7777} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A site is a rig that is served over memory.
type site struct {
	*rig
	ln     *pipes
	http   *http.Server
	client *http.Client
}

func serve(t *testing.T, edit ...func(*Config, *gateway.Config)) *site {
	t.Helper()
	return serveOver(t, 1, edit...)
}

// serveOver serves a version of HTTP. It uses no TLS, which virtual time does
// not allow.
func serveOver(t *testing.T, version int, edit ...func(*Config, *gateway.Config)) *site {
	t.Helper()
	s := &site{rig: newRig(t, edit...), ln: &pipes{conns: make(chan net.Conn), done: make(chan struct{})}}
	hs := s.HTTPServer()
	if version == 2 {
		hs = s.HTTPSServer()
	}
	s.http = hs
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	hs.Protocols = protocols
	done := make(chan struct{})
	go func() { defer close(done); _ = hs.Serve(s.Limit(s.ln, 1000, 1000)) }()
	tr := &http.Transport{DialContext: s.ln.dial, Protocols: protocols}
	s.client = &http.Client{Transport: tr}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		ended, end := context.WithCancel(context.Background())
		end()
		_ = s.EndStreams(ended) // without waiting
		_ = hs.Close()
		<-done
	})
	return s
}

func (s *site) get(target string, edit ...func(*http.Request)) *http.Response {
	return s.roundTrip("GET", target, "", edit...)
}

func (s *site) roundTrip(method, target, body string, edit ...func(*http.Request)) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://own.localhost:7777"+target, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, f := range edit {
		f(req)
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	return res
}

// An sseFrame is a frame that has arrived completely.
type sseFrame struct {
	id   int64
	name string
	data json.RawMessage
}

// readFrame returns the next frame that is not a comment. An incomplete frame
// at the end is dropped, as the format demands.
func readFrame(r *bufio.Reader) (f sseFrame, err error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return sseFrame{}, err
		}
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && f.name != "":
			return f, nil
		case line == "":
			f = sseFrame{}
		case field == "id":
			if f.id, err = strconv.ParseInt(value, 10, 64); err != nil {
				return f, err
			}
		case field == "event":
			f.name = value
		case field == "data":
			f.data = json.RawMessage(value)
		case field == "":
		default:
			return f, fmt.Errorf("no field of ours: %q", line)
		}
	}
}

func framesOf(data []byte) (out []sseFrame) {
	r := bufio.NewReader(bytes.NewReader(data))
	for {
		f, err := readFrame(r)
		if err != nil {
			return out
		}
		out = append(out, f)
	}
}

// prompt sends a prompt and returns the turn's id.
func (rg *rig) prompt(id, text string) string {
	rg.t.Helper()
	body, _ := json.Marshal(map[string]string{"content": text})
	return call[command.SendAnswer](rg, "POST", "/api/session/"+id+"/send", string(body), 202).TurnID
}

// events waits for the end of a turn and returns the session's events.
func (rg *rig) events(id, turn string) (evs []event.Event) {
	rg.t.Helper()
	for ev, err := range runnel.Follow(rg.t.Context(), rg.log, id, 0) {
		if err != nil {
			rg.t.Fatal(err)
		}
		evs = append(evs, ev)
		if ev.Turn == turn && event.Ends(ev.Body) {
			return evs
		}
	}
	return evs
}

// until waits for an event of a session that f accepts.
func (rg *rig) until(id string, f func(event.Event) bool) event.Event {
	rg.t.Helper()
	for ev, err := range runnel.Follow(rg.t.Context(), rg.log, id, 0) {
		if err != nil {
			rg.t.Fatal(err)
		}
		if f(ev) {
			return ev
		}
	}
	return event.Event{}
}

func is[T event.Body](ev event.Event) bool { _, ok := ev.Body.(T); return ok }

// A peer is the client's end of a WebSocket.
type peer struct {
	t    *testing.T
	conn *websocket.Conn
	raw  *cutConn
}

// Constants of the protocol of the WebSocket.
const (
	subprotocol = "runnel.v1"

	closeBadRequest websocket.StatusCode = 4400
	closeCredential websocket.StatusCode = 4401
	closeTooLarge   websocket.StatusCode = 4413
	closeStore      websocket.StatusCode = 4503
	closeShutdown   websocket.StatusCode = 1001
)

// A frame is any message of the server.
type frame struct {
	Type      string            `json:"type"`
	RequestID string            `json:"requestId"`
	SessionID string            `json:"sessionId"`
	Payload   json.RawMessage   `json:"payload"`
	Entries   []json.RawMessage `json:"entries"`
	Seq       int64             `json:"seq"`
	First     int64             `json:"first"`
	Resume    *stream.Resume    `json:"resume"`
	Reason    string            `json:"reason"`
	Done      bool              `json:"done"`
	Result    json.RawMessage   `json:"result"`
	Error     *reply.Problem    `json:"error"`
	Selected  string            `json:"selectedFamily"`
	Protocols []string          `json:"protocols"`
	Append    bool              `json:"append"`
}

// A cutConn counts and records the bytes that the server sent.
type cutConn struct {
	net.Conn
	mu  sync.Mutex
	got bytes.Buffer
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	c.got.Write(p[:n])
	c.mu.Unlock()
	return n, err
}

func (c *cutConn) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.got.Bytes())
}

func (s *site) tryDial(edit ...func(http.Header)) (*peer, *http.Response, error) {
	h := http.Header{"Authorization": {"Bearer " + s.token}}
	for _, f := range edit {
		f(h)
	}
	p := &peer{t: s.t}
	tr := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := s.ln.dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		p.raw = &cutConn{Conn: c}
		return p.raw, nil
	}}
	opt := &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}, HTTPHeader: h, Subprotocols: []string{subprotocol}, Host: h.Get("X-Test-Host")}
	h.Del("X-Test-Host")
	conn, res, err := websocket.Dial(s.t.Context(), "ws://own.localhost:7777/api/ws", opt)
	if err != nil {
		tr.CloseIdleConnections()
		return nil, res, err
	}
	conn.SetReadLimit(-1)
	p.conn = conn
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	return p, res, nil
}

func (s *site) dial(edit ...func(http.Header)) *peer {
	s.t.Helper()
	p, _, err := s.tryDial(edit...)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// join opens a WebSocket and selects a family of messages.
func (s *site) join(family string) *peer {
	s.t.Helper()
	p := s.dial()
	p.send(`{"type":"session:hello","streamProtocol":%q}`, family)
	if f := p.receive(); f.Type != "session:hello:ack" || f.Selected != family {
		s.t.Fatalf("got %+v", f)
	}
	return p
}

func (p *peer) send(format string, args ...any) {
	p.t.Helper()
	if err := p.conn.Write(p.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) tryReceive() (f frame, err error) {
	_, data, err := p.conn.Read(context.Background())
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	return f, err
}

func (p *peer) receive() frame {
	p.t.Helper()
	f, err := p.tryReceive()
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// await skips messages up to one with one of the types, and returns that one.
func (p *peer) await(types ...string) frame {
	p.t.Helper()
	for {
		f := p.receive()
		for _, typ := range types {
			if f.Type == typ {
				return f
			}
		}
	}
}

// closed reads until the connection ends, and returns the close code.
func (p *peer) closed() websocket.StatusCode {
	for {
		if _, err := p.tryReceive(); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// bulk returns a script of n bytes that are sent at once, in few events.
func bulk(n int) string {
	const word = 1000 // bytes
	text, _ := json.Marshal(strings.Repeat(strings.Repeat("x", word-1)+" ", n/word))
	return fmt.Sprintf(`{"steps":[{"text":%s}]}`, text)
}

// burst returns a script of n words that are sent at once, each in its own event.
func burst(n int) string {
	text, _ := json.Marshal(strings.Repeat("word ", n))
	return fmt.Sprintf(`{"steps":[{"text":%s}]}`, text)
}

// timed fails the test if it takes longer than d.
func timed(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.AfterFunc(d, func() {
		debug.SetTraceback("all")
		panic("test " + t.Name() + " waits for ever")
	})
	t.Cleanup(func() { timer.Stop() })
}

// minute is the deadline of a test. Tests take less than a minute on an idle
// machine, so the deadline of four leaves time for a loaded one.
const minute = 4 * time.Minute

// all reads a body to its end.
func all(t *testing.T, r io.Reader) []byte {
	t.Helper()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
