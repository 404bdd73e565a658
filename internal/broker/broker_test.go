package broker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel/internal/testload"
)

// TestMain ignores the half second that net/http waits after a request whose
// head is too long.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

const (
	theKey      = "sk-real-key"
	placeholder = "runnel-placeholder-of-this-test"
)

// start starts a broker for an API, and returns its address.
func start(t testing.TB, target Target) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Serve(ln, Config{Target: target, Key: theKey, Placeholder: placeholder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return "http://" + ln.Addr().String()
}

// ask sends a request with these headers, as pairs.
func ask(t testing.TB, method, address string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, address, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Add(pair[0], pair[1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestKeyReplacesEveryCredential(t *testing.T) {
	for _, header := range []string{XAPIKey, Bearer, XGoogAPIKey} {
		t.Run(header, func(t *testing.T) {
			var got *http.Request
			api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
			defer api.Close()
			address := start(t, Target{Base: api.URL, Header: header})
			value, want := placeholder, theKey
			if header == Bearer {
				value, want = "Bearer "+value, "Bearer "+want
			}
			headers := []string{"X-Auth-Token", "other", "X-Litellm-Api-Key", "other", "Ocp-Apim-Subscription-Key", "other", "Cf-Aig-Authorization", "other", "Helicone-Auth", "other", "X-Goog-Iam-Authorization-Token", "other", "X-HTTP-Method-Override", "GET", header, value, "X-Other", "kept", "Cookie", "a=b", "Proxy-Authorization", "Basic x", "Connection", header}
			for _, other := range []string{XAPIKey, Bearer, XGoogAPIKey, "Api-Key"} {
				if other != header {
					headers = append(headers, other, "of another account")
				}
			}
			if resp, body := ask(t, http.MethodPost, address+"/v1/messages?beta=true&key=other&access_token=other&%24key=other&Key=other&oauth_token=other&subscription-key=other"+
				"&%24httpHeaders=X-Goog-Api-Key%3Aother&%24httpMethod=GET&%24httpOverwrite=other&httpheaders=other&x-goog-api-key=other&authorization=other&%24.key=other&%24.httpHeaders=other&bearer_token=other&upload_id=other", headers...); resp.StatusCode != http.StatusOK {
				t.Fatalf("%s %s", resp.Status, body)
			}
			if got.Header.Get(header) != want || got.Header.Get("X-Other") != "kept" || got.Host != strings.TrimPrefix(api.URL, "http://") || got.URL.RawQuery != "beta=true" {
				t.Errorf("%s %v", got.URL, got.Header)
			}
			for name, values := range got.Header {
				if name != header && (slices.Contains(credentials, name) || strings.HasPrefix(name, "X-Forwarded")) || slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, placeholder) || v == "other" || v == "GET" }) {
					t.Errorf("the API received %s: %v", name, values)
				}
			}
		})
	}
}

func TestTrailersDoNotPass(t *testing.T) {
	var got *http.Request
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // the trailer follows the body
		got = r
	}))
	defer api.Close()
	c, err := net.Dial("tcp", strings.TrimPrefix(start(t, Target{Base: api.URL, Header: XAPIKey}), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = io.WriteString(c, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: "+placeholder+"\r\nTrailer: Api-Key, X-Other\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\nbody\r\n0\r\nApi-Key: of another account\r\nX-Other: other\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Fatalf("%s %v", answer, err)
	}
	if len(got.Trailer) > 0 || got.Header.Get("Trailer") != "" {
		t.Errorf("the API received the trailer %v", got.Trailer)
	}
}

func TestAnswersPassUnchanged(t *testing.T) {
	for _, status := range []int{200, 302, 400, 401, 403, 429, 500, 529} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "x-test")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"status":%d}`, status)
		}))
		resp, body := ask(t, http.MethodPost, start(t, Target{Base: api.URL, Header: XAPIKey})+"/v1", XAPIKey, placeholder)
		if resp.StatusCode != status || body != fmt.Sprintf(`{"status":%d}`, status) || resp.Header.Get("Retry-After") != "7" || resp.Header.Get("Content-Encoding") != "x-test" || resp.Header.Get("Location") != "/elsewhere" {
			t.Errorf("status %d became %s %v %s", status, resp.Status, resp.Header, body)
		}
		api.Close()
	}
}

func TestOnlyTheAPIIsReached(t *testing.T) {
	var reached []string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached = append(reached, r.URL.Path) }))
	defer api.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = append(reached, "another host") }))
	defer other.Close()
	address := start(t, Target{Base: api.URL + "/api/v1/", Header: XAPIKey})
	at := strings.TrimPrefix(address, "http://")
	for _, c := range []struct {
		request string // its first line
		status  int
	}{
		{"POST /api/v1/messages HTTP/1.1", 200},
		{"POST /api/v1 HTTP/1.1", 200},
		{"GET /api/v1/a%2Fb HTTP/1.1", 200},
		{"POST / HTTP/1.1", 403},
		{"POST /admin HTTP/1.1", 403},
		{"POST /api/v10 HTTP/1.1", 403},
		{"POST /api/v1/../../admin HTTP/1.1", 403},
		{"POST /api/v1/%2e%2e/admin HTTP/1.1", 403},
		{"POST /api/v1/%252e%252e/admin HTTP/1.1", 403},
		{"POST /api/v1/%252e%252e%252fadmin HTTP/1.1", 403},
		{`POST /api/v1/..\..\admin HTTP/1.1`, 403},
		{"POST /api/v1/..;a=b/admin HTTP/1.1", 403},
		{"GET /api/v1/100%25 HTTP/1.1", 200},
		{"POST " + other.URL + "/api/v1/x HTTP/1.1", 403},
		{"CONNECT " + strings.TrimPrefix(other.URL, "http://") + " HTTP/1.1", 405},
		{"TRACE /api/v1/messages HTTP/1.1", 405},
	} {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s\r\nHost: %s\r\nX-Api-Key: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", c.request, at, placeholder)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.request, err)
		}
		if resp.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.request, resp.StatusCode, c.status)
		}
		resp.Body.Close()
		conn.Close()
	}
	if want := []string{"/api/v1/messages", "/api/v1", "/api/v1/a/b", "/api/v1/100%"}; !slices.Equal(reached, want) {
		t.Errorf("reached %q, want %q", reached, want)
	}
}

func TestHeadsAreBounded(t *testing.T) {
	reached := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached++
		if r.URL.Path == "/long" {
			w.Header().Set("X-Long", strings.Repeat("x", maxAnswer+1))
		}
	}))
	defer api.Close()
	address := start(t, Target{Base: api.URL, Header: XAPIKey})
	for size, want := range map[int]int{maxHead / 2: 1, maxHead + 8<<10: 0} {
		reached = 0
		r, err := http.NewRequest(http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{XAPIKey: {placeholder}, "X-Long": {strings.Repeat("x", size)}}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err == nil { // else the broker has closed the connection while the rest was being sent
			resp.Body.Close()
		}
		if reached != want {
			t.Errorf("the head of a request with %d bytes reached the API %d times", size, reached)
		}
	}
	if resp, _ := ask(t, http.MethodGet, address+"/long", XAPIKey, placeholder); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("a long head of an answer: %s", resp.Status)
	}
}

func TestUnreachableAPIIsAnError(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	resp, body := ask(t, http.MethodPost, start(t, Target{Base: "http://" + ln.Addr().String(), Header: XAPIKey})+"/", XAPIKey, placeholder)
	if resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "cannot reach the API") || strings.Contains(body, theKey) {
		t.Errorf("%s %s", resp.Status, body)
	}
}

func TestWrongAddressesAreRefused(t *testing.T) {
	for _, base := range []string{"", "api.example.com", "ftp://api.example.com", "https://", "https://user:secret@api.example.com", "https://api.example.com?key=1", "https://api.example.com/a/../b", "https://x/" + strings.Repeat("x", maxBase)} {
		if _, err := (Target{Base: base, Header: XAPIKey}).URL(); err == nil {
			t.Errorf("%.80q is accepted", base)
		}
	}
	for _, base := range []string{"https://api.example.com", "https://api.example.com/", "http://127.0.0.1:8080/v1", "https://api.example.com/a/b/"} {
		if _, err := (Target{Base: base, Header: XAPIKey}).URL(); err != nil {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// parted is an API that sends a piece of its answer each time it is asked to.
type parted struct {
	*httptest.Server
	send chan string // "" ends the answer
}

func newParted() *parted {
	p := &parted{send: make(chan string)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case piece := <-p.send:
				if piece == "" {
					return
				}
				_, _ = io.WriteString(w, piece)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	return p
}

// TestStreamsPassUnbuffered reads each piece of a stream before the API sends
// the next one.
func TestStreamsPassUnbuffered(t *testing.T) {
	api := newParted()
	defer api.Close()
	address := start(t, Target{Base: api.URL, Header: XAPIKey})
	r, err := http.NewRequest(http.MethodPost, address+"/v1/messages", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(XAPIKey, placeholder)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() { api.send <- "data: 0\n" }()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for i := range 100 {
		if i > 0 {
			api.send <- fmt.Sprintf("data: %d\n", i)
		}
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("piece %d is %q, %v", i, line, err)
		}
	}
	api.send <- ""
	if _, err := lines.ReadString('\n'); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

func TestCloseEndsStreams(t *testing.T) {
	api := newParted()
	defer api.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Serve(ln, Config{Target: Target{Base: api.URL, Header: XAPIKey}, Key: theKey, Placeholder: placeholder})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, "http://"+ln.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(XAPIKey, placeholder)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() { api.send <- "first" }()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b.Close()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream ended as if it were complete")
	}
}

// A firstByte sends requests on one connection, and measures the time from a
// request to the first byte of its answer.
type firstByte struct {
	t    testing.TB
	pool *http.Transport
	url  *url.URL
}

func newFirstByte(t testing.TB, address string) firstByte {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	pool := &http.Transport{}
	t.Cleanup(pool.CloseIdleConnections)
	return firstByte{t, pool, u}
}

func (f firstByte) took() time.Duration {
	f.t.Helper()
	r := &http.Request{Method: http.MethodPost, URL: f.url, Header: http.Header{"X-Api-Key": {placeholder}}, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: 2}
	began := time.Now()
	resp, err := f.pool.RoundTrip(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		f.t.Fatal(err)
	}
	took := time.Since(began)
	_, _ = io.Copy(io.Discard, resp.Body)
	return took
}

// TestFirstByteIsNotLate compares the first byte through a broker with the one
// of the API itself. Of many requests to each, it compares the fastest, because
// a busy machine delays some requests, but not all.
func TestFirstByteIsNotLate(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "data: first\n") }))
	defer api.Close()
	directly, brokered := newFirstByte(t, api.URL), newFirstByte(t, start(t, Target{Base: api.URL, Header: XAPIKey}))
	direct, through := time.Hour, time.Hour
	for range 201 {
		direct, through = min(direct, directly.took()), min(through, brokered.took())
	}
	const allowed = 2 * time.Millisecond
	t.Logf("directly %v, through a broker %v", direct, through)
	if late := through - direct; late > allowed {
		t.Errorf("the first byte comes %v later, more than %v", late, allowed)
	}
}

func BenchmarkFirstByte(b *testing.B) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "data: first\n") }))
	defer api.Close()
	for name, address := range map[string]string{"directly": api.URL, "broker": start(b, Target{Base: api.URL, Header: XAPIKey})} {
		b.Run(name, func(b *testing.B) {
			f := newFirstByte(b, address)
			for b.Loop() {
				f.took()
			}
		})
	}
}

// TestUpgradesPass opens a WebSocket, as some agents do, and speaks in both
// directions.
func TestUpgradesPass(t *testing.T) {
	var key string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key = r.Header.Get("Authorization")
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := buf.ReadString('\n')
		_, _ = io.WriteString(conn, "echo "+line)
	}))
	defer api.Close()
	address := strings.TrimPrefix(start(t, Target{Base: api.URL, Header: Bearer}), "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/responses HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer %s\r\n\r\n", address, placeholder)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || key != "Bearer "+theKey {
		t.Fatalf("%v, %v, the API received %q", resp, err, key)
	}
	fmt.Fprintln(conn, "hello")
	if line, err := in.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// A WebSocket can have a key among its subprotocols. A switch to HTTP/2, or a
// body of several requests, could contain requests with any credential.
func TestNoRequestHasAKeyOfItsOwn(t *testing.T) {
	var got http.Header
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer api.Close()
	address := start(t, Target{Base: api.URL, Header: Bearer})
	key := []string{Bearer, "Bearer " + placeholder}
	ask(t, http.MethodGet, address+"/v1/realtime", append(key, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key.sk-other", "Sec-WebSocket-Protocol", "openai-insecure-api-key.sk-other")...)
	if offers := got.Values("Sec-WebSocket-Protocol"); !slices.Equal(offers, []string{"realtime"}) || got.Get("Upgrade") != "websocket" {
		t.Errorf("the API received %q and an upgrade to %q", offers, got.Get("Upgrade"))
	}
	ask(t, http.MethodGet, address+"/v1/models", append(key, "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQAoAAAAAIAAAAA")...)
	if got.Get("Upgrade") != "" || got.Get("HTTP2-Settings") != "" || got.Get(Bearer) != "Bearer "+theKey {
		t.Errorf("the API received %v", got)
	}
	for _, media := range []string{"multipart/mixed; boundary=b", "Multipart/Mixed", "application/http"} {
		got = nil
		if resp, _ := ask(t, http.MethodPost, address+"/batch", append(key, "Content-Type", media)...); resp.StatusCode != http.StatusUnsupportedMediaType || got != nil {
			t.Errorf("%s: %s", media, resp.Status)
		}
		if resp, _ := ask(t, http.MethodPost, address+"/batch", append(key, "Content-Type", "application/json", "Content-Type", media)...); resp.StatusCode != http.StatusUnsupportedMediaType || got != nil {
			t.Errorf("%s in a second header: %s", media, resp.Status)
		}
	}
}

// Programs of other users can connect, too. Connections without the placeholder,
// and with a wrong one, must not keep the agent from its model.
func TestForeignConnectionsDoNotBlockTheAgent(t *testing.T) {
	arrived, released := make(chan struct{}), make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(arrived)
			<-released
		}
		fmt.Fprint(w, "answer")
	}))
	defer api.Close()
	address := start(t, Target{Base: api.URL, Header: XAPIKey})
	slow := make(chan string)
	go func() {
		_, body := ask(t, "POST", address+"/slow", XAPIKey, placeholder)
		slow <- body
	}()
	<-arrived
	for i := range 2 * maxConns {
		c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 { // the answer keeps the connection
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Api-Key: wrong\r\n\r\n")
		}
	}
	began := time.Now()
	if _, body := ask(t, "POST", address+"/", XAPIKey, placeholder); body != "answer" {
		t.Errorf("got %q", body)
	}
	testload.Within(t, "the agent's request", began, headTime/2)
	close(released)
	if body := <-slow; body != "answer" {
		t.Errorf("the running request got %q", body)
	}
}

// lateReader is a transport that reads the body of a request once more after the
// client has received the head of the answer, as net/http's can.
type lateReader struct {
	answered chan struct{}
	late     chan error
}

func (l lateReader) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.ReadFull(r.Body, make([]byte, r.ContentLength)); err != nil {
		return nil, err
	}
	go func() {
		<-l.answered
		_, err := r.Body.Read(make([]byte, 1))
		l.late <- err
	}()
	body, end := io.Pipe() // the answer ends with the request
	context.AfterFunc(r.Context(), func() { _ = end.Close() })
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}, nil
}

func TestAnswerThatBeginsBeforeTheLastReadOfTheRequestIsNotBrokenOff(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := lateReader{make(chan struct{}), make(chan error, 1)}
	b, err := Serve(ln, Config{Target: Target{Base: "http://api.example", Header: XAPIKey}, Key: theKey, Placeholder: placeholder, transport: l})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ln.Addr().String()+"/v1", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(XAPIKey, placeholder)
	pool := &http.Transport{}
	defer pool.CloseIdleConnections()
	client := http.Client{Transport: pool}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	close(l.answered)
	if err := <-l.late; err != io.EOF {
		t.Errorf("the last read of the body returned %v, want EOF", err)
	}
}
