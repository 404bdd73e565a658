package auth

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Exposure describes what protects an address that other machines can reach.
type Exposure struct {
	TLS     bool // the server itself uses TLS
	Proxied bool // the operator stated that a proxy in front of the server uses TLS
	Tokens  int  // number of credentials
}

// IsLoopback reports whether a server may listen on an address without any
// protection, because only this machine can reach it.
func IsLoopback(address string) bool {
	loopback, err := CheckListen(address, Exposure{})
	return err == nil && loopback
}

// CheckListen returns an error if the server must not listen on an address: one
// that is not loopback and not protected. It reports whether the address is
// loopback; the server then listens on both 127.0.0.1 and [::1]. Call
// CheckListen before binding. It never resolves a name.
func CheckListen(address string, e Exposure) (loopback bool, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("listen address %q: want host:port", address)
	}
	if host == "localhost" {
		return true, nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil && host != "" {
		return false, fmt.Errorf("listen address %q: want localhost or an IP address", address)
	}
	switch ip = ip.Unmap(); {
	case ip == netip.IPv6Loopback(), ip == netip.AddrFrom4([4]byte{127, 0, 0, 1}):
		return true, nil
	case ip.IsLoopback(): // browsers resolve the page's host name only to the two above
		return false, fmt.Errorf("listen address %q: browsers cannot open the page at this address; use 127.0.0.1 or [::1]", address)
	case !e.TLS && !e.Proxied:
		return false, errors.New("refusing to listen beyond this machine without TLS: set --tls-cert and --tls-key, or --proxied if a reverse proxy provides TLS")
	case e.Tokens == 0:
		return false, errors.New("refusing to listen beyond this machine without a token: create one first with `runnel token create`")
	}
	return false, nil
}
