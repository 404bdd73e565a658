package auth

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Exposure says what protects an address that others can reach.
type Exposure struct {
	TLS     bool // we speak TLS
	Proxied bool // the operator stated that a proxy in front of us does
	Tokens  int  // credentials that exist
}

// CheckListen refuses to bind an address that is not loopback unless it is
// protected. It is called before anything is bound, and never resolves a name.
func CheckListen(address string, e Exposure) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("listen address %q: want host:port", address)
	}
	if host == "localhost" {
		return nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil && host != "" {
		return fmt.Errorf("listen address %q: want localhost or an IP address", address)
	}
	if err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	if !e.TLS && !e.Proxied {
		return errors.New("refusing to listen beyond this machine without TLS: give a certificate and key, or state that a proxy in front speaks TLS")
	}
	if e.Tokens == 0 {
		return errors.New("refusing to listen beyond this machine without a token: create one first with `runnel token create`")
	}
	return nil
}
