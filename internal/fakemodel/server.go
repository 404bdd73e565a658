package fakemodel

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxBody bounds the body of a request, in bytes. Agents send the whole
// conversation in each request, including images.
const maxBody = 64 << 20

// Config has the options of a [Server]. The zero value is ready to use.
type Config struct {
	Addr      string              // host:port, loopback only. Default: 127.0.0.1 and a free port
	Scenarios map[string]Scenario // by name, in addition to the built-in ones
}

// A Server is a scripted model API. Its methods may be called by any goroutine
// at any time.
type Server struct {
	url      string
	http     *http.Server
	named    map[string]Scenario
	served   chan struct{}  // closed when the accept loop has ended
	handlers sync.WaitGroup // Add is called under mu, and not after closed is set

	mu       sync.Mutex // guards the following fields
	closed   bool
	requests []Request
	grown    chan struct{} // closed and replaced when requests grow
	counts   map[string]int
	gates    map[string]*Gate
	own      []ownRequest
}

// A Request is a request that an agent sent.
type Request struct {
	N      int // position in order of arrival, from 1
	At     time.Time
	Method string
	Path   string // with the query
	Header http.Header
	Body   []byte
}

// Start starts a server. It fails for an invalid scenario and for an address
// that is not on loopback. The caller must close the server.
func Start(cfg Config) (*Server, error) {
	for name, sc := range cfg.Scenarios {
		if err := sc.validate(); err != nil {
			return nil, fmt.Errorf("fakemodel: scenario %q: %w", name, err)
		}
	}
	addr := cmp.Or(cfg.Addr, "127.0.0.1:0")
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("fakemodel: address: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("fakemodel: %q is not a loopback address", host)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("fakemodel: %w", err)
	}
	if !ln.Addr().(*net.TCPAddr).IP.IsLoopback() { // a hosts file can give localhost another address
		ln.Close()
		return nil, fmt.Errorf("fakemodel: %q does not resolve to loopback", host)
	}
	s := &Server{
		url: "http://" + ln.Addr().String(), named: builtin(), served: make(chan struct{}),
		grown: make(chan struct{}), counts: make(map[string]int), gates: make(map[string]*Gate),
	}
	maps.Copy(s.named, cfg.Scenarios)
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.served)
		s.http.Serve(ln) // always returns an error, normally ErrServerClosed
	}()
	return s, nil
}

// URL returns the base URL of the server, without a trailing slash.
func (s *Server) URL() string { return s.url }

// Close closes all connections. It returns after all goroutines of the server
// have ended.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := s.http.Close()
	<-s.served
	s.handlers.Wait()
	return err
}

// Gate returns the gate with this name. All steps with the same name share the
// gate.
func (s *Server) Gate(name string) *Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[name] == nil {
		s.gates[name] = newGate()
	}
	return s.gates[name]
}

// Requests returns the requests so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Received reports whether the body of any request so far contains what. JSON
// escapes are not decoded.
func (s *Server) Received(what string) bool {
	return slices.ContainsFunc(s.Requests(), func(r Request) bool { return bytes.Contains(r.Body, []byte(what)) })
}

// Await returns the first request for which match returns true. It waits for
// the request if it has not arrived yet, and fails if ctx ends first.
func (s *Server) Await(ctx context.Context, match func(Request) bool) (Request, error) {
	for {
		s.mu.Lock()
		seen, grown := s.requests, s.grown // append-only: the prefix never changes
		s.mu.Unlock()
		if i := slices.IndexFunc(seen, match); i >= 0 {
			return seen[i], nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return Request{}, ctx.Err()
		}
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		return
	}
	defer s.handlers.Done()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "request body: "+err.Error(), http.StatusBadRequest)
		return
	}
	n := s.log(r, body)
	w.Header().Set("Request-Id", fmt.Sprintf("req_fake%06d", n))
	s.route(w, r, body)
}

func (s *Server) route(w http.ResponseWriter, r *http.Request, body []byte) {
	switch path := r.URL.Path; {
	case path == "/":
		w.WriteHeader(http.StatusOK)
	case path == "/v1/messages":
		s.serve(anthropic{}, w, r, body)
	case path == "/v1/messages/count_tokens":
		countTokens(w, body)
	case path == "/v1/responses":
		s.serve(responses{}, w, r, body)
	case path == "/v1/chat/completions":
		s.serve(chat{}, w, r, body)
	case path == "/v1/models" && r.Method == http.MethodGet:
		writeJSON(w, http.StatusOK, object{
			"object": "list", "data": []object{{"id": "fake-model", "object": "model", "owned_by": "fake"}}, "models": []object{},
		})
	case strings.HasPrefix(path, "/v1beta/models/"):
		s.gemini(w, r, body)
	default:
		anthropic{}.refuse(w, Failure{Status: http.StatusNotFound, Message: "no such route"})
	}
}

// enter reports whether the server is open. If it is, the caller is counted in
// handlers and must call handlers.Done.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.handlers.Add(1)
	}
	return !s.closed
}

func (s *Server) log(r *http.Request, body []byte) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = len(s.requests) + 1
	s.requests = append(s.requests, Request{
		N: n, At: time.Now(), Method: r.Method, Path: r.URL.RequestURI(),
		Header: r.Header.Clone(), Body: bytes.Clone(body),
	})
	close(s.grown)
	s.grown = make(chan struct{})
	return n
}

// count increments the counter of key and returns its new value.
func (s *Server) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[key]++
	return s.counts[key]
}

// pause waits for d. It fails if the client disconnects first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
