package agentconn

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// shortPath returns a short path of a name in a directory, which is valid while
// the directory is open.
func shortPath(open *os.File, _, name string) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(open.Fd())), name)
}

// nonblocking makes calls for a listener return at once, as the runtime expects.
func nonblocking(ln *net.TCPListener) {
	if c, err := ln.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _ = syscall.SetNonblock(int(fd), true) })
	}
}
