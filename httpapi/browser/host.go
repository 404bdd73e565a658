// Package browser keeps the pages of other sites out: which Hosts and Origins
// the server answers to, the two halves of a page's credential, and which
// process is at the other end of a connection.
package browser

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// A Verdict says what becomes of a request by its Host.
type Verdict int

// What becomes of a request.
const (
	HostRefused  Verdict = iota // a name we do not answer to: DNS rebinding looks like this
	HostInvalid                 // not a host at all
	HostAccepted                // for programs: tokens and the unix socket, not the page
	HostOfPage                  // for the page and the login of a browser, too
)

// A Page is where browsers find the page.
type Page interface {
	// Host returns the page's own host name without a port, in small letters;
	// "" if it has none.
	Host() string
	// URL returns the address that a login link begins with, without a slash at
	// its end; "" if no browser can open the page.
	URL() string
	// Renew gives the page another host name, and refuses the old one.
	Renew() error
}

// Hosts is the list of names and addresses that we answer to. A page that
// reaches us through a name of its own choosing always sends that name here,
// so the list is what keeps it out; it is consulted before everything else.
type Hosts struct {
	names map[string]bool // lower-case, without port
	bound []netip.Addr    // beyond loopback; an unspecified one stands for any address
	page  Page
	pages map[string]bool // hosts of the page's other origins, with and without a default port
}

// NewHosts accepts loopback and localhost, the given addresses and names, and
// where the page is: at its own name with any port, which a tunnel may change,
// and at the hosts of the given origins.
func NewHosts(bound []netip.Addr, names []string, page Page, origins []string) (Hosts, error) {
	h := Hosts{names: map[string]bool{"localhost": true}, page: page, pages: map[string]bool{}}
	for _, a := range bound {
		h.bound = append(h.bound, a.Unmap())
	}
	for _, n := range names {
		h.names[strings.ToLower(strings.TrimSuffix(n, "."))] = true
	}
	for _, o := range origins {
		u, err := parseOrigin(o)
		if err != nil {
			return Hosts{}, err
		}
		h.pages[u.Host] = true
		if port := defaultPorts[u.Scheme]; u.Port() == "" {
			h.pages[net.JoinHostPort(u.Hostname(), port)] = true
		}
	}
	return h, nil
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// parseOrigin checks an origin of the page. Without TLS it must be on this
// machine: browsers offer pages from elsewhere no cryptography, with which the
// page has the server prove who it is.
func parseOrigin(origin string) (*url.URL, error) {
	u, err := url.Parse(origin)
	if err != nil || defaultPorts[u.Scheme] == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.ToLower(origin) != origin {
		return nil, fmt.Errorf("origin %q: want one such as https://runnel.example.org, in small letters and without a path", origin)
	}
	if u.Port() == defaultPorts[u.Scheme] {
		return nil, fmt.Errorf("origin %q: leave out the port, as browsers do", origin)
	}
	if u.Scheme == "https" {
		return u, nil
	}
	name, addr, _, ok := parseHost(u.Host)
	labels := strings.Split(name, ".")
	if !ok || !addr.IsLoopback() && labels[len(labels)-1] != "localhost" {
		return nil, fmt.Errorf("origin %q: want https beyond this machine", origin)
	}
	return u, nil
}

// Judge parses the value of a Host header and looks it up. It never compares
// prefixes or suffixes.
func (h Hosts) Judge(host string) Verdict {
	name, addr, port, ok := parseHost(host)
	switch {
	case !ok:
		return HostInvalid
	case h.ofPage(strings.ToLower(host), port):
		return HostOfPage
	case addr.IsValid():
		return h.judgeAddr(addr)
	case h.names[name]:
		return HostAccepted
	}
	return HostRefused
}

// ofPage looks up a Host as it was sent: one with a dot at its end is another
// origin for a browser.
func (h Hosts) ofPage(host, port string) bool {
	if h.pages[host] {
		return true
	}
	if h.page == nil || h.page.Host() == "" {
		return false
	}
	own := h.page.Host()
	return host == own || host == own+":"+port
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

// parseHost splits host[:port] into a lower-case name or an address, and the
// port.
func parseHost(hostport string) (name string, addr netip.Addr, port string, ok bool) {
	host := hostport
	bracketed := strings.HasPrefix(host, "[")
	if strings.Count(host, ":") == 1 || bracketed && !strings.HasSuffix(host, "]") {
		var err error
		if host, port, err = net.SplitHostPort(hostport); err != nil || !validPort(port) {
			return "", addr, "", false
		}
	} else if bracketed {
		host = host[1 : len(host)-1]
	} else if strings.Contains(host, ":") {
		return "", addr, "", false // an IPv6 address needs its brackets
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" || a.Is4() == bracketed {
			return "", addr, "", false
		}
		return "", a.Unmap(), port, true
	}
	name = strings.ToLower(strings.TrimSuffix(host, "."))
	if bracketed || !validName(name) {
		return "", addr, "", false
	}
	return name, addr, port, true
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
