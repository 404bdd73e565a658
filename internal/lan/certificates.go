package lan

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Certificates returns the certificate for each handshake. It issues a new one
// when the addresses of the machine change, and [renewBefore] the end of the
// current one. Certificates and their keys are in memory only. Its methods are
// safe for concurrent use.
type Certificates struct {
	Authority *Authority
	Names     []string            // of this machine
	Addrs     func() []netip.Addr // the current addresses
	Now       func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	addrs   []netip.Addr // those in current
}

// Get is a GetCertificate function of a [tls.Config].
func (c *Certificates) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	addrs, now := c.Addrs(), c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	valid := func(leaf *x509.Certificate) bool { // a clock that was ahead may have been corrected since
		return !now.Before(leaf.NotBefore) && now.Before(leaf.NotAfter.Add(-renewBefore))
	}
	if c.current != nil && slices.Equal(addrs, c.addrs) && valid(c.current.Leaf) {
		return c.current, nil
	}
	next, err := c.Authority.Issue(c.Names, addrs, now)
	if err != nil {
		return nil, err
	}
	c.current, c.addrs = next, addrs
	return next, nil
}
