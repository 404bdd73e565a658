// Package egress is the proxy through which the programs in a sandbox reach the
// network, and the policy that says what they may reach.
//
// The proxy understands CONNECT requests and plain HTTP requests for absolute
// addresses. It never looks into an encrypted connection. It resolves names
// itself, and connects only to the addresses that it has checked, so a name
// cannot lead into the private network.
package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/internal/publicip"
)

// The bounds of a policy.
const (
	MaxEntries = 200 // entries of a list
	MaxEntry   = 260 // bytes of an entry
)

// An Entry is one thing that a policy allows. Exactly one of Host, Prefix and
// Loopback is set.
type Entry struct {
	Host     string       `json:"host,omitempty"`     // in lower case, without a final dot; "*." in front stands for all names below
	Prefix   netip.Prefix `json:"prefix,omitzero"`    // addresses that are otherwise refused, such as private ones
	Loopback int          `json:"loopback,omitempty"` // a port of this machine
	Port     int          `json:"port,omitempty"`     // only this port. Default: 443 and 80
	By       string       `json:"by"`                 // what allows it, for the record
}

// Parse parses an entry of a list: a host name, "*." and a domain, an address or
// a prefix of addresses, each with an optional port; or localhost or a loopback
// address with a port. The error says what is wrong, for people.
func Parse(text string) (Entry, error) {
	if len(text) > MaxEntry {
		return Entry{}, fmt.Errorf("has %d bytes; at most %d are allowed", len(text), MaxEntry)
	}
	host, port, err := split(text)
	if err != nil {
		return Entry{}, err
	}
	host = strings.ToLower(host)
	e := Entry{Port: port, By: "egress.allow: " + text}
	if p, err := netip.ParsePrefix(host); err == nil {
		e.Prefix = p.Masked()
	} else if ip, err := netip.ParseAddr(host); err == nil {
		e.Prefix = netip.PrefixFrom(ip.Unmap().WithZone(""), ip.Unmap().BitLen())
	}
	switch {
	case host == "localhost" || e.Prefix.IsValid() && isLoopback(e.Prefix.Addr()):
		if port == 0 || e.Prefix.IsValid() && !e.Prefix.IsSingleIP() {
			return Entry{}, fmt.Errorf("%q: write the port of this machine as a number, such as localhost:8080", text)
		}
		return Entry{Loopback: port, By: e.By}, nil
	case e.Prefix.IsValid():
		if e.Prefix.Bits() == 0 {
			return Entry{}, fmt.Errorf("%q allows every address; name hosts instead", text)
		}
		return e, nil
	}
	if e.Host, err = name(host); err != nil {
		return Entry{}, fmt.Errorf("%q: %w", text, err)
	}
	return e, nil
}

// split separates the port from an entry. port is 0 if there is none.
func split(text string) (host string, port int, err error) {
	host = text
	if scheme, _, isURL := strings.Cut(text, "://"); isURL {
		return "", 0, fmt.Errorf("%q: is not a host name; want such as example.com, *.example.com, example.com:8443, 10.0.0.0/8 or localhost:8080, without %s://", text, scheme)
	}
	if h, p, err := net.SplitHostPort(text); err == nil {
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65535 {
			return "", 0, fmt.Errorf("%q: the port must be a number from 1 to 65535", text)
		}
		host = h
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), "."), port, nil
}

// name checks a host name, with an optional "*." in front.
func name(host string) (string, error) {
	rest := strings.TrimPrefix(host, "*.")
	if rest == "" || len(rest) > 253 || !strings.Contains(rest, ".") && rest != host {
		return "", fmt.Errorf("is not a host name; want such as example.com, *.example.com, example.com:8443, 10.0.0.0/8 or localhost:8080")
	}
	for label := range strings.SplitSeq(rest, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", fmt.Errorf("is not a host name; want such as example.com, *.example.com, example.com:8443, 10.0.0.0/8 or localhost:8080")
		}
	}
	return host, nil
}

// sets are the named sets of hosts.
var sets = map[string][]string{
	"packages": {
		"registry.npmjs.org", "registry.yarnpkg.com", "jsr.io", "npm.jsr.io", "pypi.org", "files.pythonhosted.org",
		"proxy.golang.org", "sum.golang.org", "index.crates.io", "static.crates.io", "crates.io", "rubygems.org", "index.rubygems.org",
		"repo.maven.apache.org", "repo1.maven.org", "plugins.gradle.org", "services.gradle.org", "api.nuget.org", "repo.packagist.org",
		"hex.pm", "repo.hex.pm", "deb.debian.org", "security.debian.org", "archive.ubuntu.com", "security.ubuntu.com", "dl-cdn.alpinelinux.org",
	},
	"git": {
		"github.com", "api.github.com", "codeload.github.com", "objects.githubusercontent.com", "raw.githubusercontent.com",
		"release-assets.githubusercontent.com", "github-cloud.githubusercontent.com", "gitlab.com", "bitbucket.org", "codeberg.org",
	},
}

// Sets returns the names of the sets of hosts that a policy can add.
func Sets() []string { return []string{"git", "packages"} }

// Hosts returns the hosts of a set; nil if there is no such set.
func Hosts(set string) []string { return slices.Clone(sets[set]) }

