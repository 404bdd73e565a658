//go:build linux

package hostile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testapi"
)

// TestServerWithstandsFuzzedRequests sends requests that are made from the
// OpenAPI document, and invalid ones. The server must not fail internally, must
// respond in the form of the API with the statuses of the document, and must
// release its connections, agents and memory afterwards.
func TestServerWithstandsFuzzedRequests(t *testing.T) {
	for name, secure := range map[string]bool{"HTTP 1.1": false, "HTTP 2 over TLS": true} {
		t.Run(name, func(t *testing.T) {
			seed, d := fuzzSeed(t), fuzzTime(t)
			f := newFuzzer(t, secure)
			f.run(seed+1<<32, warmUp(d), f.request)
			f.fillRedactor(d)
			before := f.measure()
			f.run(seed, d, f.request)
			t.Log(f.summary())
			f.settles(before)
		})
	}
}

// TestHeadOverHTTP2LogsNoError checks that the server logs no error when it
// writes the response of a HEAD request. Over HTTP/2, writing the body fails
// once the header was sent.
func TestHeadOverHTTP2LogsNoError(t *testing.T) {
	f := newFuzzer(t, true)
	for _, path := range []string{"/openapi.json", "/docs", "/api/me", "/api/agents", "/api/session/list?projectId=*"} {
		res, body := f.ask("HEAD", path, nil)
		if res.StatusCode != http.StatusOK || res.ProtoMajor != 2 || len(body) > 0 {
			t.Errorf("%s: %s %s with %d bytes", path, res.Proto, res.Status, len(body))
		}
	}
	f.stop()
	f.logsNoError()
}

// An attempt is one request.
type attempt struct {
	op     *apiOperation // nil if the request may be for another operation
	method string
	target string
	host   string
	header http.Header
	body   []byte
}

// bytes returns the request in HTTP/1.1.
func (a *attempt) bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", a.method, a.target, a.host)
	_ = a.header.Write(&b) // cannot fail, because it writes into memory
	if len(a.body) > 0 {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(a.body))
	}
	b.WriteString("\r\n")
	b.Write(a.body)
	return b.Bytes()
}

// request makes and sends one request, and judges the response.
func (f *fuzzer) request(m *maker) {
	a := f.attempt(m)
	if m.odds(5) {
		f.raw(m, a)
		return
	}
	f.send(m, a)
}

func (f *fuzzer) attempt(m *maker) *attempt {
	m.deep = m.odds(2)
	op, key := pick(m, f.doc.list), pick(m, f.keys)
	if m.deep {
		key = f.keys[0]
	}
	a := &attempt{op: op, method: op.method, host: f.Addr, header: key.header.Clone()}
	for key.name == "browser" && op.path == "/api/logout" { // logging out would end this credential
		key = pick(m, f.keys)
		a.header = key.header.Clone()
	}
	if a.header == nil {
		a.header = http.Header{}
	}
	if key.host != "" {
		a.host = key.host
	}
	a.target = f.target(m, op, a.header)
	if !m.deep && m.odds(8) {
		a.method = pick(m, []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "X"})
	}
	if op.RequestBody != nil && (m.deep || !m.odds(20)) || m.odds(30) {
		f.fill(m, op, a)
	}
	if !m.deep {
		f.dress(m, a)
	}
	if a.method != op.method || !op.serves(a.target) || a.header.Get("Service-Worker") != "" { // every path serves a service worker that removes itself
		a.op = nil
	}
	return a
}

// serves reports whether a target matches the path of the operation, segment by
// segment. A target with "//" or ".." may belong to another operation or to
// none.
func (op *apiOperation) serves(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	have, want := strings.Split(path, "/"), strings.Split(op.path, "/")
	return slices.EqualFunc(have, want, func(have, want string) bool {
		if !strings.HasPrefix(want, "{") {
			return have == want
		}
		value, err := url.PathUnescape(have)
		return err == nil && value != "" && value != "." && value != ".." && !strings.Contains(value, "/")
	})
}

