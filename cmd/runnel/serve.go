package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi"
	"github.com/runnel-dev/runnel/internal/filepages"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/store/sqlite"
	"github.com/runnel-dev/runnel/ui"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start the server: the web page and the API",
		Long: `Start the server with the web page and the API. The server prints a link that
logs one browser in; 'runnel login' prints another link. The server stores all
data in one data directory. Only one server at a time can use that directory.

You can give each setting as a flag, as an environment variable such as
RUNNEL_LISTEN, or as a line such as "listen: 127.0.0.1:7317" in the
configuration file. A flag overrides a variable, and a variable overrides the
file.

` + a.agentsHelp() + `

` + optionsHelp + `

` + limitsHelp + `

By default, the server listens on this machine only: on 127.0.0.1 and, if the
machine has IPv6, on [::1]. Browsers open the page at a random host name that no
other program has used, such as http://RANDOM.localhost:7317. Programs use
http://127.0.0.1:7317 and a token. If your browser cannot resolve the random
name (Safari before macOS 26) or runs on another machine, set --origin to a URL
at which it can open the page.

To accept connections from other machines, the server needs a certificate (or
--proxied) and a token. Create the token with 'runnel token create' before you
start the server.`,
		Example: `  runnel serve
  runnel serve --listen 127.0.0.1:0 --data /tmp/try
  RUNNEL_LOG_LEVEL=info runnel serve
  runnel serve --listen 0.0.0.0:443 --origin https://runnel.example.org \
    --tls-cert cert.pem --tls-key key.pem`,
		Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			if err := a.useAgents(c.file, c.agents); err != nil {
				return err
			}
			if err := a.useLimits(c.file, c.agentLimits); err != nil {
				return err
			}
			if err := a.useOptions(c.file, c.options); err != nil {
				return err
			}
			if err := a.checkOptions(c.AllowBypass); err != nil {
				return err
			}
			return a.serve(cmd.Context(), c)
		},
	}
	serveFlags(cmd.Flags())
	return cmd
}

// shutdownTime is the timeout of an orderly shutdown: once for streams and
// requests, and once more for agents.
const shutdownTime = 20 * time.Second

// waitingTime is how long a waiting request, such as one that starts an agent,
// may continue after the server was asked to stop.
const waitingTime = 3 * time.Second

// serve runs the server until a signal stops it.
func (a *app) serve(ctx context.Context, c config) (err error) {
	if err := refuseAgent(c.Data); err != nil {
		return err
	}
	if err := a.enableLimits(); err != nil { // before anything starts a process
		return err
	}
	log := a.logger(c)
	for _, harden := range []func() (func(), error){hideMemory, adoptOrphans} {
		undo, err := harden()
		if err != nil {
			log.Warn("a protection is not available on this system", "error", err)
			continue
		}
		defer undo()
	}
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: c.Data, CompactAfter: cmp.Or(c.CompactAfter, time.Nanosecond), Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	index, closeIndex := openSearch(ctx, c, st.LogID(), log)
	defer func() { err = errors.Join(err, closeIndex()) }()
	sealer, err := a.loadKey(c)
	if err != nil {
		return err
	}
	trail, err := a.openAudit(c, sealer, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trail.Close()) }()
	keys := auth.NewKeyring(st)
	keys.Seen = func(secret string) { a.issued.Add(secret) }
	if err := keys.Purge(ctx); err != nil { // such as on a full disk; the next login tries again
		log.Warn("expired logins could not be removed", "error", err)
	}
	ln, err := listen(ctx, c, st)
	if err != nil {
		return err
	}
	defer ln.Close()
	place, err := findPage(c, ln)
	if err != nil {
		return err
	}
	network, err := a.openNetwork(ctx, c, place.port, log)
	if err != nil {
		return err
	}
	defer network.end()
	place.network = network

	a.knowKeys(c.agents)
	a.warnOfSwitch(c)
	a.warnOfLinks(c.TrustedFolders)
	signals, ignore := firstEndSignal() // from now on there may be agents to stop
	defer ignore()
	gw, err := gateway.Open(ctx, gateway.Config{
		Log: st, Catalogue: st, Providers: a.providers, DataDir: c.Data, TrustedDirs: c.TrustedFolders, AllowBypass: c.AllowBypass, Protected: guardedBy(c), RefusedPorts: portOf(ln),
		ApprovalTimeout: c.ApprovalTimeout, StallTimeout: c.StallTimeout, IdleTimeout: c.IdleTimeout, ReattachWindow: c.ReattachWindow,
		ProfilesDir: c.ProfilesDir, Profile: c.Profile, GovernedDelegation: c.GovernedDelegation,
		Retention: gateway.RetentionPolicy{Age: c.RetentionAge, Bytes: int64(c.RetentionMiB) * mib},
		Prewarm:   c.Prewarm, PrewarmAge: c.PrewarmAge, Conversations: c.ListConversations, Search: index, KeepUnknown: c.KeepUnknown, MCPWrites: c.MCPWrites, Sealer: sealer, Limits: c.Limits.ofGateway(), Options: a.options, Filter: a.filter, Audit: auditSink(trail, log), AuditDeletion: trail.Append, Logger: log,
	})
	if err != nil {
		return err
	}
	end := gw.Close
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		err = errors.Join(err, end(ctx))
	}()
	page, built := ui.Dist()
	if !built {
		a.stderrf("runnel: warning: this program does not contain the page; build it with 'make build'. The API works without the page.")
	}
	notes, endNotes := startNotes(ctx, c, gw, st, sealer, log)
	defer endNotes()
	srv, err := httpapi.New(httpapi.Config{
		Gateway: gw, Keyring: keys, UI: page, Version: version(), Push: notes,
		Bound: bound(ln), Hosts: c.Hosts, Page: place, Origins: c.Origins, CORSOrigins: c.CORSOrigins, Network: network.forAPI(), Proxied: c.Proxied,
		DefaultFamily: c.StreamFamily, Limits: c.Limits.ofServer(), Audit: trail, Redact: a.secrets.String, Logger: log,
	})
	if err != nil {
		return err
	}
	listeners, err := a.listeners(ctx, c, srv, ln, network)
	if err != nil {
		return err
	}
	if err := a.announce(ctx, place, keys); err != nil {
		return err
	}
	if err := trail.Append(audit.Record{Kind: audit.Started, What: c.guards(ln.Addr().String())}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trail.Append(audit.Record{Kind: audit.Stopped})) }()
	defer os.Remove(redirectFile(c.Data))
	defer giveBackWhileIdle(ctx)()
	log.Info("serving", "address", ln.Addr().String(), "socket", c.Socket, "data", c.Data)
	defer log.Info("server stopped")
	sig, err := a.serveUntilSignal(ctx, srv, listeners, signals)
	if sig == syscall.SIGTERM { // a service manager that may restart the server sends it
		end = gw.HandOver
	}
	return err
}

