//go:build !linux

package agentconn

import (
	"net"
	"os"
	"path/filepath"
)

func shortPath(_ *os.File, dir, name string) string { return filepath.Join(dir, name) }

// nonblocking does nothing: no process gets a copy of a listener on this system.
func nonblocking(*net.TCPListener) {}