// target returns a path and query for an operation. It sets the parameters that
// are headers in header.
func (f *fuzzer) target(m *maker, op *apiOperation, header http.Header) string {
	path, query := op.path, url.Values{}
	for _, p := range op.Parameters {
		kind := m.kind()
		if m.deep && p.In == "path" {
			kind = valid
		}
		value := f.parameter(m, op, p.Name, kind)
		switch {
		case p.In == "path" && kind == hostile && m.odds(4):
			path = strings.ReplaceAll(path, "{"+p.Name+"}", pick(m, []string{"%", "%zz", "%00", "..", ".", "%2e%2e", "a//b", "a%2fb", "%ff"}))
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(value))
		case m.odds(3):
		case p.In == "header":
			header.Set(p.Name, oneLine(value))
		default:
			query.Add(p.Name, value)
			if kind != valid && m.odds(4) {
				query.Add(p.Name, m.text())
			}
		}
	}
	if m.odds(30) {
		query.Add(m.text(), m.text())
	}
	target := path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	if m.odds(40) {
		target += pick(m, []string{"?%zz", "?a;b", "&&&=", "/", "//", "/..", "?" + strings.Repeat("a", 9<<10)})
	}
	return target
}

func (f *fuzzer) parameter(m *maker, op *apiOperation, name string, kind int) string {
	switch {
	case kind != valid:
		return m.text()
	case name == "id" && strings.HasPrefix(op.path, "/api/tokens/"):
		name = "tokenId"
	case name == "id":
		name = "sessionId"
	}
	if known := f.pool.of(name); len(known) > 0 {
		return fmt.Sprint(pick(m, known))
	}
	return m.text()
}

// fill gives an attempt a body.
func (f *fuzzer) fill(m *maker, op *apiOperation, a *attempt) {
	kind, typ, s := m.kind(), "application/json", (*apiSchema)(nil)
	if op.RequestBody != nil {
		for t, content := range op.RequestBody.Content { // there is exactly one
			typ, s = t, content.Schema
		}
	}
	if typ == "application/json" {
		a.body = m.body(s, kind)
	} else {
		a.body = []byte(m.text())
	}
	if !m.deep && m.odds(8) {
		typ = pick(m, []string{"", "text/plain", "application/json; charset=latin1", "multipart/form-data", "application/json;", "Application/JSON; charset=UTF-8", "/"})
	}
	a.header.Set("Content-Type", typ)
}

// dress sometimes adds a header or changes the host, as a request of the page,
// of another page or of a proxy may have it.
func (f *fuzzer) dress(m *maker, a *attempt) {
	if !m.odds(3) {
		return
	}
	switch m.IntN(8) {
	case 0:
		a.host = pick(m, []string{"localhost", "evil.example", "127.0.0.1:1", "a.localhost", "[::1]", "xn--zzz", "127.0.0.1"})
	case 1:
		a.header.Set("Origin", pick(m, []string{"null", "http://evil.example", "http://" + a.host, "https://localhost", "file://"}))
	case 2:
		a.header.Set("Sec-Fetch-Site", pick(m, []string{"cross-site", "same-site", "none", "x"}))
	case 3:
		a.header.Set("Service-Worker", "script")
	case 4:
		a.header.Add("Cookie", "runnel_session="+oneLine(m.text()))
	case 5:
		a.header.Set("X-Forwarded-For", oneLine(m.text()))
	case 6:
		a.header.Set(pick(m, []string{"Accept", "Range", "If-None-Match", "Accept-Encoding", "Forwarded", "Runnel-Key", "X-Http-Method-Override"}), oneLine(m.text()))
	case 7:
		a.header.Set("X-Large", strings.Repeat("x", 1<<m.IntN(17)))
	}
}

// oneLine returns text as a header value: without control characters, and at
// most 4 KiB.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text[:min(len(text), 4<<10)])
}

