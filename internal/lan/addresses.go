package lan

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// privateNetworks are the addresses that routers of the internet do not
// forward: RFC 1918, those that carriers and tailnets share (RFC 6598), and
// RFC 4193.
var privateNetworks = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("fc00::/7"),
}

// Private reports whether an address is in a private network. Other addresses,
// such as most IPv6 addresses, may be reachable from the internet.
func Private(a netip.Addr) bool {
	a = a.Unmap()
	return a.Zone() == "" && slices.ContainsFunc(privateNetworks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Addresses returns the private addresses of this machine: first those of the
// network through which it reaches other networks, IPv4 before IPv6. It leaves
// out the addresses that serve only containers and virtual machines of this
// machine.
func Addresses() ([]netip.Addr, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	routed := routedFrom()
	var main, others []netip.Addr
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // the interface was removed meanwhile
		}
		its := parse4Then6(addrs)
		switch {
		case slices.ContainsFunc(its, func(a netip.Addr) bool { return slices.Contains(routed, a) }):
			main = append(main, its...)
		case !bridge(i.Name):
			others = append(others, its...)
		}
	}
	return slices.DeleteFunc(append(main, others...), func(a netip.Addr) bool { return !Private(a) }), nil
}

// parse4Then6 returns addresses without their masks, IPv4 first.
func parse4Then6(list []net.Addr) (addrs []netip.Addr) {
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, p.Addr().Unmap())
		}
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return addrs
}

// routedFrom returns the addresses from which this machine reaches other
// networks. It sends nothing: connecting a UDP socket only chooses its address.
func routedFrom() (from []netip.Addr) {
	for _, to := range []string{"192.0.2.1:9", "[2001:db8::1]:9", "198.51.100.1:9"} { // addresses for documentation, which nobody has
		c, err := new(net.Dialer).DialContext(context.Background(), "udp", to) // does not wait
		if err != nil {
			continue
		}
		if ap, err := netip.ParseAddrPort(c.LocalAddr().String()); err == nil {
			from = append(from, ap.Addr().Unmap())
		}
		_ = c.Close()
	}
	return from
}

// bridge reports whether an interface is a bridge between containers or virtual
// machines of this machine. Only Linux tells.
func bridge(name string) bool {
	if runtime.GOOS != "linux" {
		return false
	}
	_, err := os.Stat("/sys/class/net/" + name + "/bridge")
	return err == nil
}

var validName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
})

// Names returns the names under which devices may find this machine: the name
// under .local, which mDNS announces, and the machine's full name. A name
// without a dot is not among them, because an authority that may certify "dev"
// may also certify every name below it. hostname is the result of
// [os.Hostname].
func Names(hostname string) []string {
	full := strings.ToLower(strings.TrimSuffix(hostname, "."))
	short, _, _ := strings.Cut(full, ".")
	if !validName().MatchString(full) || len(full) > 200 || short == "localhost" {
		return nil
	}
	names := []string{short + ".local"}
	if strings.Contains(full, ".") && full != names[0] {
		names = append(names, full)
	}
	return names
}
