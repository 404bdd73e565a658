package auth

import (
	"net/netip"
	"sync"
	"time"
)

const (
	failuresAllowed = 10 // wrong credentials per address and window
	failureWindow   = time.Minute
	addressesKept   = 4096
)

// A throttle counts wrong credentials by address. The zero value is ready to use.
type throttle struct {
	mu   sync.Mutex
	seen map[netip.Prefix]*failures
}

type failures struct {
	since time.Time
	n     int
}

// take allows one more attempt from addr, or not. An attempt that turns out
// well is given back by restore.
func (t *throttle) take(addr netip.Addr, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := network(addr)
	f := t.seen[key]
	if f == nil || now.Sub(f.since) >= failureWindow {
		f = &failures{since: now}
		t.put(key, f, now)
	}
	if f.n >= failuresAllowed {
		return false
	}
	f.n++
	return true
}

func (t *throttle) restore(addr netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.seen[network(addr)]; f != nil && f.n > 0 {
		f.n--
	}
}

// put bounds the table: when it is full the ended windows go, and if there are
// none, all of it. An attacker with that many networks is not held up by this.
func (t *throttle) put(key netip.Prefix, f *failures, now time.Time) {
	if len(t.seen) >= addressesKept {
		for k, old := range t.seen {
			if now.Sub(old.since) >= failureWindow {
				delete(t.seen, k)
			}
		}
		if len(t.seen) >= addressesKept {
			clear(t.seen)
		}
	}
	if t.seen == nil {
		t.seen = make(map[netip.Prefix]*failures)
	}
	t.seen[key] = f
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
