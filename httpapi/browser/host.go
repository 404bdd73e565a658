// Package browser keeps the pages of other sites out. It decides which Hosts
// and Origins the server answers, handles the two halves of a browser's
// credential, and identifies the process at the other end of a connection.
package browser

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// A Verdict is the decision about a request by its Host.
type Verdict int

// The verdicts.
const (
	HostRefused  Verdict = iota // a name that the server does not answer to, as in DNS rebinding
	HostInvalid                 // not a valid host
	HostAccepted                // accepted for programs, with a token or on the unix socket, but not for the page
	HostOfPage                  // accepted for the page and the login of a browser, too
)

// A Page is the place where browsers find the page.
type Page interface {
	// Host returns the page's own host name in lower case, without a port, or
	// "" if the page has none.
	Host() string
	// URL returns the address with which a login link begins, without a slash
	// at its end, or "" if no browser can open the page.
	URL() string
	// Renew gives the page a new host name. The server then refuses the old
	// name.
	Renew() error
}

// A Network is where devices of the local network find the page, over TLS.
type Network interface {
	// Has reports whether a Host header, in lower case, is that of the page. The
	// result may change while the server runs.
	Has(host string) bool
	// URL returns the preferred address of the page, without a slash at its end,
	// or "" while there is none.
	URL() string
}

// Hosts are the names and addresses that the server answers to. A page that
// reaches the server through a host name of its own (DNS rebinding) always
// sends that name in the Host header, so this check rejects it. The check comes
// before those of Origin and credential.
type Hosts struct {
	// Network is where devices of the local network find the page. Default:
	// none.
	Network Network

	names map[string]bool // in lower case, without port
	bound []netip.Addr    // addresses beyond loopback; an unspecified one stands for any address
	page  Page
	pages map[string]string // path of the page by the host of its further origins, with and without the default port
}

// NewHosts returns the Hosts that accept loopback addresses, localhost, bound
// and names for programs. For the page they accept the page's own name and the
// hosts of origins. The page's own name may have any port, because a tunnel may
// change the port.
func NewHosts(bound []netip.Addr, names []string, page Page, origins []string) (Hosts, error) {
	h := Hosts{names: map[string]bool{"localhost": true}, page: page, pages: map[string]string{}}
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
		hosts := []string{u.Host}
		if port := defaultPorts[u.Scheme]; u.Port() == "" {
			hosts = append(hosts, net.JoinHostPort(u.Hostname(), port))
		}
		for _, host := range hosts {
			if other, ok := h.pages[host]; ok && other != u.Path {
				return Hosts{}, fmt.Errorf("origin %q: another origin has the same host and another path; one server has one path there", o)
			}
			h.pages[host] = u.Path
		}
	}
	return h, nil
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// basePath matches a path below which a proxy serves the page.
var basePath = regexp.MustCompile(`^(/[a-z0-9_~-][a-z0-9._~-]*)+$`)

// parseOrigin parses and checks an origin of the page, which may have a path. An
// origin without TLS
// must be on this machine. On any other origin without TLS, browsers deny a
// page the cryptography with which it verifies the server's identity.
func parseOrigin(origin string) (*url.URL, error) {
	u, err := url.Parse(origin)
	if err != nil || defaultPorts[u.Scheme] == "" || u.Host == "" || u.Scheme+"://"+u.Host+u.Path != origin || strings.ToLower(origin) != origin {
		return nil, fmt.Errorf("origin %q: want one such as https://runnel.example.org, in small letters and without a slash at its end", origin)
	}
	if first, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/"); u.Path != "" && !basePath.MatchString(u.Path) || first == "api" || first == "assets" {
		return nil, fmt.Errorf("origin %q: the path must consist of small letters, digits and hyphens, and must not begin with /api or /assets", origin)
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

// JudgeRequest is [Hosts.Judge] for the Host of r. It accepts the hosts of
// [Hosts.Network], too, if r came over TLS.
func (h Hosts) JudgeRequest(r *http.Request) Verdict {
	if h.Network != nil && r.TLS != nil && h.Network.Has(strings.ToLower(r.Host)) {
		return HostOfPage
	}
	return h.Judge(r.Host)
}

// Judge parses the value of a Host header and looks it up among the accepted
// names and addresses. It compares whole names, never prefixes or suffixes.
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

// ofPage reports whether host is a host of the page. host must be the Host
// header in lower case, with nothing else changed: for a browser, a name with a
// dot at its end is another origin.
func (h Hosts) ofPage(host, port string) bool {
	if _, ok := h.pages[host]; ok {
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
	if a.IsUnspecified() { // browsers let any page send requests for it, and send them to this machine
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
		return "", addr, "", false // an IPv6 address needs brackets
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

// validName reports whether name, in lower case, consists of labels of letters,
// digits, hyphens and underscores.
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