// giveBackWhileIdle gives memory back whenever the server is idle. end ends that.
func giveBackWhileIdle(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { filepages.WhileIdle(ctx) })
	return func() {
		cancel()
		work.Wait()
	}
}

// A certificateFunc is a GetCertificate function of a [tls.Config].
type certificateFunc func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// A listening is a listener and the certificate for its connections; nil if
// they do not use TLS.
type listening struct {
	net.Listener
	certificate certificateFunc
}

// certificate returns the configured certificate, or nil if there is none.
func (c config) certificate() (certificateFunc, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, usage("the certificate or its key cannot be used: %s", termtext.Clean(err.Error()))
	}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }, nil
}

// listeners returns all listeners of the server with their limits: that of the
// address, that of the network, if any, and that of the unix socket, which it
// creates.
func (a *app) listeners(ctx context.Context, c config, srv *httpapi.Server, ln net.Listener, network *network) (list []listening, err error) {
	onAddress, onSocket, err := c.Limits.connections(descriptors())
	if err != nil {
		return nil, err
	}
	unauthenticated := c.Limits.MaxUnauthenticatedConnections
	add := func(ln net.Listener, most int, certificate certificateFunc) {
		list = append(list, listening{srv.Limit(ln, most, min(unauthenticated, most)), certificate})
	}
	if network != nil { // it gets half of the connections, so that devices of the network cannot take those of this machine
		onAddress = max(1, onAddress/2)
		add(network.listener, onAddress, network.certificates.Get)
	}
	certificate, err := c.certificate()
	if err != nil {
		return nil, err
	}
	add(ln, onAddress, certificate)
	if c.Socket != "" {
		sock, err := listenSocket(ctx, c)
		if err != nil {
			return nil, err
		}
		add(sock, onSocket, nil)
	}
	return list, nil
}

// serveUntilSignal serves on all listeners until a signal arrives on signals or
// a listener fails. It then shuts down in order and returns the signal.
func (a *app) serveUntilSignal(ctx context.Context, srv *httpapi.Server, listeners []listening, signals <-chan os.Signal) (sig os.Signal, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asking, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	var servers []*http.Server
	work, failed := errgroup.WithContext(ctx)
	for _, l := range listeners {
		hs, ln := srv.HTTPServer(), l.Listener
		if l.certificate != nil {
			hs = srv.HTTPSServer()
			ln = srv.TLS(ln, l.certificate, hs)
		}
		hs.BaseContext = func(net.Listener) context.Context { return asking }
		servers = append(servers, hs)
		work.Go(func() error {
			if err := hs.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	select {
	case sig = <-signals:
		cancel()
	case <-failed.Done():
	}
	time.AfterFunc(waitingTime, leave)
	end, cancelEnd := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancelEnd()
	err = srv.Shutdown(end, servers...)
	return sig, errors.Join(err, work.Wait())
}

// maxSocketPath is the longest socket path, in bytes, that fits into the
// kernel's structure on every system.
const maxSocketPath = 100

// listenSocket creates the unix socket. It replaces a socket that an earlier
// server has left at the path. It refuses one on which a program listens, such
// as a server with another data directory: the command line of that server would
// reach this one.
func listenSocket(ctx context.Context, c config) (net.Listener, error) {
	path := c.Socket
	if len(path) > maxSocketPath {
		return nil, usage("the path of the unix socket is too long for the system: %s; choose a shorter path with --socket, or disable the socket with --socket off", termtext.Clean(path))
	}
	if dir := filepath.Dir(path); dir != c.Data {
		if err := private.Dir(dir); err != nil {
			return nil, fmt.Errorf("unix socket: %w", err)
		}
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, usage("%s is not a socket; choose another path with --socket", termtext.Clean(path))
		}
		c, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			_ = c.Close()
		}
		if err == nil || errors.Is(err, syscall.EAGAIN) { // EAGAIN: too many wait for the program to accept them
			return nil, usage("another program listens on the unix socket %s; stop it, or choose another path with --socket, or disable the socket with --socket off", termtext.Clean(path))
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("unix socket: %w", err)
		}
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("unix socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("unix socket: %w", err)
	}
	return ln, nil
}

func (a *app) logger(c config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // the value was checked with the configuration
	opt := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(a.secrets.Handler(slog.NewJSONHandler(a.err, opt)))
	}
	return slog.New(a.secrets.Handler(slog.NewTextHandler(a.err, opt)))
}
