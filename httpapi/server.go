// Package httpapi serves the gateway over HTTP: the Session API, turns over
// SSE, the WebSocket, the page and its login.
//
// Every request passes one chain of checks: limits, Host, Origin,
// authentication, scope, handler. The router, the OpenAPI document and the
// tests all use the same list of routes.
package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/conns"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/internal/atonce"
	"github.com/runnel-dev/runnel/push"
)

// Config configures a Server. Gateway and Keyring are required.
type Config struct {
	Gateway *gateway.Gateway
	Keyring *auth.Keyring
	UI      fs.FS         // the built page, index.html at its root; must not change while the server runs. Default: none
	Version string        // reported by /api/health
	Push    *push.Service // sends notes to browsers. Default: none

	Bound       []netip.Addr // addresses beyond loopback that the server listens on. Default: none
	Hosts       []string     // further host names that programs may use for the server. Default: none
	Page        browser.Page // the page's own host name. Default: none, only the hosts of Origins
	Origins     []string     // further origins of the page, such as a proxy's. Default: none
	CORSOrigins []string     // origins of other pages that may call the API with a bearer token. Default: none
	Network     *Network     // the page for other devices of the local network. Default: none
	Proxied     bool         // a proxy in front of the server terminates TLS. Default: false

	DefaultFamily string        // family of a WebSocket whose client sends no hello. Default: upsert-v1
	Heartbeat     time.Duration // interval between comments on a silent SSE stream. Default: 15 s
	WriteStall    time.Duration // maximum time of one write to a client. Default: 15 s
	Limits        Limits

	Audit  *audit.Log          // records logins, credentials, rules and refusals. Default: none
	Redact func(string) string // removes secrets from error messages. Default: removes nothing
	Logger *slog.Logger        // Default: discards
}

// A Server serves the HTTP API and the page. Its methods are safe for
// concurrent use.
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
	limits     Limits
	arriving   arriving
}

// New returns a Server. It starts no goroutines and opens no listener.
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
	if cfg.Network != nil {
		hosts.Network = cfg.Network.Place
	}
	s := &Server{log: cfg.Logger, hosts: hosts, origins: origins, metrics: newMetrics(cfg.Gateway), writeStall: cfg.WriteStall, limits: cfg.Limits}
	s.arriving.most, s.arriving.refuse = cfg.Limits.ArrivingBytes, s.metrics.refuse
	s.reply = reply.Writer{Redact: cfg.Redact, Log: cfg.Logger, Count: s.metrics.answered}
	cookies := browser.Cookies{Proxied: cfg.Proxied}
	s.gate = &gate{keys: cfg.Keyring, cookies: cookies, metrics: s.metrics, log: cfg.Logger, proxied: cfg.Proxied}
	s.gate.audit = newAuditor(cfg.Audit, cfg.Logger)
	visible := access.Sessions{Gateway: cfg.Gateway}
	commands := command.Commands{Sessions: visible}
	s.streams = stream.New(stream.Config{
		Gateway: cfg.Gateway, Keyring: cfg.Keyring, Sessions: visible, Commands: commands, Reply: s.reply,
		Metrics: s.metrics.ofStreams(), Lacks: s.gate.lacks,
		DefaultFamily: cfg.DefaultFamily, Heartbeat: cfg.Heartbeat, WriteStall: cfg.WriteStall,
		Limits: cfg.Limits.ofStreams(), Reached: s.metrics.reached, Arriving: s.arriving.message,
	})
	gateway.RetentionOf(cfg.Gateway).OnDelete(s.streams.Deleted)
	files := &fileRoutes{gw: cfg.Gateway, files: gateway.FilesOf(cfg.Gateway), limits: cfg.Limits, refuse: s.metrics.refuse, atOnce: atonce.Limit{Most: maxFilesAtOnce}}
	sessions := &sessions{
		gw: cfg.Gateway, visible: visible, commands: commands, streams: s.streams, limits: cfg.Limits, refuse: s.metrics.refuse, redact: cfg.Redact,
		count: files.count, combining: make(chan struct{}, maxCombining), atOnce: atonce.Limit{Most: maxFilesAtOnce},
		searches: atonce.Limit{Most: maxSearchesAtOnce}, totals: atonce.Limit{Most: maxTotalsAtOnce}, lists: atonce.Limit{Most: maxListsAtOnce},
	}
	harness := &harness{gw: cfg.Gateway, visible: visible, commands: commands, sessions: sessions, streams: s.streams}
	account := &account{keys: cfg.Keyring, gate: s.gate, cookies: cookies, page: cfg.Page, network: cfg.Network, version: cfg.Version, push: cfg.Push}
	about := &about{metrics: s.metrics}
	page, err := newPage(cfg.UI).routes()
	if err != nil {
		return nil, err
	}
	api := apiRoutes(sessions, &profiles{cfg.Gateway}, &rulebook{cfg.Gateway.Approvals()}, files, s.streams, harness, account, s.gate.audit, about)
	s.router = newRouter(visible, s.reply, slices.Concat(api, page, cfg.Network.routes()))
	about.list = s.router.list
	about.document = sync.OnceValues(func() ([]byte, error) { return describe(api) })
	return s, nil
}

