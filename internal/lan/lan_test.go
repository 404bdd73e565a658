package lan

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func load(t *testing.T, path string) *Authority {
	t.Helper()
	a, err := Load(path, []string{"box.local"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func addrs(list ...string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestAuthorityIsCreatedOnceAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "authority.pem")
	if _, err := Open(path, time.Now()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	a, again := load(t, path), load(t, path)
	if a.Fingerprint() != again.Fingerprint() || len(a.Fingerprint()) != 32*3-1 {
		t.Errorf("fingerprints %s and %s", a.Fingerprint(), again.Fingerprint())
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if text := string(a.PEM()); strings.Contains(text, "PRIVATE") || !strings.Contains(text, "BEGIN CERTIFICATE") {
		t.Errorf("PEM: %s", text)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, nil, time.Now()); err == nil || !strings.Contains(err.Error(), "can be read by others") {
		t.Errorf("with a key that others can read: %v", err)
	}
}

func TestDamagedOrExpiringAuthorityIsRejected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "authority.pem")
	load(t, path)
	if _, err := Open(path, time.Now().Add(authorityLife-leafLife+time.Hour)); err == nil || !strings.Contains(err.Error(), "expires on") {
		t.Errorf("near its end: %v", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.pem")
	load(t, other)
	foreign, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	cut := strings.Index(string(content), "-----BEGIN PRIVATE")
	for name, bad := range map[string][]byte{
		"empty": nil, "no key": content[:cut], "no certificate": content[cut:],
		"the key of another": slices.Concat(content[:cut], foreign[strings.Index(string(foreign), "-----BEGIN PRIVATE"):]),
	} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, nil, time.Now()); err == nil || !strings.Contains(err.Error(), "no valid certificate authority") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// verify checks a certificate for a name or an address as a device does that
// trusts the authority.
func verify(a *Authority, leaf *x509.Certificate, host string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
	return err
}

func TestCertificateIsValidForThisMachineOnly(t *testing.T) {
	a := load(t, filepath.Join(t.TempDir(), "a.pem"))
	c, err := a.Issue([]string{"box.local", "bank.example"}, addrs("192.168.1.5", "fd00::2"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"box.local", "192.168.1.5", "fd00::2"} {
		if err := verify(a, c.Leaf, host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, host := range []string{"bank.example", "192.168.1.6", "local"} {
		if verify(a, c.Leaf, host) == nil {
			t.Errorf("valid for %s", host)
		}
	}
	if life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore); life > 398*24*time.Hour {
		t.Errorf("valid for %s, longer than devices of Apple accept", life)
	}
	if _, err := a.Issue(nil, addrs("203.0.113.7"), time.Now()); err == nil {
		t.Error("a certificate for a public address")
	}
}

// TestAuthorityCannotCertifyOtherSites uses the key of the authority as a thief
// would.
func TestAuthorityCannotCertifyOtherSites(t *testing.T) {
	a := load(t, filepath.Join(t.TempDir(), "a.pem"))
	stolen := &Authority{cert: &x509.Certificate{Raw: a.cert.Raw, RawSubject: a.cert.RawSubject, SubjectKeyId: a.cert.SubjectKeyId, PublicKey: a.cert.PublicKey, PermittedDNSDomains: []string{"bank.example", "x.box.local"}}, key: a.key}
	for name, valid := range map[string]bool{"bank.example": false, "x.box.local": true} {
		c, err := stolen.Issue([]string{name}, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := verify(a, c.Leaf, name); (err == nil) != valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCertificateIsRenewed(t *testing.T) {
	now, at := time.Now(), addrs("192.168.1.5")
	c := &Certificates{Authority: load(t, filepath.Join(t.TempDir(), "a.pem")), Names: []string{"box.local"}, Addrs: func() []netip.Addr { return at }, Now: func() time.Time { return now }}
	get := func() *tls.Certificate {
		t.Helper()
		cert, err := c.Get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	one := get()
	if now = now.Add(leafLife - renewBefore - time.Minute); get() != one {
		t.Error("renewed too early")
	}
	if now = now.Add(2 * time.Minute); get() == one {
		t.Error("not renewed before its end")
	}
	two := get()
	at = addrs("192.168.1.9")
	if three := get(); three == two || three.Leaf.VerifyHostname("192.168.1.9") != nil {
		t.Error("not renewed with the addresses")
	}
	now = time.Now() // the clock was ahead, and was corrected
	if leaf := get().Leaf; now.Before(leaf.NotBefore) {
		t.Errorf("the certificate is valid only from %s on", leaf.NotBefore)
	}
}

func TestOnlyPrivateAddressesAreUsed(t *testing.T) {
	for a, want := range map[string]bool{
		"10.1.2.3": true, "172.16.0.1": true, "172.31.255.255": true, "192.168.0.1": true, "100.101.102.103": true, "fd12::1": true, "::ffff:10.0.0.1": true,
		"172.32.0.1": false, "8.8.8.8": false, "100.128.0.1": false, "127.0.0.1": false, "0.0.0.0": false, "169.254.1.1": false, "2001:db8::1": false, "fe80::1": false, "::1": false, "fd12::1%eth0": false,
	} {
		if Private(netip.MustParseAddr(a)) != want {
			t.Errorf("%s: want %t", a, want)
		}
	}
	got, err := Addresses()
	if err != nil || slices.ContainsFunc(got, func(a netip.Addr) bool { return !Private(a) }) {
		t.Errorf("this machine: %v, %v", got, err)
	}
}

func TestNamesOfAMachine(t *testing.T) {
	for hostname, want := range map[string]string{
		"box": "box.local", "Anna-MBP.local": "anna-mbp.local", "box.example.org": "box.local box.example.org",
		"dev": "dev.local", "": "", "localhost": "", "localhost.localdomain": "", "my box": "", "-x": "", "*.com": "",
	} {
		if got := strings.Join(Names(hostname), " "); got != want {
			t.Errorf("%q: got %q, want %q", hostname, got, want)
		}
	}
}

// dial connects to an address of l and returns whether that worked.
func dial(l *Listener, host string) bool {
	c, err := net.Dial("tcp", net.JoinHostPort(host, l.Port()))
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

func TestListenerFollowsTheAddresses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has 127.0.0.2 and 127.0.0.3")
	}
	at := addrs("127.0.0.2")
	l, err := Listen(context.Background(), freePort(t), func() ([]netip.Addr, error) { return at, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	place := &Place{Names: []string{"box.local"}, Port: l.Port(), Addrs: l.Addrs}
	if !dial(l, "127.0.0.2") || dial(l, "127.0.0.3") || place.URL() != "https://127.0.0.2:"+l.Port() {
		t.Errorf("listens at %v", l.Addrs())
	}
	at = addrs("198.51.100.77", "127.0.0.3") // the machine cannot use the first one yet
	if err := l.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	if dial(l, "127.0.0.2") || !dial(l, "127.0.0.3") || place.URL() != "https://127.0.0.3:"+l.Port() {
		t.Errorf("after the change: listens at %v", l.Addrs())
	}
	for host, want := range map[string]bool{"127.0.0.3:" + l.Port(): true, "box.local:" + l.Port(): true, "127.0.0.2:" + l.Port(): false, "127.0.0.3": false, "box.local": false, "127.0.0.3:1": false, "127.00.0.3:" + l.Port(): false} {
		if place.Has(host) != want {
			t.Errorf("Has(%s): want %t", host, want)
		}
	}
	at = nil
	if err := l.Refresh(context.Background()); err != nil || dial(l, "127.0.0.3") || place.URL() != "" {
		t.Errorf("without addresses: %v, %v", l.Addrs(), err)
	}
	if at = addrs("127.0.0.2"); l.Refresh(context.Background()) != nil || !dial(l, "127.0.0.2") {
		t.Errorf("with an address again: %v", l.Addrs())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Refresh(context.Background()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestPlaceAtTheUsualPort(t *testing.T) {
	at := addrs("fd00::2", "192.168.1.5")
	p := &Place{Names: []string{"box.local"}, Port: "443", Addrs: func() []netip.Addr { return at }}
	if got := p.URL(); got != "https://[fd00::2]" {
		t.Errorf("URL: %s", got)
	}
	for host, want := range map[string]bool{
		"[fd00::2]": true, "[fd00::2]:443": true, "192.168.1.5": true, "192.168.1.5:443": true, "box.local": true, "box.local:443": true,
		"fd00::2": false, "[fd00::3]": false, "box.local:80": false, "box": false, "": false, ":443": false,
	} {
		if p.Has(host) != want {
			t.Errorf("Has(%q): want %t", host, want)
		}
	}
}

func TestListenFailsIfAnotherProgramUsesThePort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	if _, err := Listen(context.Background(), port, func() ([]netip.Addr, error) { return addrs("127.0.0.1"), nil }); err == nil || !strings.Contains(err.Error(), "listen on 127.0.0.1:"+port) {
		t.Errorf("got %v", err)
	}
}
