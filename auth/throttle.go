package auth

import (
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	failuresAllowed = 10 // wrong credentials per address, and per prefix, and window
	failureWindow   = time.Minute
	culpritsKept    = 4096 // addresses, and prefixes
)

// A throttle counts wrong credentials: by the address that they come from, and
// by how they begin, so that guesses at one credential from many addresses
// count together. Valid credentials are never counted. The zero value is ready
// to use.
type throttle struct {
	mu        sync.Mutex
	addresses tally[netip.Prefix]
	prefixes  tally[string]
}

// secretPrefix is how many bytes of a wrong credential its failures are counted
// by: what all have in common, and 48 bits.
const secretPrefix = len(prefix) + 8

// failed counts a wrong secret from addr. It reports whether there were too
// many.
func (t *throttle) failed(addr netip.Addr, secret string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	address := t.addresses.add(network(addr), now)
	begin := strings.Clone(secret[:min(len(secret), secretPrefix)]) // the table would keep all of a long secret
	return t.prefixes.add(begin, now) || address
}

// A tally counts failures by what they have in common.
type tally[K comparable] map[K]*failures

type failures struct {
	since time.Time
	n     int
}

// add counts a failure. It reports whether there were too many.
func (t *tally[K]) add(key K, now time.Time) bool {
	f := (*t)[key]
	if f == nil || now.Sub(f.since) >= failureWindow {
		f = &failures{since: now}
		t.put(key, f, now)
	}
	if f.n >= failuresAllowed {
		return true
	}
	f.n++
	return false
}

// put bounds the table: when it is full the ended windows go, and if there are
// none, all of it. An attacker with that many networks is not held up by this.
func (t *tally[K]) put(key K, f *failures, now time.Time) {
	if len(*t) >= culpritsKept {
		for k, old := range *t {
			if now.Sub(old.since) >= failureWindow {
				delete(*t, k)
			}
		}
		if len(*t) >= culpritsKept {
			clear(*t)
		}
	}
	if *t == nil {
		*t = make(tally[K])
	}
	(*t)[key] = f
}

// network is what shares a budget: one IPv4 address however it is written, one
// IPv6 subnet. The zero address stands for callers without one.
func network(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
