package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// listen binds the configured address, if it is safe to do so. For a loopback
// address it binds both 127.0.0.1 and [::1], if the machine has both, and
// returns one listener for both.
func listen(ctx context.Context, c config, st *sqlite.Store) (net.Listener, error) {
	tokens, err := st.Tokens(ctx, store.TokenAPI)
	if err != nil {
		return nil, err
	}
	loopback, err := auth.CheckListen(c.Listen, auth.Exposure{TLS: c.TLSCert != "", Proxied: c.Proxied, Tokens: len(tokens)})
	if err != nil {
		return nil, err
	}
	if c.TLSCert != "" {
		for path, allowed := range map[string]private.Access{c.TLSCert: private.Read, c.TLSKey: private.Nothing} {
			if unsafe, ok := errors.AsType[*private.Error](private.CheckFile(path, allowed)); ok { // LoadX509KeyPair reports all other errors
				return nil, fmt.Errorf("the certificate or its key: %w", unsafe)
			}
		}
		if _, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
			return nil, usage("the certificate or its key cannot be used: %s", termtext.Clean(err.Error()))
		}
	}
	return bind(ctx, c.Listen, loopback)
}

// bind binds an address, or on loopback its port on both addresses.
func bind(ctx context.Context, address string, loopback bool) (net.Listener, error) {
	if loopback {
		listeners, err := listenLoopback(ctx, address)
		if err != nil {
			return nil, err
		}
		return join(listeners), nil
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, listenError(address, err)
	}
	return ln, nil
}

// freePortTries is how many ports are tried to find one that is free on both
// addresses.
const freePortTries = 100

// listenLoopback binds the port of address on 127.0.0.1 and on [::1]. Browsers
// try both for a name under localhost, [::1] first. A program that listened on
// the other address could receive the code of a login link.
func listenLoopback(ctx context.Context, address string) ([]net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	if hasIPv6Loopback() {
		addrs = append(addrs, netip.IPv6Loopback())
	}
	number, err := strconv.Atoi(port)
	free := err == nil && number == 0
	for range freePortTries {
		var listeners []net.Listener
		if listeners, err = listenAll(ctx, addrs, port); err == nil {
			return listeners, nil
		} else if !free || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, err
}

// listenAll binds one port on all addresses, or on none. For port 0 it uses a
// port that the system chooses on the first address.
func listenAll(ctx context.Context, addrs []netip.Addr, port string) (listeners []net.Listener, err error) {
	for _, a := range addrs {
		at := net.JoinHostPort(a.String(), port)
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
		if err != nil {
			closeAll(listeners)
			return nil, listenError(at, err)
		}
		if listeners = append(listeners, ln); len(listeners) == 1 {
			if _, port, err = net.SplitHostPort(ln.Addr().String()); err != nil {
				closeAll(listeners)
				return nil, err
			}
		}
	}
	return listeners, nil
}

// hasIPv6Loopback reports whether this machine has the address [::1]. If the
// system cannot list its addresses it returns true, and binding the address may
// fail.
func hasIPv6Loopback() bool {
	addrs, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr() == netip.IPv6Loopback()
	})
}

func listenError(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return takenError{termtext.Clean(address)}
	}
	return fmt.Errorf("listen on %s: %w", termtext.Clean(address), err)
}

// A takenError reports that another program listens on the address.
type takenError struct{ address string }

func (e takenError) Error() string {
	return fmt.Sprintf("the address %s is in use by another program; stop that program, or choose another address with --listen, such as 127.0.0.1:0 for a free port", e.address)
}

func (takenError) Unwrap() error { return syscall.EADDRINUSE }

func closeAll(listeners []net.Listener) {
	for _, ln := range listeners {
		_ = ln.Close()
	}
}

// A joined listener accepts connections from several listeners. Its address is
// that of the first one.
type joined struct {
	net.Listener
	all      []net.Listener
	accepted chan accepted
	done     chan struct{} // closed by Close
	once     sync.Once
	work     sync.WaitGroup // the goroutines that accept; Close waits for them
}

type accepted struct {
	conn net.Conn
	err  error
}

func join(listeners []net.Listener) net.Listener {
	j := &joined{Listener: listeners[0], all: listeners, accepted: make(chan accepted), done: make(chan struct{})}
	for _, ln := range listeners {
		j.work.Go(func() { j.acceptFrom(ln) })
	}
	return j
}

// acceptFrom passes the results of ln.Accept to Accept until j is closed. It
// passes errors too: the caller of Accept decides which of them end the server.
func (j *joined) acceptFrom(ln net.Listener) {
	for {
		c, err := ln.Accept()
		select {
		case j.accepted <- accepted{c, err}:
		case <-j.done:
			if err == nil {
				_ = c.Close()
			}
			return
		}
	}
}

func (j *joined) Accept() (net.Conn, error) {
	select {
	case a := <-j.accepted:
		return a.conn, a.err
	case <-j.done:
		return nil, net.ErrClosed
	}
}

func (j *joined) Close() error {
	err := error(nil)
	j.once.Do(func() {
		close(j.done)
		for _, ln := range j.all {
			err = errors.Join(err, ln.Close())
		}
		j.work.Wait()
	})
	return err
}