// A Policy says what the programs in a sandbox may reach. The zero value allows
// nothing.
type Policy struct {
	Entries []Entry `json:"entries"`

	// Ask asks people about hosts that no entry allows, see Config.Ask. Ports
	// of this machine and private addresses are refused without a question.
	Ask bool `json:"ask,omitempty"`

	// Unasked is the host of the API that programs reach only through a broker.
	// Nobody is asked about it, because at the API itself a program could use
	// an account of another owner. Default: none.
	Unasked string `json:"unasked,omitempty"`

	// Refused are ports of this machine that no entry allows, such as those of
	// the server itself: to the server, a connection of the proxy looks like
	// one of its own.
	Refused []int `json:"refused,omitempty"`
}

// New returns the policy that allows an agent's own hosts, the entries of allow
// and the hosts of sets. Its error names the list and the entry.
func New(own, allow, named []string) (Policy, error) {
	var p Policy
	for _, h := range own {
		e, err := Parse(h)
		if err != nil {
			return p, fmt.Errorf("the agent's own hosts: %w", err)
		}
		e.By = "agent"
		p.Entries = append(p.Entries, e)
	}
	if n := len(allow); n > MaxEntries {
		return p, fmt.Errorf("egress.allow: has %d entries; at most %d are allowed", n, MaxEntries)
	}
	for i, text := range allow {
		e, err := Parse(text)
		if err == nil && (strings.ToValidUTF8(text, "") != text || strings.ContainsRune(text, 0)) {
			err = fmt.Errorf("is not valid UTF-8")
		}
		if err != nil {
			return p, fmt.Errorf("egress.allow.%d: %w", i, err)
		}
		p.Entries = append(p.Entries, e)
	}
	if n := len(named); n > len(sets) {
		return p, fmt.Errorf("egress.sets: has %d entries; there are %d sets", n, len(sets))
	}
	for i, set := range named {
		hosts := sets[set]
		if hosts == nil {
			return p, fmt.Errorf("egress.sets.%d: unknown set %q; want %s", i, set, strings.Join(Sets(), " or "))
		}
		for _, h := range hosts {
			p.Entries = append(p.Entries, Entry{Host: h, By: "egress.sets: " + set})
		}
	}
	return p, nil
}

// Ports returns the ports of this machine that the policy allows, each once.
func (p Policy) Ports() (out []int) {
	for _, e := range p.Entries {
		if e.Loopback != 0 && !slices.Contains(out, e.Loopback) && !slices.Contains(p.Refused, e.Loopback) {
			out = append(out, e.Loopback)
		}
	}
	return out
}

// A verdict is what a policy says about a host and port.
type verdict struct {
	by       string // what allows it
	why      string // why it is refused; "" if it is allowed
	loopback bool   // the host is this machine
	askable  bool   // people may allow the host
}

const notListed = "the host is not in the session's egress list"

// judge decides about a host name or an address, without resolving it.
func (p Policy) judge(host string, port int) verdict {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	ip, err := netip.ParseAddr(host)
	ip = ip.Unmap()
	if host == "localhost" || err == nil && isLoopback(ip) {
		for _, e := range p.Entries {
			if e.Loopback == port && !slices.Contains(p.Refused, port) {
				return verdict{by: e.By, loopback: true}
			}
		}
		return verdict{why: "the port of this machine is not in the session's egress list", loopback: true}
	}
	if err == nil {
		if e, ok := p.prefix(ip, port); ok {
			return verdict{by: e.By}
		}
		return verdict{why: "the address is not in the session's egress list", askable: publicip.Is(ip)}
	}
	for _, e := range p.Entries {
		if e.names(host) && e.takes(port) {
			return verdict{by: e.By}
		}
	}
	if strings.EqualFold(host, strings.TrimSuffix(p.Unasked, ".")) {
		return verdict{why: notListed + "; the session reaches this API through the broker of its key"}
	}
	return verdict{why: notListed, askable: true}
}

// canonical returns a host as people are asked about it: an address in its usual
// form, or a name in lower case, without a final dot. It fails for other text.
// Names with other letters arrive in their ASCII form (xn--).
func canonical(host string) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
		return ip.Unmap().String(), nil
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if strings.HasPrefix(host, "*") {
		return "", errors.New("is not a host name")
	}
	return name(host)
}

// prefix returns the entry that lists an address.
func (p Policy) prefix(ip netip.Addr, port int) (Entry, bool) {
	i := slices.IndexFunc(p.Entries, func(e Entry) bool { return e.Prefix.IsValid() && e.Prefix.Contains(ip) && e.takes(port) })
	if i < 0 {
		return Entry{}, false
	}
	return p.Entries[i], true
}

// names reports whether the entry is for a host name.
func (e Entry) names(host string) bool {
	if domain, ok := strings.CutPrefix(e.Host, "*"); ok {
		return strings.HasSuffix(host, domain) && len(host) > len(domain)
	}
	return e.Host != "" && e.Host == host
}

func (e Entry) takes(port int) bool {
	return port == e.Port || e.Port == 0 && (port == 443 || port == 80)
}

// isLoopback reports whether an address always leads to this machine.
func isLoopback(ip netip.Addr) bool { return ip.IsLoopback() || ip.IsUnspecified() }

// check says why the proxy must not connect to an address to which a listed name
// resolves; "" if it may. own are the addresses of this machine.
func (p Policy) check(ip netip.Addr, port int, own []netip.Addr) (why string) {
	ip = ip.Unmap().WithZone("")
	if isLoopback(ip) || slices.Contains(own, ip) {
		return "the name leads to this machine"
	}
	if _, listed := p.prefix(ip, port); !listed && !publicip.Is(ip) {
		return "the name leads to the private address " + ip.String() + ", which is not in the session's egress list"
	}
	return ""
}
