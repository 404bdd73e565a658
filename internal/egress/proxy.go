package egress

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An Attempt is a connection that a program in a sandbox tried to make.
type Attempt struct {
	ID       string // unique; an allowed attempt is reported when it begins and when it ends
	At       time.Time
	Host     string // as the program named it
	Port     int
	By       string // what allowed it; "" if it was blocked
	Why      string // why it was blocked or failed; "" if it was connected
	Sent     int64  // bytes from the program
	Received int64  // bytes to the program
	Open     bool   // it has not ended
}

// An Answer is what Config.Ask returns.
type Answer struct {
	By  string // what allows the host; "" if it is refused
	Why string // why it is refused
}

// Config configures a Proxy.
type Config struct {
	Policy Policy
	Secret string        // what the bridge sends with each connection
	Report func(Attempt) // called from several goroutines; must not block. Default: none

	// Ask asks whether a program may reach a host that no entry of the policy
	// allows, if Policy.Ask is set. The host is an address in its usual
	// form, or a name in the program's letter case, because a secret in it may
	// have capitals. Ask is called from several goroutines, before the name is resolved:
	// resolving it would already send its text to the network. Ask returns soon
	// after ctx has ended. Default: the host is refused.
	Ask func(ctx context.Context, host string, port int) Answer

	resolve func(ctx context.Context, host string) ([]netip.Addr, error) // Default: the system's resolver
	dial    func(ctx context.Context, address string) (net.Conn, error)  // Default: TCP
	own     func() []netip.Addr                                          // addresses of this machine. Default: those of its interfaces
}

// The bounds of a proxy.
const (
	maxConns    = 256              // connections at the same time; further ones wait
	maxIdle     = 16               // connections to hosts that are kept for the next plain HTTP request
	headTime    = 10 * time.Second // for a handover, and for the head of a request
	connectTime = 15 * time.Second // for resolving a name and connecting
	maxHead     = 32 << 10         // bytes of the head of a request
	maxHost     = 255              // bytes of a host in a report
)

// A Proxy serves the connections of one sandbox. Its goroutines are that of
// http.Server.Serve, that of gate.run, and two per connection. They have ended
// when Close returns.
type Proxy struct {
	cfg    Config
	server *http.Server
	plain  *httputil.ReverseProxy
	pool   *http.Transport
	ctx    context.Context // ends with the proxy
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool // tunnels, both ends
	closed bool
}

// Serve serves ln, which Close closes.
func Serve(ln net.Listener, cfg Config) *Proxy {
	if cfg.Report == nil {
		cfg.Report = func(Attempt) {}
	}
	if cfg.resolve == nil {
		cfg.resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if cfg.dial == nil {
		cfg.dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	if cfg.own == nil {
		cfg.own = interfaces
	}
	p := &Proxy{cfg: cfg, open: make(map[net.Conn]bool)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.pool = &http.Transport{DialContext: p.dialPlain, IdleConnTimeout: time.Minute, MaxIdleConns: maxIdle, MaxIdleConnsPerHost: 4, DisableCompression: true}
	silent := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // programs in a sandbox must not fill the log of the server
	p.plain = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.Header.Del("Proxy-Authorization") }, Transport: p.pool, FlushInterval: -1, ErrorLog: silent,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if b, ok := errors.AsType[*blockedError](err); ok {
				refuse(w, b)
				return
			}
			http.Error(w, "the host cannot be reached", http.StatusBadGateway)
		},
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: headTime, MaxHeaderBytes: maxHead, ErrorLog: silent,
		BaseContext: func(net.Listener) context.Context { return p.ctx },
	}
	g := newGate(p.ctx, ln, cfg.Secret, p.direct)
	p.all.Go(g.run)
	p.all.Go(func() { _ = p.server.Serve(g) })
	return p
}

// Close closes the listener and all connections.
func (p *Proxy) Close() {
	p.cancel()
	_ = p.server.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.all.Wait()
	p.pool.CloseIdleConnections()
}

