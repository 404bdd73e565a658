package testapi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
)

// FreeAddr returns an address on loopback with an unused port, for a server
// that stops and starts again. The port is below 32768. From there on the
// system assigns ports to any program, which could take the port while the
// server is stopped.
func FreeAddr(t testing.TB) string {
	t.Helper()
	const first, ports = 20_000, 12_000
	for range 100 {
		port := first + rand.IntN(ports)
		if addr := fmt.Sprint("127.0.0.1:", port); free(addr) && free(fmt.Sprint("[::1]:", port)) {
			return addr
		}
	}
	t.Fatalf("found no free port from %d to %d", first, first+ports-1)
	return ""
}

// free reports whether no program listens at an address. An address that this
// machine does not have counts as free.
func free(addr string) bool {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE)
	}
	return ln.Close() == nil
}
