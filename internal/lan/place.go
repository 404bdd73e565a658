package lan

import (
	"net"
	"net/netip"
	"slices"
	"strings"
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
	if p.Port == httpsPort {
		host = strings.TrimSuffix(host, ":"+httpsPort) // browsers leave it out
	}
	if slices.ContainsFunc(p.Names, func(name string) bool { return p.host(name) == host }) {
		return true
	}
	// Only the usual form of an address: a browser sends no other, and another
	// would be another origin.
	return slices.ContainsFunc(p.Addrs(), func(a netip.Addr) bool { return p.host(a.String()) == host })
}

const httpsPort = "443"

// host returns the Host header of a browser for a name or an address.
func (p *Place) host(name string) string {
	if p.Port == httpsPort {
		return strings.TrimSuffix(net.JoinHostPort(name, ""), ":")
	}
	return net.JoinHostPort(name, p.Port)
}

// URL returns the address of the page at the preferred address, without a slash
// at its end. It returns "" while the machine has no address.
func (p *Place) URL() string {
	addrs := p.Addrs()
	if len(addrs) == 0 {
		return ""
	}
	return "https://" + p.host(addrs[0].String())
}