// interfaces returns the addresses of this machine.
func interfaces() (out []netip.Addr) {
	list, _ := net.InterfaceAddrs() // without them, only loopback addresses count as this machine
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out
}

// A blockedError is why the policy blocks an attempt.
type blockedError struct {
	host string
	port int
	why  string
}

func (e *blockedError) Error() string {
	return fmt.Sprintf("NETWORK_POLICY_VIOLATION: Runnel blocks %s: %s", net.JoinHostPort(e.host, strconv.Itoa(e.port)), e.why)
}

func refuse(w http.ResponseWriter, e *blockedError) {
	w.Header().Set("X-Runnel-Error", "NETWORK_POLICY_VIOLATION")
	http.Error(w, e.Error(), http.StatusForbidden)
}

// programKey is the key of the context that ends when the program of a plain HTTP
// request leaves. The context of the request's dial has its values, but does not
// end with it.
type programKey struct{}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		return
	}
	defer p.all.Done()
	switch {
	case r.Method == http.MethodConnect:
		p.connect(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		p.plain.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), programKey{}, r.Context())))
	default:
		http.Error(w, "this is a proxy: send CONNECT requests, or http requests with the whole URL", http.StatusBadRequest)
	}
}

// connect serves a CONNECT request.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := split(r.Host)
	if err != nil || port == 0 || host == "" || len(host) > maxHost {
		http.Error(w, "CONNECT needs a host and a port", http.StatusBadRequest)
		return
	}
	out, a, err := p.dial(r.Context(), host, port)
	if err != nil {
		if b, ok := errors.AsType[*blockedError](err); ok {
			refuse(w, b)
			return
		}
		http.Error(w, "the host cannot be reached", http.StatusBadGateway)
		return
	}
	in, buf, err := w.(http.Hijacker).Hijack()
	if err != nil {
		p.end(out, a, 0, 0)
		return
	}
	_ = in.SetDeadline(time.Time{})
	early, _ := buf.Reader.Peek(buf.Reader.Buffered())
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		p.end(out, a, 0, 0)
		_ = in.Close()
		return
	}
	p.tunnel(in, early, out, a)
}

// direct connects a program to a loopback port of the machine, which the
// program has reached for without a request. It returns when the connection has
// ended.
func (p *Proxy) direct(in net.Conn, port int) {
	out, a, err := p.dial(p.ctx, "127.0.0.1", port)
	if err != nil {
		_ = in.Close()
		return
	}
	p.tunnel(in, nil, out, a)
}

// tunnel copies between a program and a host until both have ended, or until
// the proxy is closed. early is what the program has already sent.
func (p *Proxy) tunnel(in net.Conn, early []byte, out net.Conn, a Attempt) {
	if !p.track(in, out) {
		p.end(out, a, 0, 0)
		_ = in.Close()
		return
	}
	var sent int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err := out.Write(early)
		if sent = int64(n); err == nil {
			n, _ := io.Copy(out, plainConn(in))
			sent += n
		}
		closeWrite(out)
	}()
	received, _ := io.Copy(plainConn(in), out)
	closeWrite(plainConn(in))
	<-done
	p.mu.Lock()
	delete(p.open, in)
	delete(p.open, out)
	p.mu.Unlock()
	_ = in.Close()
	p.end(out, a, sent, received)
}

// enter makes Close wait until the caller has called p.all.Done. It returns
// false if the proxy is closed.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.all.Add(1)
	}
	return !p.closed
}

// track remembers a tunnel, so that Close closes it. It returns false if the
// proxy is closed.
func (p *Proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	for _, c := range conns {
		p.open[c] = true
	}
	return true
}

func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
		return
	}
	_ = c.Close()
}

