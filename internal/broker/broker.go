// Package broker is the endpoint through which an agent calls its model without
// holding the API key.
//
// The agent knows the address of the endpoint and a placeholder, which is a
// secret of this agent. The endpoint replaces the placeholder by the API key,
// and passes requests to one API and to no other host. Answers pass unchanged
// and unbuffered.
package broker

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/internal/lasting"
)

// The headers in which APIs expect a key.
const (
	XAPIKey     = "X-Api-Key"
	Bearer      = "Authorization" // after the word Bearer
	XGoogAPIKey = "X-Goog-Api-Key"
)

// credentials are the headers that may have a credential. A request reaches the
// API with the key as its only credential, so that an agent cannot send data to
// an account of its own choice.
var credentials = []string{XAPIKey, Bearer, XGoogAPIKey, "Api-Key", "Cookie", "Proxy-Authorization"}

// parameters are the query parameters that may have a credential and whose names
// secretHeader does not match, in lower case and without the $ that APIs of
// Google accept before a name. The id of an upload to such an API is one: it is
// all that is needed to add data to the upload of any account.
var parameters = []string{"key", "token", "upload_id"}

// secretHeader matches the names of other headers that may have a credential,
// such as those of gateways to several models, and of query parameters.
var secretHeader = regexp.MustCompile(`(?i)(api|subscription|virtual)[-_]?key|(access|session|security)[-_]?token|auth|bearer|credential|secret|jwt|assertion`)

// overrides are headers that make an API read another method than that of the
// request. With one of them, APIs of Google read the body as a query.
var overrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// override is the prefix of query parameters that make APIs of Google read other
// headers or another method than those of the request: $httpHeaders, $httpMethod
// and $httpOverwrite.
const override = "http"

// mayHaveKey reports whether a query parameter may have a credential, or may
// replace a header.
func mayHaveKey(name string) bool {
	name = strings.ToLower(strings.TrimLeft(name, "$.")) // such as $httpHeaders and $.xgafv
	return slices.Contains(parameters, name) || secretHeader.MatchString(name) || strings.HasPrefix(name, override)
}

// A Target is the API that a broker reaches.
type Target struct {
	Base   string `json:"base"`   // URL of the API, as the agent would know it: http or https, a host and a path
	Header string `json:"header"` // one of XAPIKey, Bearer and XGoogAPIKey
}

// maxBase bounds Target.Base, in bytes.
const maxBase = 2 << 10

// URL parses the address of the API. The error says what is wrong, for people.
func (t Target) URL() (*url.URL, error) {
	if len(t.Base) > maxBase {
		return nil, fmt.Errorf("has %d bytes; at most %d are allowed", len(t.Base), maxBase)
	}
	u, err := url.Parse(t.Base)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return nil, errors.New("is not a URL with http:// or https:// and a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("has a user, a query or a fragment, which a broker cannot pass on")
	case u.Path != "" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/":
		return nil, errors.New("has . or .. in its path")
	}
	return u, nil
}

// NewPlaceholder returns a placeholder for an API key.
func NewPlaceholder() string { return "runnel-placeholder-" + rand.Text() }

// Config configures a Broker.
type Config struct {
	Target      Target
	Key         string // the API key
	Placeholder string // what the agent sends in its place

	transport http.RoundTripper // Default: one of the broker's own
}

// The bounds of a broker.
const (
	maxConns    = 256              // connections at the same time; further ones wait
	headTime    = 10 * time.Second // for the head of a request
	idleTime    = 2 * time.Minute  // of a connection between two requests
	maxHead     = 64 << 10         // bytes of the head of a request
	maxAnswer   = 256 << 10        // bytes of the head of an answer
	connectTime = 30 * time.Second
)

// A Broker serves one agent. Its goroutines are those of http.Server and
// http.Transport. They have ended when Close returns.
type Broker struct {
	cfg    Config
	base   *url.URL
	server *http.Server
	proxy  *httputil.ReverseProxy
	pool   *http.Transport // nil with another transport
	conns  *limited
	all    sync.WaitGroup
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
}

