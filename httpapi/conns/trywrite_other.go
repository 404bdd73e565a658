//go:build !linux

package conns

import (
	"errors"
	"net"
)

func newSender(net.Conn) *Sender { return nil }

func (s *Sender) send([]byte) (int, error) { return 0, errors.ErrUnsupported }
