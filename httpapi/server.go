// Package httpapi is the gateway over HTTP: the Session API, the turn over SSE,
// the WebSocket, the page and its login.
//
// Every request, whatever it asks for, goes through one chain: limits, Host,
// Origin, authentication, scope, handler. The routes are one list, from which
// the router, the OpenAPI document and the tests are made.
package httpapi

import (
	"cmp"
	"context"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/conns"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// Config is what a Server needs. Gateway and Keyring are required.
type Config struct {
	Gateway *gateway.Gateway
	Keyring *auth.Keyring
	UI      fs.FS  // the built page, index.html at its root. Default: none
	Version string // told by /api/health

	Bound       []netip.Addr // addresses beyond loopback that we listen on. Default: none
	Hosts       []string     // further names that programs may use. Default: none
	Page        browser.Page // the page's own place. Default: none, only those of Origins
	Origins     []string     // further origins of the page, such as a proxy's. Default: none
	CORSOrigins []string     // other pages that may call us with a bearer token. Default: none
	Proxied     bool         // a proxy in front of us speaks TLS. Default: false

	DefaultFamily string        // what a WebSocket speaks without a hello. Default: upsert-v1
	Heartbeat     time.Duration // between comments on a silent SSE stream. Default: 15 s
	WriteStall    time.Duration // how long one write to a client may take. Default: 15 s
	Limits        Limits

	Redact func(string) string // takes secrets out of the messages of errors. Default: nothing is taken out
	Logger *slog.Logger        // Default: discards
}

// A Server answers HTTP. Its methods may be called from anywhere.
type Server struct {
	log     *slog.Logger
	reply   reply.Writer
	hosts   browser.Hosts
	origins *browser.Origins
	gate    *gate
	router  *router
	streams *stream.Streams
	metrics *metrics

	writeStall time.Duration
	arriving   arriving
}

// New returns a Server. It starts nothing.
func New(cfg Config) (*Server, error) {
	cfg.complete()
	origins, err := browser.NewOrigins(cfg.Origins, cfg.CORSOrigins)
	if err != nil {
		return nil, err
	}
	hosts, err := browser.NewHosts(cfg.Bound, cfg.Hosts, cfg.Page, cfg.Origins)
	if err != nil {
		return nil, err
	}
	s := &Server{log: cfg.Logger, hosts: hosts, origins: origins, metrics: newMetrics(cfg.Gateway), writeStall: cfg.WriteStall}
	s.reply = reply.Writer{Redact: cfg.Redact, Log: cfg.Logger, Count: s.metrics.answered}
	cookies := browser.Cookies{Proxied: cfg.Proxied}
	s.gate = &gate{keys: cfg.Keyring, cookies: cookies, metrics: s.metrics, log: cfg.Logger, proxied: cfg.Proxied}
	visible := access.Sessions{Gateway: cfg.Gateway}
	commands := command.Commands{Sessions: visible}
	s.streams = stream.New(stream.Config{
		Gateway: cfg.Gateway, Keyring: cfg.Keyring, Sessions: visible, Commands: commands, Reply: s.reply,
		Metrics: s.metrics.ofStreams(), Lacks: s.gate.lacks,
		DefaultFamily: cfg.DefaultFamily, Heartbeat: cfg.Heartbeat, WriteStall: cfg.WriteStall,
		Limits: cfg.Limits.ofStreams(), Reached: s.metrics.reached,
	})
	sessions := &sessions{gw: cfg.Gateway, visible: visible, commands: commands, limits: cfg.Limits, reached: s.metrics.reached}
	harness := &harness{gw: cfg.Gateway, visible: visible, commands: commands, sessions: sessions, streams: s.streams}
	account := &account{keys: cfg.Keyring, gate: s.gate, cookies: cookies, page: cfg.Page, version: cfg.Version}
	about := &about{metrics: s.metrics}
	page, err := newPage(cfg.UI).routes()
	if err != nil {
		return nil, err
	}
	api := apiRoutes(sessions, &profiles{cfg.Gateway}, &rulebook{cfg.Gateway.Approvals()}, s.streams, harness, account, about)
	s.router = newRouter(visible, s.reply, slices.Concat(api, page))
	about.list = s.router.list
	about.document, err = describe(api)
	return s, err
}

// apiRoutes returns the routes that the document describes.
func apiRoutes(sessions *sessions, profiles *profiles, rules *rulebook, streams *stream.Streams, harness *harness, account *account, about *about) []route {
	return slices.Concat(
		tagged(tagSessions, sessions.routes()), tagged(tagProfiles, profiles.routes()), tagged(tagRules, rules.routes()), tagged(tagStreams, streamRoutes(streams)),
		tagged(tagHarness, harness.routes()), tagged(tagAccount, account.routes()), tagged(tagServer, about.routes()))
}

// tagged returns the routes with the tag of the group that they belong to.
func tagged(tag string, list []route) []route {
	for i := range list {
		list[i].tag = tag
	}
	return list
}

// complete puts the defaults in.
func (cfg *Config) complete() {
	cfg.DefaultFamily = cmp.Or(cfg.DefaultFamily, stream.FamilyUpsert)
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, 15*time.Second)
	cfg.WriteStall = cmp.Or(cfg.WriteStall, 15*time.Second)
	cfg.Limits.complete()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Redact == nil {
		cfg.Redact = func(s string) string { return s }
	}
}

// HTTPServer returns the http.Server to serve s with: its limits are part of
// the chain. There is no write timeout for the whole of an answer, since
// streams have no end; each write has its own deadline.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		HTTP2:             &http.HTTP2Config{WriteByteTimeout: s.writeStall}, // for frames that no handler writes; statusWriter bounds the writes of handlers
		MaxHeaderBytes:    1 << 20,                                           // fits all cookies that a browser keeps for one host
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnState:         conns.State,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { // once for all requests of a connection
			return conns.WithConn(browser.WithPeer(ctx, c), c)
		},

		DisableGeneralOptionsHandler: true, // OPTIONS * goes through the chain, too
	}
}

// Limit returns a listener that accepts from ln at most so many connections at
// once, of which so many may have shown no credential. Metrics count them.
func (s *Server) Limit(ln net.Listener, open, unauthenticated int) net.Listener {
	limited := conns.Limit(ln, conns.Limits{Open: open, Unauthenticated: unauthenticated}, s.metrics.reached)
	s.metrics.listening(limited)
	return limited
}

// EndStreams ends every open stream: a WebSocket with code 1001, an SSE stream
// at a frame boundary. Their clients get the position to resume after. It
// returns once they have ended, or with ctx's error.
func (s *Server) EndStreams(ctx context.Context) error { return s.streams.End(ctx) }
