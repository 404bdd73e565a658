package conns

import (
	"net"
	"net/http"
	"syscall"
)

// A Sender is a connection to whose client a handler can write without waiting.
// It bypasses net/http: the handler writes whole chunks, or whole frames of a
// protocol, and nothing else writes to the connection meanwhile, except what
// may stand between them.
type Sender struct {
	conn net.Conn
	raw  syscall.RawConn

	lock chan struct{} // held to write; it guards the following fields
	rest []byte        // what TryWrite has accepted and the socket has not taken yet

	// The argument and results of try, which is stored so that no call allocates
	// a closure.
	try func(fd uintptr)
	p   []byte
	n   int
	err error
}

// Unwrapped returns the Sender of the connection of r. It returns nil if what a
// handler writes is not what passes over the connection, as with TLS, or if the
// system cannot write without waiting. Nothing may write to the connection
// meanwhile.
func Unwrapped(r *http.Request) *Sender {
	c, _ := r.Context().Value(key{}).(*Conn)
	if c == nil || r.TLS != nil || r.ProtoMajor != 1 || r.ProtoMinor != 1 {
		return nil
	}
	if c.sender == nil {
		c.sender = newSender(c.Conn)
	}
	return c.sender
}

// TryWrite sends p without waiting. If another goroutine is writing, or an
// earlier TryWrite has left something, it sends nothing and returns false. If
// the socket does not take all of p, TryWrite keeps the rest, which the next
// Write or Flush sends first, and full is true. The caller may use p again.
func (s *Sender) TryWrite(p []byte) (sent, full bool) {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	default:
		return false, false
	}
	if len(s.rest) > 0 {
		return false, false
	}
	n, err := s.send(p)
	if n == 0 && err != nil {
		return false, false // the next write of p fails in the same way
	}
	s.rest = append(s.rest, p[n:]...)
	return true, n < len(p)
}

// Flush sends what TryWrite has left. It waits for the client until the write
// deadline of the connection.
func (s *Sender) Flush() error {
	_, err := s.write(nil)
	return err
}

// write sends what TryWrite has left, and then p. It waits for the client.
func (s *Sender) write(p []byte) (int, error) {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	if len(s.rest) > 0 {
		n, err := s.conn.Write(s.rest)
		if err != nil {
			s.rest = s.rest[n:]
			return 0, err
		}
		s.rest = nil
	}
	if len(p) == 0 {
		return 0, nil
	}
	return s.conn.Write(p)
}