// apiRoutes returns the routes that the OpenAPI document describes.
func apiRoutes(sessions *sessions, profiles *profiles, rules *rulebook, files *fileRoutes, streams *stream.Streams, harness *harness, account *account, trail auditor, about *about) []route {
	return slices.Concat(
		tagged(tagSessions, slices.Concat(sessions.routes(), sessions.housekeepingRoutes(), queues{sessions.gw, sessions.commands}.routes(), sessions.conversationRoutes(), sessions.usageRoutes(), sessions.retentionRoutes(), sessions.searchRoutes(), sessions.importRoutes(), mcp{gateway.MCPOf(sessions.gw)}.routes())), tagged(tagChanges, slices.Concat(sessions.changeRoutes(), worktrees{sessions}.routes())), tagged(tagProfiles, profiles.routes()), tagged(tagRules, rules.routes()), tagged(tagFiles, files.routes()), tagged(tagStreams, streamRoutes(streams)),
		tagged(tagHarness, harness.routes()), tagged(tagAccount, slices.Concat(account.routes(), account.pushRoutes(), trail.routes())), tagged(tagServer, about.routes()))
}

// tagged sets the tag of a group on its routes, and returns them.
func tagged(tag string, list []route) []route {
	for i := range list {
		list[i].tag = tag
	}
	return list
}

// complete sets the defaults.
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

// HTTPServer returns an http.Server that serves s. Its limits belong to the
// chain of checks. It has no write timeout for a whole response, because
// streams have no end; each write has its own deadline.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		HTTP2:             &http.HTTP2Config{WriteByteTimeout: s.writeStall}, // for frames that no handler writes; statusWriter bounds the writes of handlers
		MaxHeaderBytes:    1 << 20,                                           // fits all cookies that a browser keeps for one host; Config.Limits bounds everything else
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnState:         conns.State,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { // called once for each connection
			return conns.WithConn(browser.WithPeer(ctx, c), c)
		},

		DisableGeneralOptionsHandler: true, // OPTIONS * passes the chain, too
	}
}

// Limits of connections with TLS. Over HTTP/2, 4 kB can stand for a megabyte of
// headers. Requests whose headers are malformed or too long do not reach the
// chain of checks: net/http answers them itself and keeps them in memory until
// the client lets it write the answer. Each connection can hold as many of them
// as it has streams.
const (
	tlsHeader  = 64 << 10 // bytes of the headers of a request, with cookies
	tlsStreams = 100      // requests on one connection at once
)

// HTTPSServer is like [Server.HTTPServer], for connections with TLS, which may
// use HTTP/2. Its limits on headers and streams are lower.
func (s *Server) HTTPSServer() *http.Server {
	hs := s.HTTPServer()
	hs.MaxHeaderBytes = tlsHeader
	hs.HTTP2.MaxConcurrentStreams = tlsStreams
	hs.WriteTimeout = reply.Timeout // for answers that net/http writes itself; statusWriter replaces it
	return hs
}

// Limit returns a listener that accepts from ln at most open connections at
// once. Of these, at most unauthenticated may have sent no valid credential.
// The metrics count the connections.
func (s *Server) Limit(ln net.Listener, open, unauthenticated int) net.Listener {
	limited := conns.Limit(ln, conns.Limits{Open: open, Unauthenticated: unauthenticated}, s.metrics.reached)
	s.metrics.listening(limited)
	return limited
}

// TLS returns a listener of connections with TLS that are accepted from ln,
// which is from [Server.Limit]. certificate is as in [tls.Config]. hs must be
// from [Server.HTTPSServer], and must serve the listener with Serve.
func (s *Server) TLS(ln net.Listener, certificate conns.Certificate, hs *http.Server) net.Listener {
	return conns.TLS(ln, certificate, hs.ReadHeaderTimeout, func(remote net.Addr, err error) {
		s.log.Debug("TLS handshake failed", slog.String("remote", remote.String()), slog.String("error", err.Error()))
	})
}

// Shutdown ends every stream, and shuts down all servers, which are from
// HTTPServer or HTTPSServer, at once: it waits until all requests have been
// answered. When ctx ends, Shutdown closes
// the connections that remain, and logs their number. Their clients do not read
// the responses.
func (s *Server) Shutdown(ctx context.Context, servers ...*http.Server) error {
	results := make(chan error, len(servers))
	ended := s.EndStreams(ctx)
	for _, hs := range servers {
		go func() { results <- hs.Shutdown(ctx) }()
	}
	err := ended
	for range servers {
		err = errors.Join(err, <-results)
	}
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	open, _ := s.metrics.conns.counts()
	s.log.LogAttrs(ctx, slog.LevelWarn, "connections cut off at shutdown, because their clients did not read the responses in time", slog.Int("connections", open))
	var failed []error
	for _, hs := range servers {
		failed = append(failed, hs.Close())
	}
	return errors.Join(failed...)
}

// EndStreams ends every open stream: a WebSocket with code 1001, an SSE stream
// at a frame boundary. The clients receive the position from which they can
// resume. EndStreams returns once all streams have ended, or with ctx's error.
func (s *Server) EndStreams(ctx context.Context) error { return s.streams.End(ctx) }
