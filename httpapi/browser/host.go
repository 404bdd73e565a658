// Package browser keeps the pages of other sites out: which Hosts and Origins the
// server answers to, the two halves of a page's credential, and which process is
// at the other end of a connection.
package browser

import (
	"net"
	"net/netip"
	"strings"
)

// A Verdict says what becomes of a request by its Host.
type Verdict int

// What becomes of a request.
const (
	HostRefused  Verdict = iota // a name we do not answer to: DNS rebinding looks like this
	HostInvalid                 // not a host at all
	HostAccepted                //
)

// Hosts is the list of names and addresses that we answer to. A page that
// reaches us through a name of its own choosing always sends that name here,
// so the list is what keeps it out; it is consulted before everything else.
type Hosts struct {
	names map[string]bool // lower-case, without port
	bound []netip.Addr    // beyond loopback; an unspecified one stands for any address
}

// NewHosts accepts loopback and localhost, and the given addresses and names.
func NewHosts(bound []netip.Addr, names []string) Hosts {
	h := Hosts{names: map[string]bool{"localhost": true}}
	for _, a := range bound {
		h.bound = append(h.bound, a.Unmap())
	}
	for _, n := range names {
		h.names[strings.ToLower(strings.TrimSuffix(n, "."))] = true
	}
	return h
}

// Judge parses the value of a Host header and looks it up. It never compares
// prefixes or suffixes.
func (h Hosts) Judge(host string) Verdict {
	name, addr, ok := parseHost(host)
	switch {
	case !ok:
		return HostInvalid
	case addr.IsValid():
		return h.judgeAddr(addr)
	case h.names[name]:
		return HostAccepted
	}
	return HostRefused
}

func (h Hosts) judgeAddr(a netip.Addr) Verdict {
	if a.IsLoopback() {
		return HostAccepted
	}
	if a.IsUnspecified() { // browsers send it to this machine from any page
		return HostRefused
	}
	for _, b := range h.bound {
		if b == a || b.IsUnspecified() {
			return HostAccepted
		}
	}
	return HostRefused
}

// parseHost splits host[:port] into a lower-case name or an address.
func parseHost(hostport string) (name string, addr netip.Addr, ok bool) {
	host := hostport
	bracketed := strings.HasPrefix(host, "[")
	if strings.Count(host, ":") == 1 || bracketed && !strings.HasSuffix(host, "]") {
		var port string
		var err error
		if host, port, err = net.SplitHostPort(hostport); err != nil || !validPort(port) {
			return "", addr, false
		}
	} else if bracketed {
		host = host[1 : len(host)-1]
	} else if strings.Contains(host, ":") {
		return "", addr, false // an IPv6 address needs its brackets
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" || a.Is4() == bracketed {
			return "", addr, false
		}
		return "", a.Unmap(), true
	}
	name = strings.ToLower(strings.TrimSuffix(host, "."))
	if bracketed || !validName(name) {
		return "", addr, false
	}
	return name, addr, true
}

func validPort(p string) bool {
	if p == "" || len(p) > 5 {
		return false
	}
	for _, c := range []byte(p) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// validName accepts letters, digits, hyphens and underscores in labels.
func validName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}