// send sends an attempt with the standard HTTP client, and judges the response.
func (f *fuzzer) send(m *maker, a *attempt) {
	ctx, cancel := context.WithTimeout(context.Background(), testapi.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, a.method, f.scheme()+"://"+f.Addr+"/", bytes.NewReader(a.body))
	if err != nil {
		f.fault(err.Error(), a.bytes(), nil)
		return
	}
	path, query, _ := strings.Cut(a.target, "?")
	_, invalid := url.ParseRequestURI(a.target)
	if invalid != nil && f.tls != nil {
		f.raw(m, a) // over HTTP/2 net/http resets the stream, and the client retries for a minute
		return
	}
	req.URL.Opaque, req.URL.RawQuery = path, query // sent unchanged
	req.Host, req.Header = a.host, a.header
	if len(a.body) == 0 {
		req.Body, req.GetBody = http.NoBody, nil
	}
	res, err := f.client.Do(req)
	if err != nil {
		early := len(a.body) > 64<<10 || invalid != nil && len(a.bytes()) > 4<<10 // net/http rejects an invalid target before it reads the headers
		if early && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
			return // the server has responded and closed before all of the request was sent
		}
		if f.tls != nil && strings.Contains(err.Error(), "header list larger than peer's advertised limit") {
			return // the client sends nothing; TestHeadersOverHTTP2 sends more than the limit
		}
		f.fault("no answer: "+err.Error(), a.bytes(), nil)
		return
	}
	defer res.Body.Close()
	f.judge(m, a.op, a.target, a.bytes(), res)
}

// judge reads a response and fails the test with what is wrong with it.
func (f *fuzzer) judge(m *maker, op *apiOperation, target string, sent []byte, res *http.Response) {
	f.answered(res.StatusCode)
	var body []byte
	var err error
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols: // the fuzzer of WebSockets reads on
	case strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"):
		body, err = bufio.NewReader(res.Body).ReadBytes('\n') // the stream may never end
	default:
		body, err = io.ReadAll(io.LimitReader(res.Body, 32<<20))
	}
	if err != nil {
		f.fault(fmt.Sprintf("%s, and then: %v", res.Status, err), sent, body)
		return
	}
	if what := f.doc.judge(op, res, body); what != "" {
		f.fault(fmt.Sprintf("%s: %s", res.Status, what), sent, body)
	}
	path, _, _ := strings.Cut(target, "?")
	f.pool.learn(m.Rand, path, body)
}

// quiet is how long raw waits for a response before it assumes that the server
// waits for more of the request.
const quiet = 200 * time.Millisecond

// raw sends an attempt on its own connection, mostly with a damaged header. The
// server may close the connection without a response, but must not hang.
func (f *fuzzer) raw(m *maker, a *attempt) {
	a.header.Set("Connection", "close")
	sent := a.bytes()
	if !m.odds(8) {
		head := bytes.Index(sent, []byte("\r\n\r\n")) + 4
		sent = append(m.damage(sent[:head]), sent[head:]...)
	}
	conn, err := f.dial()
	if err != nil {
		f.fault("no connection: "+err.Error(), sent, nil)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testapi.Timeout))
	_, _ = conn.Write(sent) // the server may have closed the connection already
	in := bufio.NewReader(conn)
	_ = conn.SetReadDeadline(time.Now().Add(quiet))
	if _, err := in.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
		if c, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite()
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(testapi.Timeout))
	res, err := http.ReadResponse(in, &http.Request{Method: methodOf(sent)})
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		f.fault("the connection hangs", sent, nil)
		return
	}
	if err != nil {
		f.answered(0)
		return
	}
	f.judge(m, nil, "", sent, res) // closing the body would read a stream of events to its end
}

func methodOf(request []byte) string {
	method, _, _ := bytes.Cut(request, []byte(" "))
	return string(method)
}
