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
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/internal/strictjson"
)

// The server closes a connection whose client sends a request very slowly, or
// sends nothing.
func TestSlowloris(t *testing.T) {
	for name, tt := range map[string]struct {
		head   string
		drip   string
		within time.Duration
	}{
		"header":         {"GET /api/health HTTP/1.1\r\nHost: localhost\r\n", "X", 6 * time.Second},
		"body":           {"POST /api/session/x/cancel HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n", " ", 31 * time.Second},
		"body of nobody": {"POST /api/session/x/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n", " ", 31 * time.Second},
		"body of a GET":  {"GET /api/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", " ", 31 * time.Second},
		"long target":    {"POST /" + strings.Repeat("x", 10<<10) + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", " ", 31 * time.Second},
		"many headers":   {"POST / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 40<<10) + "\r\nContent-Length: 1000\r\n\r\n", " ", 31 * time.Second},
		"foreign target": {"POST http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", " ", 31 * time.Second},
		"nothing":        {"", "", 6 * time.Second},
		"idle":           {"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n", "", 61 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t)
				c, err := s.ln.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				closed := make(chan struct{})
				go func() { defer close(closed); _, _ = io.Copy(io.Discard, c) }()
				began := time.Now()
				if _, err := io.WriteString(c, strings.Replace(tt.head, "TOKEN", s.token, 1)); err != nil && tt.head != "" {
					t.Fatal(err)
				}
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				for open := true; open && time.Since(began) < 2*tt.within; {
					select {
					case <-closed:
						open = false
					case <-tick.C:
						_ = c.SetWriteDeadline(time.Now().Add(time.Millisecond))
						_, _ = io.WriteString(c, tt.drip)
					}
				}
				if took := time.Since(began); took > tt.within {
					t.Errorf("open for %v, want at most %v", took, tt.within)
				}
			})
		})
	}
}

// The server closes the connection of a client that reads one byte a second.
// Other readers of the stream notice nothing.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		id := s.create()
		s.events(id, s.prompt(id, burst(3000)))
		c, err := s.ln.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET /api/session/"+id+"/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+s.token+"\r\n\r\n")
		began := time.Now()
		one := make([]byte, 1)
		for {
			<-time.After(time.Second)
			if _, err := c.Read(one); err != nil {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatal("it is still served after a minute")
			}
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("closed after %v", took)
		}
		synctest.Wait() // the server counts only after it has closed the connection
		if !strings.Contains(s.do("GET", "/metrics", "").Body.String(), "runnel_streams_stalled_total 1") {
			t.Error("it was not counted")
		}
	})
}

// The server closes a WebSocket whose client reads one byte a second, and a
// connection whose client reads nothing of an answer that is not a stream.
func TestSlowReaderOfOthers(t *testing.T) {
	for name, request := range map[string]string{
		"WebSocket": "GET /api/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
		"items":     "GET /api/session/ID/items HTTP/1.1\r\nHost: localhost\r\n",
		"export":    "GET /api/session/ID/export?format=md HTTP/1.1\r\nHost: localhost\r\n",
		"turn":      "POST /api/harness/turn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: LEN\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			timed(t, minute)
			synctest.Test(t, func(t *testing.T) {
				s := serve(t)
				id := s.create()
				s.events(id, s.prompt(id, burst(3000)))
				c, err := s.ln.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				body, _ := json.Marshal(stream.TurnRequest{SessionID: id, Message: burst(3000)})
				request = strings.NewReplacer("ID", id, "LEN", strconv.Itoa(len(body))).Replace(request) + "Authorization: Bearer " + s.token + "\r\n\r\n"
				if name == "turn" {
					request += string(body)
				}
				_, _ = io.WriteString(c, request)
				if name == "WebSocket" {
					head := make([]byte, 4)
					for !strings.HasSuffix(string(head), "\r\n\r\n") {
						copy(head, head[1:])
						if _, err := io.ReadFull(c, head[3:]); err != nil {
							t.Fatal(err)
						}
					}
					say := `{"type":"session:subscribe","sessionId":"` + id + `"}`
					frame := append([]byte{0x81, 0x80 | byte(len(say)), 0, 0, 0, 0}, say...)
					if _, err := c.Write(frame); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				one := make([]byte, 1)
				for {
					<-time.After(time.Second)
					if _, err := c.Read(one); err != nil {
						break
					}
					if time.Since(began) > time.Minute {
						t.Fatal("it is still served after a minute")
					}
				}
				if took := time.Since(began); took > 31*time.Second {
					t.Errorf("closed after %v", took)
				}
				<-time.After(10 * time.Second)
				synctest.Wait()
				if streams, exports, _ := s.streams.Counts(); streams+exports != 0 {
					t.Errorf("%d streams and %d exports are still served", streams, exports)
				}
			})
		})
	}
}

