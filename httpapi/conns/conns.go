// Package conns bounds the connections of a listener, so that clients without a
// credential cannot use up the file descriptors that running turns need.
package conns

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/runnel-dev/runnel/internal/lasting"
)

// Limits bound the connections of one listener. Both fields are required.
type Limits struct {
	Open            int // maximum number of open connections
	Unauthenticated int // maximum number of these without an accepted credential
}

// The names of the settings that set the limits.
const (
	MaxConnections                = "max-connections"
	MaxUnauthenticatedConnections = "max-unauthenticated-connections"
)

// A Listener accepts connections within limits. At the limit for connections
// without a credential, a new connection replaces one of them: the oldest
// connection of the address that has the most. The addresses of an IPv6 network
// of 64 bits count as one address. At the limit for all connections, a new
// connection replaces such a connection too, or else the connection that has
// been idle longest. If there is no connection to replace, the new connection
// receives a 503 and is closed.
type Listener struct {
	net.Listener
	limits  Limits
	reached func(setting string)

	mu              sync.Mutex
	open            int
	unauthenticated map[netip.Addr]*list.List // lists of *Conn without a credential, by remote address, oldest first
	unknown         int                       // number of connections in unauthenticated
	idle            list.List                 // *Conn with a credential that wait for a request, longest idle first
}

// Limit returns a Listener that accepts from ln. Each time a limit closes a
// connection, the Listener calls reached with the name of the setting; reached
// must not block.
func Limit(ln net.Listener, limits Limits, reached func(setting string)) *Listener {
	return &Listener{Listener: lasting.Listener(ln), limits: limits, reached: reached, unauthenticated: make(map[netip.Addr]*list.List)}
}

// Counts returns how many connections are open, and how many of them have sent
// no accepted credential.
func (l *Listener) Counts() (open, unauthenticated int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.unknown
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: raw, l: l, from: address(raw.RemoteAddr())}
		victim, reached, ok := l.admit(c)
		if reached != "" {
			l.reached(reached)
		}
		if victim != nil {
			_ = victim.Close()
		}
		if ok {
			return c, nil
		}
		_, _ = raw.Write(full(reached, l.limits)) // does not block: fits into the socket's empty send buffer
		_ = raw.Close()
	}
}

// admit counts c as an open connection if the limits allow it. It returns the
// connection to close instead, if any, and the setting whose limit was reached,
// if any. If ok is false, the caller rejects c.
func (l *Listener) admit(c *Conn) (victim *Conn, reached string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.unknown >= l.limits.Unauthenticated:
		victim, reached = l.oldest(), MaxUnauthenticatedConnections
	case l.open >= l.limits.Open:
		reached = MaxConnections
		if victim = l.oldest(); victim == nil {
			if e := l.idle.Front(); e != nil {
				victim, _ = e.Value.(*Conn)
			}
		}
	}
	switch {
	case victim != nil:
		l.remove(victim)
	case reached != "":
		return nil, reached, false
	}
	same := l.unauthenticated[c.from]
	if same == nil {
		same = list.New()
		l.unauthenticated[c.from] = same
	}
	c.state, c.at = unknown, same.PushBack(c)
	l.unknown++
	l.open++
	return victim, reached, true
}

// oldest returns the oldest connection without a credential of the address that
// has the most; nil if there is none. The caller holds l.mu.
func (l *Listener) oldest() *Conn {
	var most *list.List
	for _, same := range l.unauthenticated {
		if most == nil || same.Len() > most.Len() {
			most = same
		}
	}
	if most == nil {
		return nil
	}
	c, _ := most.Front().Value.(*Conn)
	return c
}

// unlist removes c from the list that it is in. The caller holds l.mu.
func (l *Listener) unlist(c *Conn) {
	switch c.state {
	case unknown:
		same := l.unauthenticated[c.from]
		same.Remove(c.at)
		if same.Len() == 0 {
			delete(l.unauthenticated, c.from)
		}
		l.unknown--
	case idle:
		l.idle.Remove(c.at)
	}
}

// remove stops counting c as open. The caller holds l.mu.
func (l *Listener) remove(c *Conn) {
	if c.state == gone {
		return
	}
	l.unlist(c)
	c.state = gone
	l.open--
}

// state decides which connections are closed first at a limit.
type state int

const (
	unknown state = iota // no credential was accepted on the connection
	busy                 // a credential was accepted, and a request is running
	idle                 // a credential was accepted, and no request is running
	gone
)