// dial connects to a host if the policy allows it, and reports the attempt. The
// caller passes the attempt to end.
func (p *Proxy) dial(ctx context.Context, host string, port int) (net.Conn, Attempt, error) {
	a := Attempt{ID: rand.Text(), At: time.Now(), Host: host, Port: port}
	v := p.cfg.Policy.judge(host, port)
	asked := v.why != "" && v.askable && p.cfg.Policy.Ask && p.cfg.Ask != nil
	if asked {
		host, v = p.ask(ctx, host, port, v)
	}
	a.By, a.Why = v.by, v.why
	var c net.Conn
	var err error
	if a.Why == "" {
		ctx, cancel := context.WithTimeout(ctx, connectTime)
		defer cancel()
		var addresses []netip.Addr
		if addresses, a.Why, err = p.addresses(ctx, strings.ToLower(host), port, v.loopback); a.Why == "" && err == nil {
			c, err = p.dialAny(ctx, addresses, port)
		}
	}
	switch {
	case a.Why != "":
		if asked && v.why == "" {
			a.Why += "; an answer to a question cannot allow that, only egress.allow can"
		}
		a.By, err = "", &blockedError{host, port, a.Why}
	case err != nil:
		a.Why = "cannot be reached"
	default:
		a.Open = true
	}
	p.cfg.Report(a)
	return c, a, err
}

// ask lets Config.Ask decide about a host that the policy does not allow. It
// returns the host in its canonical form.
func (p *Proxy) ask(ctx context.Context, host string, port int, v verdict) (string, verdict) {
	plain, err := canonical(host)
	if err != nil {
		return host, v
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if program, ok := ctx.Value(programKey{}).(context.Context); ok {
		defer context.AfterFunc(program, cancel)()
	}
	asked := plain
	if spelled := strings.TrimSuffix(host, "."); strings.EqualFold(spelled, plain) {
		asked = spelled
	}
	answer := p.cfg.Ask(ctx, asked, port)
	switch {
	case answer.By != "" && answer.Why == "":
		return plain, verdict{by: answer.By}
	case answer.Why != "":
		v.why = answer.Why
	}
	return plain, v
}

// addresses resolves a host that the policy allows. why says why the policy does
// not allow the addresses.
func (p *Proxy) addresses(ctx context.Context, host string, port int, loopback bool) (out []netip.Addr, why string, err error) {
	if loopback {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, "", nil
	}
	ip, err := netip.ParseAddr(host)
	found := []netip.Addr{ip}
	if err != nil {
		if found, err = p.cfg.resolve(ctx, host); err != nil {
			return nil, "", err
		}
	}
	own := p.cfg.own()
	for _, ip := range found {
		ip = ip.Unmap()
		if no := p.cfg.Policy.check(ip, port, own); no != "" {
			why = no
			continue
		}
		out = append(out, ip)
	}
	if len(out) > 0 {
		why = ""
	} else if why == "" {
		err = errors.New("no address")
	}
	return out, why, err
}

// dialAny connects to the first address that accepts.
func (p *Proxy) dialAny(ctx context.Context, addresses []netip.Addr, port int) (net.Conn, error) {
	var all []error
	for _, ip := range addresses {
		c, err := p.cfg.dial(ctx, netip.AddrPortFrom(ip, uint16(port)).String())
		if err == nil {
			return c, nil
		}
		all = append(all, err)
	}
	return nil, errors.Join(all...)
}

// end closes the connection of an attempt and reports its end.
func (p *Proxy) end(c net.Conn, a Attempt, sent, received int64) {
	_ = c.Close()
	a.Open, a.Sent, a.Received = false, sent, received
	p.cfg.Report(a)
}

// dialPlain is the DialContext of plain HTTP requests.
func (p *Proxy) dialPlain(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := split(address)
	if err != nil || port == 0 || len(host) > maxHost {
		return nil, &blockedError{host, port, "it is not a host and a port"}
	}
	c, a, err := p.dial(ctx, host, port)
	if err != nil {
		return nil, err
	}
	return &counted{Conn: c, ended: func(sent, received int64) { p.end(c, a, sent, received) }}, nil
}

// counted counts the bytes of a connection.
type counted struct {
	net.Conn
	sent, received atomic.Int64
	once           sync.Once
	ended          func(sent, received int64)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

func (c *counted) Close() error {
	c.once.Do(func() { c.ended(c.sent.Load(), c.received.Load()) })
	return nil
}
