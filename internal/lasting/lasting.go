// Package lasting keeps a listener accepting after errors that pass.
package lasting

import (
	"errors"
	"net"
	"syscall"
)

// Listener returns ln such that an [http.Server] does not end if accepting a
// connection fails for a reason that can pass. The kernel reports more of them
// than net does: for example, a program of the user can use up the watches of
// epoll that all programs of the user share (ENOSPC).
func Listener(ln net.Listener) net.Listener { return listener{ln} }

type listener struct{ net.Listener }

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && !ended(err) {
		return nil, passing{err}
	}
	return c, err
}

// ended reports whether a listener that returned err will accept no further
// connection.
func ended(err error) bool {
	for _, last := range []error{net.ErrClosed, syscall.EBADF, syscall.EINVAL, syscall.ENOTSOCK} {
		if errors.Is(err, last) {
			return true
		}
	}
	return false
}

// passing is a [net.Error] after which an [http.Server] waits and tries again.
type passing struct{ error }

func (e passing) Unwrap() error { return e.error }
func (passing) Timeout() bool   { return false }
func (passing) Temporary() bool { return true }