// The server closes a WebSocket whose client sends malformed, huge or too many
// frames, and uses little memory for them.
func TestWebSocketAbuse(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	for name, tt := range map[string]struct {
		abuse func(p *peer) error
		want  websocket.StatusCode
	}{
		"2 MiB message": {func(p *peer) error {
			return p.conn.Write(t.Context(), websocket.MessageText, bytes.Repeat([]byte("a"), 2<<20))
		}, closeTooLarge},
		"2 MiB in 20,000 fragments": {func(p *peer) error {
			w, err := p.conn.Writer(t.Context(), websocket.MessageText)
			for range 20_000 {
				if err == nil {
					_, err = w.Write(bytes.Repeat([]byte("a"), 105))
				}
			}
			return err
		}, closeTooLarge},
		"binary":  {func(p *peer) error { return p.conn.Write(t.Context(), websocket.MessageBinary, []byte("{}")) }, closeBadRequest},
		"no JSON": {func(p *peer) error { return p.conn.Write(t.Context(), websocket.MessageText, []byte("hi")) }, closeBadRequest},
		"no UTF-8": {func(p *peer) error {
			return p.conn.Write(t.Context(), websocket.MessageText, []byte("{\"type\":\"\xff\"}"))
		}, closeBadRequest},
		"two keys": {func(p *peer) error {
			return p.conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"session:kill","type":"session:hello"}`))
		}, closeBadRequest},
		"unmasked": {func(p *peer) error { _, err := p.raw.Write([]byte{0x81, 0x02, '{', '}'}); return err }, websocket.StatusProtocolError},
		"reserved bits": {func(p *peer) error {
			_, err := p.raw.Write([]byte{0xF1, 0x82, 0, 0, 0, 0, '{', '}'})
			return err
		}, websocket.StatusProtocolError},
		"claims compression": {func(p *peer) error {
			_, err := p.raw.Write([]byte{0xC1, 0x82, 0, 0, 0, 0, '{', '}'})
			return err
		}, websocket.StatusProtocolError},
		"a text in the middle of another": {func(p *peer) error {
			_, err := p.raw.Write([]byte{0x01, 0x81, 0, 0, 0, 0, '{', 0x81, 0x81, 0, 0, 0, 0, '}'})
			return err
		}, websocket.StatusProtocolError},
		"a large ping": {func(p *peer) error {
			_, err := p.raw.Write(append([]byte{0x89, 0xfe, 0, 126, 0, 0, 0, 0}, make([]byte, 126)...))
			return err
		}, websocket.StatusProtocolError},
		"a ping in parts": {func(p *peer) error { _, err := p.raw.Write([]byte{0x09, 0x80, 0, 0, 0, 0}); return err }, websocket.StatusProtocolError},
		"20,000 pings": {func(p *peer) (err error) {
			for range 20_000 {
				if err == nil {
					_, err = p.raw.Write([]byte{0x89, 0x84, 0, 0, 0, 0, 'p', 'i', 'n', 'g'})
				}
			}
			return err
		}, websocket.StatusPolicyViolation},
		"deflate 1 GB": {func(p *peer) error { // a frame of a compressed message, with any content
			_, err := p.raw.Write(append([]byte{0xC1, 0xff, 0, 0, 0, 0, 0, 15, 66, 64, 0, 0, 0, 0}, make([]byte, 4096)...))
			return err
		}, websocket.StatusProtocolError},
		"claims 8 EiB": {func(p *peer) error {
			_, err := p.raw.Write(append([]byte{0x81, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0}, make([]byte, 2<<20)...))
			return err
		}, closeTooLarge},
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		p := s.dial()
		go func() { _ = tt.abuse(p) }()
		if got := p.closed(); got != tt.want {
			t.Errorf("%s: closed with %d, want %d", name, got, tt.want)
		}
		runtime.GC()
		if runtime.ReadMemStats(&after); after.HeapAlloc > before.HeapAlloc+16<<20 {
			t.Errorf("%s: holds %d bytes", name, after.HeapAlloc-before.HeapAlloc)
		}
		_ = p.conn.CloseNow()
	}
	// A JSON message without a meaning gets an error, and the connection stays
	// open.
	p := s.join(stream.FamilyUpsert)
	for _, m := range []string{`{}`, `{"type":"nothing"}`, `{"type":"session:subscribe"}`, `{"type":"session:subscribe","sessionId":"x"}`,
		`{"type":"session:send","sessionId":5}`, `{"type":"session:subscribe","sessionId":"0b5d3c1e-0000-7000-8000-000000000000","after":-1}`,
		`{"type":"session:cancel","sessionId":"x","extra":1}`, `{"type":"session:options","sessionId":"x","Model":"m"}`} {
		p.send("%s", m)
		if f := p.receive(); f.Type != "error" || f.Error.Type == "INTERNAL" {
			t.Errorf("%s: got %+v", m, f)
		}
	}
	if w := s.do("GET", "/api/ws", ""); w.Code == 200 || w.Code >= 500 {
		t.Errorf("no upgrade: %d", w.Code)
	}
	if strings.Contains(s.logged.String(), "internal error") {
		t.Errorf("logged %s", s.logged)
	}
}

// TestRealSocket uses a real socket and the http.Server of the shipped program.
func TestRealSocket(t *testing.T) {
	timed(t, minute)
	rg := newRig(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hs := rg.HTTPServer()
	done := make(chan error, 1)
	go func() { done <- hs.Serve(ln) }()
	defer func() {
		_ = rg.EndStreams(context.Background())
		if err := hs.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-done
	}()
	for raw, want := range map[string]string{
		"GET http://evil.example/api/health HTTP/1.1\r\nHost: localhost\r\n\r\n":                           "400",
		"GET http://localhost/api/health HTTP/1.1\r\nHost: evil.example\r\n\r\n":                           "400",
		"GET /api/health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n":                        "400",
		"GET /api/health HTTP/1.1\r\n\r\n":                                                                 "400",
		"GET /api/health HTTP/1.0\r\n\r\n":                                                                 "400",
		"GET /api/health HTTP/1.1\r\nHost: user@localhost\r\n\r\n":                                         "400",
		"GET /api/health HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                           "403",
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n":                              "400",
		"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n":                                              "200",
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n":                                                    "401",
		"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n": "501",
	} {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, raw)
		head := make([]byte, 12)
		_, err = io.ReadFull(c, head)
		c.Close()
		if err != nil || string(head[9:]) != want {
			t.Errorf("%q: got %q, %v, want %s", raw, head, err, want)
		}
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	for _, host := range []string{"127.0.0.1", "localhost"} {
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		conn, _, err := websocket.Dial(t.Context(), "ws://"+net.JoinHostPort(host, port)+"/api/ws", &websocket.DialOptions{
			HTTPClient: &http.Client{Transport: tr}, HTTPHeader: http.Header{"Authorization": {"Bearer " + rg.token}, "Origin": {"http://" + net.JoinHostPort(host, port)}}})
		if err != nil {
			t.Fatal(err)
		}
		p := &peer{t: t, conn: conn}
		p.send(`{"type":"session:hello"}`)
		p.await("session:hello:ack")
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
}

// A readsTo is a body that inspects its request when a handler begins to read
// it.
type readsTo struct {
	io.Reader
	look func()
}

func (b readsTo) Read(p []byte) (int, error) {
	b.look()
	return b.Reader.Read(p)
}

// Over HTTP/2 a client can send a megabyte of cookies in each of many requests
// with a few bytes. The server must not keep them in memory while it waits for
// the bodies.
func TestNoRequestHoldsItsCookiesWhileItsBodyArrives(t *testing.T) {
	rg := newRig(t)
	for _, target := range []string{"/api/login", "/api/login/proof", "/api/session/create"} {
		req := rg.request("POST", target, "{}", host("own.localhost:7777"), header("Origin", "http://own.localhost:7777"),
			header("Sec-Fetch-Site", "same-origin"), header("Cookie", "other="+strings.Repeat("x", 900<<10)))
		looked := false
		req.Body = io.NopCloser(readsTo{req.Body, func() {
			looked = true
			if n := len(req.Header.Get("Cookie")); n > 0 {
				t.Errorf("%s: %d bytes of cookies", target, n)
			}
		}})
		rg.ServeHTTP(httptest.NewRecorder(), req)
		if !looked {
			t.Errorf("%s: the body is not read", target)
		}
	}
}

// Over HTTP/2 a client can send a megabyte of cookies with a few hundred bytes,
// and decides when the server may write the answer.
func TestNoRequestHoldsItsCookiesWhileItsAnswerWaits(t *testing.T) {
	rg := newRig(t)
	cookies := header("Cookie", "other="+strings.Repeat("x", 900<<10))
	for name, edit := range map[string]func(*http.Request){
		"no credential":    anonymous,
		"wrong credential": header("Authorization", "Bearer x"),
		"wrong browser": func(r *http.Request) {
			anonymous(r)
			addHeader("Cookie", browser.CookieName+"=x")(r)
			header(browser.KeyHeader, "x")(r)
			header("Sec-Fetch-Site", "same-origin")(r)
		},
		"refused host":      host("evil.example"),
		"invalid host":      host("?"),
		"refused origin":    header("Origin", "https://evil.example"),
		"too many headers":  header("X-Long", strings.Repeat("x", 40<<10)),
		"valid credential":  func(*http.Request) {},
		"worker":            header("Service-Worker", "script"),
		"page, wrong host":  func(r *http.Request) { r.URL.Path, r.RequestURI, r.Host = "/", "/", "localhost" },
		"too long a target": func(r *http.Request) { r.RequestURI = "/" + strings.Repeat("x", 10<<10) },
	} {
		req := rg.request("GET", "/api/me", "", cookies, edit)
		w := &writesTo{httptest.NewRecorder(), func() {
			for _, line := range req.Header.Values("Cookie") {
				t.Errorf("%s: %d bytes of cookies", name, len(line))
			}
		}}
		rg.ServeHTTP(w, req)
		if w.Body.Len() == 0 {
			t.Errorf("%s: no answer", name)
		}
	}
}

// A writesTo calls look before each write.
type writesTo struct {
	*httptest.ResponseRecorder
	look func()
}

func (w *writesTo) Write(p []byte) (int, error) {
	w.look()
	return w.ResponseRecorder.Write(p)
}

func TestBodyWithoutACredentialIsShort(t *testing.T) {
	rg := newRig(t)
	for _, target := range []string{"/api/login", "/api/login/proof"} {
		w := rg.do("POST", target, `{"code":"`+strings.Repeat("x", 4<<10)+`"}`, anonymous, host("own.localhost:7777"),
			header("Origin", "http://own.localhost:7777"), header("Sec-Fetch-Site", "same-origin"))
		if w.Code != 413 || !strings.Contains(w.Body.String(), "larger than 4096 bytes") {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// A connection counts once among those without a credential, but over HTTP/2 it
// can carry many requests.
func TestConnectionHasFewRequestsWithoutACredentialAtOnce(t *testing.T) {
	rg := newRig(t)
	ts := httptest.NewUnstartedServer(nil)
	ts.Config, ts.EnableHTTP2, ts.Listener = rg.HTTPServer(), true, rg.Limit(ts.Listener, 100, 100)
	ts.StartTLS()
	defer ts.Close()
	const most = 16
	answers := make(chan *http.Response)
	var bodies []*io.PipeWriter
	for range most + 1 {
		body, send := io.Pipe()
		bodies = append(bodies, send)
		req, err := http.NewRequestWithContext(t.Context(), "POST", ts.URL+"/api/login/proof", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Host, req.ContentLength = "own.localhost:7777", 2
		req.Header = http.Header{"Origin": {"https://own.localhost:7777"}, "Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/json"}}
		go func() {
			res, err := ts.Client().Do(req)
			if err != nil {
				t.Error(err)
			}
			answers <- res
		}()
	}
	statuses := make(map[int]int)
	count := func() {
		if res := <-answers; res != nil {
			statuses[res.StatusCode]++
			res.Body.Close()
			if res.ProtoMajor != 2 {
				t.Error(res.Proto)
			}
		}
	}
	count() // while the server waits for the bodies of the others
	for _, send := range bodies {
		go func() { // the server does not read the body of the rejected request
			_, _ = send.Write([]byte("{}"))
			_ = send.Close()
		}()
	}
	for range most {
		count()
	}
	if statuses[http.StatusTooManyRequests] != 1 || statuses[http.StatusBadRequest] != most {
		t.Errorf("statuses %v", statuses)
	}
}

// The unfinished bodies of one credential are bounded in all, not only for each
// request. Another credential is not affected.
func TestArrivingBodiesAreBounded(t *testing.T) { synctest.Test(t, arrivingBodiesAreBounded) }

const mostArriving = 64 << 20 // default of Limits.ArrivingBytes

func arrivingBodiesAreBounded(t *testing.T) {
	s := serve(t)
	id, mine, other := s.create(), s.token, s.mint(auth.Read, auth.Send)
	const beyond = 6
	var conns []net.Conn
	refused := make(chan int, mostArriving/reply.MaxBody+beyond)
	for range cap(refused) {
		c, err := s.ln.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		go func() {
			_, _ = fmt.Fprintf(c, "POST /api/session/%s/send HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", id, mine, reply.MaxBody)
			if res, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				refused <- res.StatusCode
			}
		}()
	}
	for range beyond {
		if got := <-refused; got != http.StatusTooManyRequests {
			t.Errorf("got %d", got)
		}
	}
	if w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`); w.Code != http.StatusTooManyRequests || code(w) != "RATE_LIMITED" {
		t.Errorf("one more: got %d %s", w.Code, w.Body)
	}
	s.token = other
	if w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`); w.Code != http.StatusAccepted {
		t.Errorf("another credential: got %d %s", w.Code, w.Body)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	time.Sleep(time.Second) //nolint:forbidigo // virtual time; net/http lingers on connections that it closes
}

// A body without a declared length counts as the bytes that have arrived. So
// many slow requests with small bodies leave room for others of the same
// credential.
func TestSlowBodiesOfUnknownLengthCountAsWhatArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		id := s.create()
		open := func(body string) net.Conn {
			c, err := s.ln.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = fmt.Fprintf(c, "POST /api/session/%s/send HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", id, s.token, len(body), body)
			}()
			return c
		}
		var conns []net.Conn
		for range mostArriving / reply.MaxBody * 2 {
			conns = append(conns, open("{"))
		}
		synctest.Wait()
		if w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`); w.Code != http.StatusAccepted {
			t.Errorf("beside %d slow requests of a byte each: got %d %s", len(conns), w.Code, w.Body)
		}
		const beyond = 6
		refused := make(chan int, mostArriving/reply.MaxBody+beyond)
		for range cap(refused) {
			c := open(strings.Repeat(" ", reply.MaxBody-1))
			conns = append(conns, c)
			go func() {
				if res, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
					refused <- res.StatusCode
				}
			}()
		}
		for range beyond {
			if got := <-refused; got != http.StatusTooManyRequests {
				t.Errorf("beside %d MiB of other requests: got %d", mostArriving>>20, got)
			}
		}
		for _, c := range conns {
			_ = c.Close()
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time; net/http lingers on connections that it closes
		if w := s.do("POST", "/api/session/"+id+"/cancel", `{}`); w.Code != http.StatusOK {
			t.Errorf("after the clients have left: got %d %s", w.Code, w.Body)
		}
		if n := len(s.arriving.bytes); n != 0 {
			t.Errorf("%d credentials still count", n)
		}
	})
}