// A Conn is a connection of a Listener.
type Conn struct {
	net.Conn
	l    *Listener
	from netip.Addr

	answering atomic.Bool  // a handler has begun to serve a request
	public    atomic.Int32 // number of running requests without a credential
	sender    *Sender      // nil unless a handler has asked for it

	state state         // guarded by l.mu, like at
	at    *list.Element // element in the list of its state
}

// NetConn returns the connection that was accepted.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the sending half of the connection, if the connection
// supports that.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	c.l.mu.Lock()
	c.l.remove(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// Write implements [net.Conn]. It converts the responses that net/http itself
// writes to requests that it cannot parse into errors in the form of the API.
func (c *Conn) Write(p []byte) (int, error) { return c.convert(p, c.writeAll) }

// convert writes p with write. If no handler is serving a request and p is a
// response that net/http itself has written, convert converts it.
func (c *Conn) convert(p []byte, write func([]byte) (int, error)) (int, error) {
	if c.answering.Load() {
		return write(p)
	}
	answer, ok := inShape(p)
	if !ok {
		return write(p)
	}
	if _, err := write(answer); err != nil {
		return 0, err
	}
	return len(p), nil
}

// authenticated records that a credential was accepted on c.
func (c *Conn) authenticated() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.state == unknown {
		c.l.unlist(c)
		c.state = busy
	}
}

func (c *Conn) writeAll(p []byte) (int, error) {
	if c.sender != nil {
		return c.sender.write(p)
	}
	return c.Conn.Write(p)
}

// rest records whether c is idle. An idle connection waits for a request.
func (c *Conn) rest(yes bool) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	switch {
	case yes && c.state == busy:
		c.state, c.at = idle, c.l.idle.PushBack(c)
	case !yes && c.state == idle:
		c.l.unlist(c)
		c.state = busy
	}
}

// State is the ConnState function of an [http.Server]. It records when
// connections become idle and active.
func State(conn net.Conn, st http.ConnState) {
	c := of(conn)
	if c == nil {
		return
	}
	switch st {
	case http.StateIdle:
		c.answering.Store(false)
		c.rest(true)
	case http.StateActive:
		c.rest(false)
	}
}

// of returns the Conn that conn wraps, or nil.
func of(conn net.Conn) *Conn {
	for {
		switch c := conn.(type) {
		case *Conn:
			return c
		case interface{ NetConn() net.Conn }: // TLS
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

type key struct{}

// WithConn is the ConnContext function of an [http.Server]. It makes the Conn
// available to the functions below that get a request.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, key{}, of(conn))
}

// Answering records that a handler has begun to serve r.
func Answering(r *http.Request) {
	if c, _ := r.Context().Value(key{}).(*Conn); c != nil {
		c.answering.Store(true)
	}
}

// Authenticated records that a credential was accepted in r. From now on its
// connection counts as one with a credential.
func Authenticated(r *http.Request) {
	if c, _ := r.Context().Value(key{}).(*Conn); c != nil {
		c.authenticated()
	}
}

// CloseConn closes the connection of r, which ends all requests on it.
func CloseConn(r *http.Request) {
	if c, _ := r.Context().Value(key{}).(*Conn); c != nil {
		_ = c.Close()
	}
}

// Public counts a request without a credential as running. It reports false if
// most of them already run on its connection; otherwise the caller calls done
// when the request ends. Over HTTP/2 many could otherwise wait for slow bodies
// on a single connection.
func Public(r *http.Request, most int) (done func(), ok bool) {
	c, _ := r.Context().Value(key{}).(*Conn)
	if c == nil {
		return func() {}, true
	}
	if int(c.public.Add(1)) > most {
		c.public.Add(-1)
		return nil, false
	}
	return func() { c.public.Add(-1) }, true
}

// address returns the address by which connections are compared: an IPv4
// address, also in IPv6 form, or the first address of an IPv6 network of 64
// bits. It is the zero address on a unix socket.
func address(a net.Addr) netip.Addr {
	if a == nil {
		return netip.Addr{}
	}
	ap, _ := netip.ParseAddrPort(a.String()) // fails on a unix socket, which has no IP address
	addr := ap.Addr().Unmap().WithZone("")
	if addr.Is6() {
		network, _ := addr.Prefix(64) // cannot fail: an IPv6 address has more bits
		return network.Addr()
	}
	return addr
}
