package testapi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
)

// FreeAddr returns an address of this machine, with a port that nobody uses,
// for a server that stops and starts again. The system gives ports from 32768
// to whoever asks for any, so one of those might be taken while the server is
// down.
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

// free reports whether nobody listens at an address, also on machines that lack
// its kind of addresses.
func free(addr string) bool {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE)
	}
	return ln.Close() == nil
}
