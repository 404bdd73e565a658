package conns

import (
	"errors"
	"net"
	"syscall"

	"github.com/runnel-dev/runnel/internal/rawio"
)

// newSender returns nil if conn has no socket.
func newSender(conn net.Conn) *Sender {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	s := &Sender{conn: conn, raw: raw, lock: make(chan struct{}, 1)}
	s.try = func(fd uintptr) { s.n, s.err = rawio.Send(fd, s.p) }
	return s
}

// send sends what the socket takes of p. It uses RawConn.Control and not
// RawConn.Write, because the latter fails after the deadline of an earlier
// write.
func (s *Sender) send(p []byte) (int, error) {
	s.p, s.n, s.err = p, 0, nil
	err := s.raw.Control(s.try)
	s.p = nil
	return s.n, errors.Join(err, s.err)
}
