// Package conns bounds the connections of a listener, so that callers without a
// credential cannot take the file descriptors that running turns need.
package conns

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Limits bound the connections of one listener. Both are required.
type Limits struct {
	Open            int // connections at once
	Unauthenticated int // of them, those on which no credential was accepted yet
}

// The settings that the limits are called by.
const (
	MaxConnections                = "max-connections"
	MaxUnauthenticatedConnections = "max-unauthenticated-connections"
)

// A Listener accepts connections within limits. What is accepted when there are
// too many without a credential takes the place of the oldest of them, of the
// address that has the most. When there are too many in all, an idle one is
// closed; without an idle one the new connection is answered 503 and closed.
type Listener struct {
	net.Listener
	limits  Limits
	reached func(setting string)

	mu        sync.Mutex
	open      int
	strangers map[netip.Addr]*list.List // of *Conn without a credential by address, oldest first
	unknown   int                       // how many there are in strangers
	idle      list.List                 // of *Conn with a credential and no request, oldest first
}

// Limit returns a Listener that accepts from ln. Reached is called with the
// name of the setting each time a limit closes a connection; it must not block.
func Limit(ln net.Listener, limits Limits, reached func(setting string)) *Listener {
	return &Listener{Listener: ln, limits: limits, reached: reached, strangers: make(map[netip.Addr]*list.List)}
}

// Counts returns how many connections are open, and how many of them have shown
// no credential.
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
		_, _ = raw.Write(full(l.limits.Open)) // fits into the empty buffer of the socket
		_ = raw.Close()
	}
}

// admit counts c as an open connection if there is a place for it. It returns
// the connection that is closed in its favour, if any, and the setting whose
// limit was reached.
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
		if victim == nil {
			return nil, reached, false
		}
	}
	if victim != nil {
		l.remove(victim)
	}
	same := l.strangers[c.from]
	if same == nil {
		same = list.New()
		l.strangers[c.from] = same
	}
	c.state, c.at = unknown, same.PushBack(c)
	l.unknown++
	l.open++
	return victim, reached, true
}

// oldest returns the oldest connection without a credential, of the address
// that has the most; nil if there is none. l.mu is held.
func (l *Listener) oldest() *Conn {
	var most *list.List
	for _, same := range l.strangers {
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

// leave takes c out of the list in which it is. l.mu is held.
func (l *Listener) leave(c *Conn) {
	switch c.state {
	case unknown:
		same := l.strangers[c.from]
		same.Remove(c.at)
		if same.Len() == 0 {
			delete(l.strangers, c.from)
		}
		l.unknown--
	case idle:
		l.idle.Remove(c.at)
	}
}

// remove counts c out. l.mu is held.
func (l *Listener) remove(c *Conn) {
	if c.state == gone {
		return
	}
	l.leave(c)
	c.state = gone
	l.open--
}

// state says what may become of a connection when there are too many.
type state int

const (
	unknown state = iota // no credential was accepted on it
	busy                 // a caller with a credential uses it
	idle                 // a caller with a credential has used it
	gone
)

// A Conn is a connection of a Listener.
type Conn struct {
	net.Conn
	l    *Listener
	from netip.Addr

	answering atomic.Bool  // a handler has begun to answer a request
	public    atomic.Int32 // requests that are served without a credential

	state state         // guarded by l.mu, like the next
	at    *list.Element // in the list of its state
}

// NetConn returns the connection that was accepted.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// CloseWrite ends what we send, if the connection can do that.
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

// Write implements [net.Conn]. What net/http answers to a request that it
// cannot parse becomes an error in the form of the API.
func (c *Conn) Write(p []byte) (int, error) {
	if c.answering.Load() {
		return c.Conn.Write(p)
	}
	if answer, ok := inShape(p); ok {
		if _, err := c.Conn.Write(answer); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// authenticated records that a credential was accepted on c.
func (c *Conn) authenticated() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.state == unknown {
		c.l.leave(c)
		c.state = busy
	}
}

// rest records whether c waits for a request.
func (c *Conn) rest(yes bool) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	switch {
	case yes && c.state == busy:
		c.state, c.at = idle, c.l.idle.PushBack(c)
	case !yes && c.state == idle:
		c.l.leave(c)
		c.state = busy
	}
}

// State is a ConnState of an [http.Server].
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

// of returns the Conn below a connection that the server handles, if any.
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

// WithConn is a ConnContext of an [http.Server].
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, key{}, of(conn))
}

// Answering records that a handler has begun to answer r.
func Answering(r *http.Request) {
	if c, _ := r.Context().Value(key{}).(*Conn); c != nil {
		c.answering.Store(true)
	}
}

// Authenticated records that a credential was accepted in r: from now on the
// connection does not count as one without.
func Authenticated(r *http.Request) {
	if c, _ := r.Context().Value(key{}).(*Conn); c != nil {
		c.authenticated()
	}
}

// Sever closes the connection of r, and with it all of its requests.
func Sever(r *http.Request) {
	if c, _ := r.Context().Value(key{}).(*Conn); c != nil {
		_ = c.Close()
	}
}

// maxPublic is how many requests of a connection are served at once without a
// credential. Over HTTP/2 each would hold a place for as long as its body may
// take.
const maxPublic = 16

// Public counts in a request that is served without a credential. It reports
// false if its connection has too many; else the caller calls done at the end.
func Public(r *http.Request) (done func(), ok bool) {
	c, _ := r.Context().Value(key{}).(*Conn)
	if c == nil {
		return func() {}, true
	}
	if c.public.Add(1) > maxPublic {
		c.public.Add(-1)
		return nil, false
	}
	return func() { c.public.Add(-1) }, true
}

func address(a net.Addr) netip.Addr {
	if a == nil {
		return netip.Addr{}
	}
	ap, _ := netip.ParseAddrPort(a.String()) // none on the unix socket
	return ap.Addr().Unmap().WithZone("")
}
