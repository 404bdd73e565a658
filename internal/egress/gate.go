package egress

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/internal/bridge"
)

// gate receives the connections of programs from the bridge, at most as many as
// places at the same time. As a listener it returns those on which programs send
// requests; it passes the others to direct.
type gate struct {
	net.Listener // the bridge's end
	secret       string
	ctx          context.Context // ends with the proxy
	direct       func(program net.Conn, port int)
	places       chan struct{}
	ready        chan net.Conn
	all          sync.WaitGroup
}

func newGate(ctx context.Context, ln net.Listener, secret string, direct func(net.Conn, int)) *gate {
	return &gate{Listener: ln, secret: secret, ctx: ctx, direct: direct, places: make(chan struct{}, maxConns), ready: make(chan net.Conn)}
}

// pause is how long the gate waits after it could not accept a connection, such
// as without a free descriptor.
const pause = 50 * time.Millisecond

// run returns after the proxy was closed, when all connections that did not
// become those of the HTTP server have ended.
func (g *gate) run() {
	defer g.all.Wait()
	for {
		select {
		case g.places <- struct{}{}:
		case <-g.ctx.Done():
			return
		}
		c, err := g.Listener.Accept()
		switch {
		case err == nil:
			g.all.Go(func() { g.admit(c.(*net.UnixConn)) })
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		<-g.places
		select {
		case <-time.After(pause):
		case <-g.ctx.Done():
		}
	}
}

// admit receives the connection of a program.
func (g *gate) admit(from *net.UnixConn) {
	_ = from.SetDeadline(time.Now().Add(headTime))
	stop := context.AfterFunc(g.ctx, func() { _ = from.SetDeadline(time.Unix(1, 0)) })
	c, port, err := bridge.Receive(from, g.secret)
	stop()
	_ = from.Close()
	if err != nil {
		<-g.places
		return
	}
	program := &admitted{TCPConn: c, leave: sync.OnceFunc(func() { <-g.places })}
	if port != 0 {
		g.direct(program, port)
		return
	}
	select {
	case g.ready <- program:
	case <-g.ctx.Done():
		_ = program.Close()
	}
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case c := <-g.ready:
		return c, nil
	case <-g.ctx.Done():
		return nil, net.ErrClosed
	}
}

// admitted is the connection of a program, which has a place until it is closed.
type admitted struct {
	*net.TCPConn
	leave func()
}

func (c *admitted) Close() error {
	c.leave()
	return c.TCPConn.Close()
}

// plainConn returns the connection below an admitted one. The system copies
// between plain connections without this process.
func plainConn(c net.Conn) net.Conn {
	if a, ok := c.(*admitted); ok {
		return a.TCPConn
	}
	return c
}
