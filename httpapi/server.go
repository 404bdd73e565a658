// Package httpapi is the gateway over HTTP: the Session API, the turn over SSE,
// the WebSocket, the page and its login.
//
// Every request, whatever it asks for, goes through one chain: limits, Host,
// Origin, authentication, scope, handler. The routes are one list, from which
// the router, the OpenAPI document and the tests are made.
package httpapi

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
)

// Config is what a Server needs. Gateway and Keyring are required.
type Config struct {
	Gateway *gateway.Gateway
	Keyring *auth.Keyring
	UI      fs.FS  // the built page, index.html at its root. Default: none
	Version string // told by /api/health

	Bound       []netip.Addr // addresses beyond loopback that we listen on. Default: none
	Hosts       []string     // further names we answer to. Default: none
	Origins     []string     // where our own page is served from, if a proxy changes its origin. Default: none
	CORSOrigins []string     // other pages that may call us with a bearer token. Default: none
	Proxied     bool         // a proxy in front of us speaks TLS. Default: false

	DefaultFamily string        // what a WebSocket speaks without a hello. Default: upsert-v1
	Heartbeat     time.Duration // between comments on a silent SSE stream. Default: 15 s
	WriteStall    time.Duration // how long one write to a client may take. Default: 15 s
	StreamsPerID  int           // open streams of one credential. Default: 256
	Limits        Limits        // of one credential
	Streams       int           // open streams in all. Default: 20,000

	Redact func(string) string // takes secrets out of the messages of errors. Default: nothing is taken out
	Logger *slog.Logger        // Default: discards
}

// A Server answers HTTP. Its methods may be called from anywhere.
type Server struct {
	cfg         Config
	log         *slog.Logger
	gw          *gateway.Gateway
	keys        *auth.Keyring
	hosts       hosts
	crossOrigin *http.CrossOriginProtection
	mux         *http.ServeMux
	routes      map[string]*route // by pattern
	list        []*route
	metrics     *metrics
	document    []byte // the OpenAPI document
	streams     streams
	endings     endings
	made, sent  budget // sessions and uploads, by credential
	exports     streams

	ctx  context.Context // of open streams; ends with errShutdown
	stop context.CancelCauseFunc
}

// New returns a Server. It starts nothing.
func New(cfg Config) (*Server, error) {
	if cfg.DefaultFamily == "" {
		cfg.DefaultFamily = familyUpsert
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 15 * time.Second
	}
	if cfg.WriteStall == 0 {
		cfg.WriteStall = 15 * time.Second
	}
	if cfg.StreamsPerID == 0 {
		cfg.StreamsPerID = 256
	}
	if cfg.Streams == 0 {
		cfg.Streams = 20_000
	}
	cfg.Limits.complete()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Redact == nil {
		cfg.Redact = func(s string) string { return s }
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, gw: cfg.Gateway, keys: cfg.Keyring,
		hosts: newHosts(cfg.Bound, cfg.Hosts), crossOrigin: http.NewCrossOriginProtection(),
		mux: http.NewServeMux(), routes: make(map[string]*route),
	}
	for _, o := range append(append([]string(nil), cfg.Origins...), cfg.CORSOrigins...) {
		if err := s.crossOrigin.AddTrustedOrigin(o); err != nil {
			return nil, err
		}
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.metrics = newMetrics(s)
	if err := s.addRoutes(); err != nil {
		return nil, err
	}
	return s, nil
}

// HTTPServer returns the http.Server to serve s with: its limits are part of
// the chain. There is no write timeout for the whole of an answer, since
// streams have no end; each write has its own deadline.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnContext:       withPeer, // once for all requests of a connection

		DisableGeneralOptionsHandler: true, // OPTIONS * goes through the chain, too
	}
}

// EndStreams ends every open stream: a WebSocket with code 1001, an SSE stream
// at a frame boundary. Their clients are told where to resume. It returns once they have
// ended, or with ctx's error.
func (s *Server) EndStreams(ctx context.Context) error {
	s.stop(errShutdown)
	return s.streams.wait(ctx)
}

// streams counts what is open.
type streams struct {
	mu   sync.Mutex
	n    int
	byID map[string]int
	idle chan struct{} // if non-nil, closed when n falls to zero
}

// open takes a place for a stream of id.
func (st *streams) open(id string, most, mostPerID int) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.n >= most || st.byID[id] >= mostPerID {
		return false
	}
	if st.byID == nil {
		st.byID = make(map[string]int)
	}
	st.n++
	st.byID[id]++
	return true
}

func (st *streams) close(id string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.n--
	if st.byID[id]--; st.byID[id] == 0 {
		delete(st.byID, id)
	}
	if st.n == 0 && st.idle != nil {
		close(st.idle)
		st.idle = nil
	}
}

func (st *streams) wait(ctx context.Context) error {
	st.mu.Lock()
	if st.n == 0 {
		st.mu.Unlock()
		return nil
	}
	if st.idle == nil {
		st.idle = make(chan struct{})
	}
	idle := st.idle
	st.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newID() string { return uuid.NewString() }