// A list of short elements takes much more memory than its text. Lists that the
// server decodes are therefore bounded, and longer ones are rejected before
// they are decoded.
func TestListsOfARequestHaveALimit(t *testing.T) {
	rg := newRig(t)
	unknown := "/api/session/" + uuid.NewString() + "/send"
	for _, tt := range []struct {
		field, target, head, tail string
		status                    int // with as many elements as allowed
	}{
		{"attachments", unknown, `{"content":"x","attachments":[`, "]}", http.StatusNotFound},
		{"opts.tools", unknown, `{"content":"x","opts":{"tools":[`, "]}}", http.StatusNotFound},
		{"tools", strings.TrimSuffix(unknown, "send") + "options", `{"tools":[`, "]}", http.StatusNotFound},
	} {
		body := func(n int) string { return tt.head + strings.Repeat(`"a",`, n-1) + `"a"` + tt.tail }
		if w := rg.do("POST", tt.target, body(strictjson.MaxElements)); w.Code != tt.status {
			t.Errorf("%s with the most elements: got %d %s", tt.field, w.Code, w.Body)
		}
		for _, n := range []int{strictjson.MaxElements + 1, 250_000} {
			w, long := httptest.NewRecorder(), body(n)
			r := rg.request("POST", tt.target, long)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			rg.ServeHTTP(w, r)
			runtime.ReadMemStats(&after)
			if want := tt.field + ": has more than 10000 elements"; w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s with %d elements: got %d %s, want %q", tt.field, n, w.Code, w.Body, want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 10<<20 {
				t.Errorf("%s with %d elements: %d bytes were allocated for a body of %d", tt.field, n, took, len(long))
			}
		}
	}
}
