package auth

import (
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	failuresAllowed = 10 // wrong credentials per address, and per prefix, in one window
	failureWindow   = time.Minute
	culpritsKept    = 4096 // maximum number of addresses, and of prefixes
)

// A throttle counts wrong credentials in two ways: by the address of the
// caller, and by the first bytes of the credential. Guesses of one credential
// therefore count together, even if they come from many addresses. A throttle
// never counts valid credentials. The zero value is ready to use.
type throttle struct {
	mu        sync.Mutex
	addresses tally[netip.Prefix]
	prefixes  tally[string]
}

// secretPrefix is the length of the prefix by which wrong credentials are
// counted: the part that all secrets have in common, and 48 random bits.
const secretPrefix = len(prefix) + 8

// failed counts a wrong secret from addr. It reports whether too many were
// counted.
func (t *throttle) failed(addr netip.Addr, secret string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	address := t.addresses.add(network(addr), now)
	begin := strings.Clone(secret[:min(len(secret), secretPrefix)]) // a copy, so that the table does not keep a long secret in memory
	return t.prefixes.add(begin, now) || address
}

// A tally counts failures by a key.
type tally[K comparable] map[K]*failures

type failures struct {
	since time.Time
	n     int
}

// add counts a failure. It returns true, and counts no more, if the key already
// has the allowed number of failures in the current window.
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

// put adds an entry to the table. If the table is full, put first removes the
// entries whose window has ended, and all entries if the table is still full.
// An attacker who uses more addresses or prefixes than the table holds is
// therefore not throttled.
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

// network returns the addresses that are counted together: one IPv4 address,
// also in IPv6 form, or one IPv6 subnet of 64 bits. Callers without an address
// are counted together, as the zero prefix.
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