// Serve serves ln, which Close closes.
func Serve(ln net.Listener, cfg Config) (*Broker, error) {
	base, err := cfg.Target.URL()
	if err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, base: base}
	if cfg.transport == nil {
		b.pool = &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connectTime, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: connectTime, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: idleTime,
			MaxResponseHeaderBytes: maxAnswer, DisableCompression: true,
		}
		b.cfg.transport = b.pool
	}
	silent := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // an agent must not fill the log of the server
	b.proxy = &httputil.ReverseProxy{Rewrite: b.rewrite, Transport: b.cfg.transport, FlushInterval: -1, ErrorLog: silent, ErrorHandler: unreachable}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.server = &http.Server{
		Handler: http.HandlerFunc(b.serve), ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHead, ErrorLog: silent,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, placedKey{}, c) },
	}
	b.conns = &limited{Listener: lasting.Listener(ln), places: make(chan struct{}, maxConns), closed: ctx.Done()}
	b.all.Go(func() { _ = b.server.Serve(b.conns) })
	return b, nil
}

// Close closes the listener and all connections.
func (b *Broker) Close() {
	b.cancel()
	_ = b.server.Close()
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.all.Wait()
	if b.pool != nil {
		b.pool.CloseIdleConnections()
	}
}

// enter makes Close wait until the caller has called b.all.Done. It returns
// false if the broker is closed.
func (b *Broker) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.all.Add(1)
	}
	return !b.closed
}

func (b *Broker) serve(w http.ResponseWriter, r *http.Request) {
	if !b.enter() {
		return
	}
	defer b.all.Done()
	admitted := b.admits(r)
	if p, ok := r.Context().Value(placedKey{}).(*placed); ok && admitted {
		b.conns.prove(p)
	}
	switch {
	case !admitted:
		refuse(w, http.StatusUnauthorized, "authentication_error", "Runnel's broker does not know this placeholder. It serves only the agent that it was made for.")
	case r.Method == http.MethodConnect, r.Method == http.MethodTrace: // the API could answer with the key
		refuse(w, http.StatusMethodNotAllowed, "invalid_request_error", "Runnel's broker does not pass on "+r.Method+" requests.")
	case slices.ContainsFunc(r.Header.Values("Content-Type"), isBatch):
		refuse(w, http.StatusUnsupportedMediaType, "invalid_request_error", "Runnel's broker does not pass on batches of requests, because each of them can have a credential of its own.")
	case !b.covers(r.URL):
		refuse(w, http.StatusForbidden, "permission_error", "NETWORK_POLICY_VIOLATION: Runnel's broker reaches only "+b.base.Redacted()+".")
	default:
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			r.Header.Del("Upgrade") // after one to HTTP/2, requests would reach the API unread by this process
		}
		b.proxy.ServeHTTP(w, r)
	}
}

// admits reports whether the request has the placeholder.
func (b *Broker) admits(r *http.Request) bool {
	got := r.Header.Get(b.cfg.Target.Header)
	if b.cfg.Target.Header == Bearer {
		scheme, token, _ := strings.Cut(got, " ")
		if got = token; !strings.EqualFold(scheme, "Bearer") {
			got = ""
		}
	}
	return subtle.ConstantTimeCompare([]byte(got), []byte(b.cfg.Placeholder)) == 1
}

// covers reports whether a request is for the API, and not for another part of
// its host.
func (b *Broker) covers(u *url.URL) bool {
	if u.Host != "" && u.Scheme != "" || !strings.HasPrefix(u.Path, "/") {
		return false // a request to a proxy
	}
	twice, err := url.PathUnescape(u.Path)
	if hasDots(u.Path) || err == nil && hasDots(twice) { // some servers decode twice
		return false
	}
	base := strings.TrimSuffix(b.base.Path, "/")
	return base == "" || u.Path == base || strings.HasPrefix(u.Path, base+"/")
}

