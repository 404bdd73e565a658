package auth

import (
	"net"
	"path/filepath"
	"testing"
)

// Without supervisors an agent's process can lose its ancestors, so they cannot
// identify it. The unix socket then gives no identity.
func TestNoIdentityWithoutSupervisors(t *testing.T) {
	if !canTell {
		t.Skip("there are no pidfds here")
	}
	for _, can := range []bool{true, false} {
		was := canTell
		canTell = can
		p := peerOfUnixSocket(t)
		canTell = was
		if _, local := p.Identity(); local != (can && !p.Agent()) {
			t.Errorf("with supervisors %v: identity %v", can, local)
		}
		if p.Unix() != can {
			t.Errorf("with supervisors %v: the peer can be told: %v", can, p.Unix())
		}
	}
}

func peerOfUnixSocket(t *testing.T) *Peer {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	return NewPeer(far)
}
