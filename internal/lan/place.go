package lan

import (
	"net"
	"net/netip"
	"slices"
)

// A Place is where devices of the network find the page: at each address of a
// Listener, and at each certified name. Its methods are safe for concurrent
// use.
type Place struct {
	Names []string // certified names of this machine, in lower case
	Port  string
	Addrs func() []netip.Addr
}

// Has reports whether host, a Host header in lower case, is one of the places.
func (p *Place) Has(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil || port != p.Port {
		return false
	}
	if slices.Contains(p.Names, name) {
		return true
	}
	// Only the usual form of an address: a browser sends no other, and another
	// would be another origin.
	return slices.ContainsFunc(p.Addrs(), func(a netip.Addr) bool { return net.JoinHostPort(a.String(), port) == host })
}

// URL returns the address of the page at the preferred address, without a slash
// at its end. It returns "" while the machine has no address.
func (p *Place) URL() string {
	addrs := p.Addrs()
	if len(addrs) == 0 {
		return ""
	}
	return "https://" + net.JoinHostPort(addrs[0].String(), p.Port)
}
