//go:build unix

package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel/internal/testprogram"
)

func TestMain(m *testing.M) { os.Exit(testprogram.Main(m)) }

// built skips a test of the built program with -short.
func built(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
	}
}

// waitTimeout ends a test that fails.
const waitTimeout = 2 * time.Minute

type object = map[string]any

// A device is a browser on another device. It trusts only the given authority.
type device struct {
	t      *testing.T
	page   string // address of the page, without a slash at its end
	origin string // page without its path
	agent  string // User-Agent; empty: that of Go
	http   *http.Client
	cookie *http.Cookie
	login  struct{ Login, Key, ProofKey string }
}

// newDevice returns a device that reaches the page at an address. dial is the
// address to connect to, if it is not that of the page.
func newDevice(t *testing.T, page string, authority []byte, dial string) *device {
	t.Helper()
	u, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatalf("no certificate: %s", authority)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	if dial != "" {
		tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, dial)
		}
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &device{t: t, page: page, origin: u.Scheme + "://" + u.Host, http: &http.Client{Transport: tr}}
}

// oldHTTP makes the device use HTTP/1.1.
func (d *device) oldHTTP() *device {
	tr := d.http.Transport.(*http.Transport)
	tr.ForceAttemptHTTP2 = false
	tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	return d
}

// open sends a request as the page does, and returns the response with its body
// unread. in is sent as JSON; []byte is sent as a file.
func (d *device) open(method, path string, in any, edit ...func(*http.Request)) *http.Response {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), waitTimeout)
	d.t.Cleanup(cancel)
	var body io.Reader
	kind := ""
	switch in := in.(type) {
	case nil:
	case []byte:
		body, kind = bytes.NewReader(in), "application/octet-stream"
	default:
		text, err := json.Marshal(in)
		if err != nil {
			d.t.Fatal(err)
		}
		body, kind = bytes.NewReader(text), "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, method, d.page+path, body)
	if err != nil {
		d.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if method != http.MethodGet {
		req.Header.Set("Origin", d.origin)
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if d.agent != "" {
		req.Header.Set("User-Agent", d.agent)
	}
	if d.cookie != nil {
		req.AddCookie(d.cookie)
		req.Header.Set("Runnel-Key", d.login.Key)
	}
	for _, f := range edit {
		f(req)
	}
	res, err := d.http.Do(req)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	d.t.Cleanup(func() { res.Body.Close() })
	return res
}

// ask sends a request and returns the status and the body of the response.
func (d *device) ask(method, path string, in any, edit ...func(*http.Request)) (int, string) {
	d.t.Helper()
	res := d.open(method, path, in, edit...)
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, string(text)
}

// call is ask for a request that must succeed with JSON.
func (d *device) call(method, path string, in any) object {
	d.t.Helper()
	status, text := d.ask(method, path, in)
	var out object
	if status >= 300 || text != "" && json.Unmarshal([]byte(text), &out) != nil {
		d.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return out
}

// logIn logs the device in with a login link.
func (d *device) logIn(link string) {
	d.t.Helper()
	page, code, ok := strings.Cut(link, "/#c=")
	if !ok || page != d.page {
		d.t.Fatalf("%s is no link to %s", link, d.page)
	}
	res := d.open("POST", "/api/login", object{"code": code})
	text, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK || json.Unmarshal(text, &d.login) != nil || len(res.Cookies()) != 1 {
		d.t.Fatalf("login: %d %s", res.StatusCode, text)
	}
	d.cookie = res.Cookies()[0]
	_, path, _ := strings.Cut(strings.TrimPrefix(d.page, "https://"), "/")
	if path != "" {
		path = "/" + path
	}
	if c := d.cookie; !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != path+"/api" || c.Domain != "" {
		d.t.Errorf("cookie: %s", c.String())
	}
	d.cookie = &http.Cookie{Name: d.cookie.Name, Value: d.cookie.Value}
}

var (
	addresses = regexp.MustCompile(`(?:src|href)="([^"]+)"`)
	entry     = regexp.MustCompile(`src="[^"]+\.js"`)
)

// loadPage loads the page with everything that it names, and its service
// worker.
func (d *device) loadPage() {
	d.t.Helper()
	status, page := d.ask("GET", "/", nil)
	if status != http.StatusOK || !entry.MatchString(page) {
		d.t.Fatalf("the page: %d %s", status, page)
	}
	base, err := url.Parse(d.page + "/")
	if err != nil {
		d.t.Fatal(err)
	}
	files := []string{"/sw.js"}
	for _, m := range addresses.FindAllStringSubmatch(page, -1) {
		at, err := base.Parse(m[1])
		if err != nil {
			d.t.Fatal(err)
		}
		file, ok := strings.CutPrefix(at.String(), d.page)
		if !ok {
			d.t.Errorf("the page names %s, which is not below %s", at, d.page)
			continue
		}
		files = append(files, file)
	}
	for _, file := range files {
		if status, text := d.ask("GET", file, nil); status != http.StatusOK || text == "" {
			d.t.Errorf("%s: %d", file, status)
		}
	}
}

// checkProof checks that the server proves its identity to the device.
func (d *device) checkProof() {
	d.t.Helper()
	nonce := rand.Text()
	proof := d.call("POST", "/api/login/proof", object{"login": d.login.Login, "nonce": nonce})["proof"]
	key, err := hex.DecodeString(d.login.ProofKey)
	if err != nil {
		d.t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "runnel proof\n%s\n%s", d.origin, nonce)
	if proof != hex.EncodeToString(mac.Sum(nil)) {
		d.t.Errorf("proof %v", proof)
	}
}

// A stream is an open SSE stream.
type stream struct {
	t     *testing.T
	lines *bufio.Scanner
}

func (d *device) stream(path string) *stream {
	d.t.Helper()
	res := d.open("GET", path, nil)
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/event-stream") {
		d.t.Fatalf("%s: %d %s", path, res.StatusCode, kind)
	}
	return &stream{d.t, bufio.NewScanner(res.Body)}
}

// until reads events up to one of a type, and returns its data.
func (s *stream) until(kind string) (data object) {
	s.t.Helper()
	found := false
	for s.lines.Scan() {
		line := s.lines.Text()
		found = found || line == "event: "+kind
		if text, ok := strings.CutPrefix(line, "data: "); ok && found {
			if err := json.Unmarshal([]byte(text), &data); err != nil {
				s.t.Fatal(err)
			}
			return data
		}
	}
	s.t.Fatalf("the stream ended before %s: %v", kind, s.lines.Err())
	return nil
}

// socket opens a WebSocket as the page does, and returns its first message.
func (d *device) socket() (*websocket.Conn, object) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), waitTimeout)
	d.t.Cleanup(cancel)
	c, res, err := websocket.Dial(ctx, "wss"+strings.TrimPrefix(d.page, "https")+"/api/ws", &websocket.DialOptions{
		HTTPClient: d.http, Subprotocols: []string{"runnel.v1", "runnel.key." + d.login.Key},
		HTTPHeader: http.Header{"Origin": {d.origin}, "Cookie": {d.cookie.String()}},
	})
	if err != nil {
		d.t.Fatalf("WebSocket: %v %v", err, res)
	}
	d.t.Cleanup(func() { c.CloseNow() })
	if err := c.Write(ctx, websocket.MessageText, []byte(`{"type":"session:hello","streamProtocol":"events-v1"}`)); err != nil {
		d.t.Fatal(err)
	}
	_, text, err := c.Read(ctx)
	var first object
	if err != nil || json.Unmarshal(text, &first) != nil {
		d.t.Fatalf("WebSocket: %v, %s", err, text)
	}
	return c, first
}

