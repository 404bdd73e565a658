//go:build !linux

package bridge

import (
	"errors"
	"net"
)

// Main does nothing: only Linux has sandboxes.
func Main() {}

// Receive fails, because there are no bridges.
func Receive(*net.UnixConn, string) (*net.TCPConn, int, error) { return nil, 0, errors.ErrUnsupported }
