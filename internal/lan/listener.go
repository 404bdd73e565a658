package lan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// A Listener accepts connections at one port of several addresses, which may
// change. Its methods are safe for concurrent use.
type Listener struct {
	port string
	find func() ([]netip.Addr, error)

	accepted chan accepted
	done     chan struct{}  // closed by Close
	work     sync.WaitGroup // the goroutines that accept; Close waits for them

	mu    sync.Mutex
	open  map[netip.Addr]net.Listener // nil after Close
	addrs []netip.Addr                // keys of open, in the order of find
}

type accepted struct {
	conn net.Conn
	err  error
}

// Listen listens at the port of the addresses that find returns. There may be
// none yet. It fails if another program uses the port at one of them.
func Listen(ctx context.Context, port string, find func() ([]netip.Addr, error)) (*Listener, error) {
	l := &Listener{port: port, find: find, accepted: make(chan accepted), done: make(chan struct{}), open: make(map[netip.Addr]net.Listener)}
	if err := l.Refresh(ctx); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// Refresh listens at new addresses of the machine, and stops listening at those
// that it no longer has. An address that the machine cannot use yet is left for
// the next call. Other addresses are listened at even if Refresh returns an
// error.
func (l *Listener) Refresh(ctx context.Context) error {
	found, err := l.find()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return net.ErrClosed
	}
	for a, ln := range l.open {
		if !slices.Contains(found, a) {
			_ = ln.Close()
			delete(l.open, a)
		}
	}
	var failed []error
	l.addrs = slices.DeleteFunc(slices.Clone(found), func(a netip.Addr) bool {
		err := l.listenAt(ctx, a)
		if err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			failed = append(failed, err)
		}
		return err != nil
	})
	return errors.Join(failed...)
}

func (l *Listener) listenAt(ctx context.Context, a netip.Addr) error { // l.mu is held
	if l.open[a] != nil {
		return nil
	}
	at := net.JoinHostPort(a.String(), l.port)
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", at, err)
	}
	l.open[a] = ln
	l.work.Go(func() { l.acceptFrom(ln) })
	return nil
}

// acceptFrom passes the results of ln.Accept to Accept until one of the two
// listeners is closed. It passes errors too: the caller of Accept decides which
// of them end the server.
func (l *Listener) acceptFrom(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select {
		case l.accepted <- accepted{c, err}:
		case <-l.done:
			if err == nil {
				_ = c.Close()
			}
			return
		}
	}
}

// Addrs returns the addresses at which l listens, in the order of preference.
func (l *Listener) Addrs() []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.addrs)
}

// Port returns the port at which l listens.
func (l *Listener) Port() string { return l.port }

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Addr implements [net.Listener]. It returns the preferred address, or the port
// alone while there is no address.
func (l *Listener) Addr() net.Addr {
	addr := new(net.TCPAddr)
	addr.Port, _ = strconv.Atoi(l.port)
	if addrs := l.Addrs(); len(addrs) > 0 {
		addr.IP = addrs[0].AsSlice()
	}
	return addr
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.mu.Lock()
	open := l.open
	l.open, l.addrs = nil, nil
	l.mu.Unlock()
	if open == nil {
		return nil
	}
	close(l.done)
	var failed []error
	for _, ln := range open {
		failed = append(failed, ln.Close())
	}
	l.work.Wait()
	return errors.Join(failed...)
}