// useEverything uses the page and the API as a person with the device does.
func (d *device) useEverything(project string) {
	d.t.Helper()
	d.loadPage()
	d.checkProof()
	if me := d.call("GET", "/api/me", nil); me["kind"] != "browser" {
		d.t.Errorf("/api/me: %v", me)
	}
	if _, first := d.socket(); first["type"] != "session:hello:ack" {
		d.t.Errorf("the WebSocket begins with %v", first)
	}
	file := d.call("POST", "/api/uploads?name=a.txt", bytes.Repeat([]byte("text "), 60_000))
	if file["id"] == nil && file["uploadId"] == nil {
		d.t.Errorf("upload: %v", file)
	}
	id, _ := d.call("POST", "/api/session/create", object{"cliType": "script", "projectDir": project})["sessionId"].(string)
	events := d.stream("/api/session/" + id + "/events?after=0")
	d.call("POST", "/api/session/"+id+"/send", object{"content": "approve"})
	// The turn waits for the answer, so a proxy that holds back events would
	// hold them back until the test fails.
	request := events.until("approval_requested")["payload"].(object)["approval"].(object)
	approval, _ := request["id"].(string)
	d.call("POST", "/api/session/"+id+"/approvals/"+approval, object{"choice": "allow", "argumentsDigest": request["argumentsDigest"]})
	if end := events.until("response_done"); end["payload"].(object)["status"] != "completed" {
		d.t.Errorf("the turn ended with %v", end)
	}
}