// hasDots reports whether a server could read a path as one that leads upwards.
// Some servers read \ as /, and ignore what follows a semicolon.
func hasDots(path string) bool {
	for element := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if name, _, _ := strings.Cut(element, ";"); name == ".." || name == "." {
			return true
		}
	}
	return false
}

// rewrite makes the request to the API.
func (b *Broker) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = b.base.Scheme, b.base.Host, b.base.Host
	for _, name := range slices.Concat(credentials, overrides) {
		r.Out.Header.Del(name)
	}
	r.Out.Trailer = nil // each can have a credential; APIs of models use none
	maps.DeleteFunc(r.Out.Header, func(name string, _ []string) bool { return secretHeader.MatchString(name) })
	if offers := r.Out.Header.Values(subprotocol); len(offers) > 0 {
		r.Out.Header[subprotocol] = withoutKeys(offers)
	}
	q := r.Out.URL.Query()
	all := len(q)
	maps.DeleteFunc(q, func(name string, _ []string) bool { return mayHaveKey(name) })
	if len(q) < all {
		r.Out.URL.RawQuery = q.Encode()
	}
	if n := r.Out.ContentLength; n > 0 && r.Out.Body != nil {
		// After the last byte, the transport reads the body once more, to find its
		// end. The server closes the body when the answer begins. If it is closed
		// before that read, the read fails and the transport cancels the answer.
		r.Out.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(r.Out.Body, n), r.Out.Body}
	}
	value := b.cfg.Key
	if b.cfg.Target.Header == Bearer {
		value = "Bearer " + value
	}
	r.Out.Header.Set(b.cfg.Target.Header, value)
}

// subprotocol is the header of a WebSocket in which pages in a browser, which
// cannot set others, send OpenAI's API a key.
const subprotocol = "Sec-Websocket-Protocol"

// withoutKeys returns the subprotocols that a client offers, without those that
// are a credential or choose an account.
func withoutKeys(offers []string) (out []string) {
	for _, line := range offers {
		for offer := range strings.SplitSeq(line, ",") {
			if offer = strings.TrimSpace(offer); offer != "" && !secretHeader.MatchString(offer) {
				out = append(out, offer)
			}
		}
	}
	return out
}

// isBatch reports whether a body of this type contains whole requests.
func isBatch(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "multipart/mixed" || media == "application/http"
}

// unreachable answers a request for which the API sent no answer.
func unreachable(w http.ResponseWriter, _ *http.Request, _ error) {
	refuse(w, http.StatusBadGateway, "api_error", "Runnel's broker cannot reach the API.")
}

// refuse answers with an error in a form that the APIs share.
func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": kind, "code": kind, "message": message}})
}

// limited accepts at most as many connections as places at the same time. If all
// are occupied, a new one closes the oldest that has not sent the placeholder:
// every user of this machine can connect.
type limited struct {
	net.Listener
	places chan struct{}
	closed <-chan struct{}

	mu       sync.Mutex
	unproven []*placed // oldest first
}

func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case l.places <- struct{}{}:
	default:
		l.closeOldest()
		select {
		case l.places <- struct{}{}:
		case <-l.closed:
			_ = c.Close()
			return nil, net.ErrClosed
		}
	}
	p := &placed{Conn: c}
	p.leave = sync.OnceFunc(func() {
		l.prove(p)
		<-l.places
	})
	l.mu.Lock()
	l.unproven = append(l.unproven, p)
	l.mu.Unlock()
	return p, nil
}

func (l *limited) closeOldest() {
	l.mu.Lock()
	var oldest *placed
	if len(l.unproven) > 0 {
		oldest = l.unproven[0]
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
}

// prove notes that the client of a connection is the agent, or that the
// connection has ended.
func (l *limited) prove(p *placed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unproven = slices.DeleteFunc(l.unproven, func(o *placed) bool { return o == p })
}

// placed is a connection that occupies a place.
type placed struct {
	net.Conn
	leave func()
}

type placedKey struct{}

func (c *placed) Close() error {
	c.leave()
	return c.Conn.Close()
}
