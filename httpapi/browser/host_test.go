package browser

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}

// Each form of a Host header has the verdict in the golden file.
func TestHostTable(t *testing.T) {
	hosts := []string{
		"localhost", "localhost:7777", "LOCALHOST", "LOCALHOST.", "localhost.", "localhost..", "127.0.0.1", "127.0.0.1:7777", "127.0.0.1.", "127.8.9.1",
		"[::1]", "[::1]:7777", "::1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]:1", "[::1%lo]", "[127.0.0.1]", "[::1", "[::1]x", "[::1]:",
		"127.evil.com", "localhost.evil.com", "127.0.0.1.nip.io", "evil-localhost", "notlocalhost", "0.0.0.0", "0.0.0.0:7777", "[::]", "0x7f.1",
		"2130706433", "127.1", "0177.0.0.1", "192.168.1.5", "10.0.0.7:80", "[fe80::1]", "work.example", "WORK.example:1", "sub.work.example", "work.example.evil.com",
		"", " ", ":7777", "localhost:", "localhost:77777777", "localhost:x", "localhost:1:2", "user@localhost", "localhost@evil.com", "localhost/evil", "localhost\\evil",
		"localhost\x00", "localhost,evil.com", "loc\u0430lhost", "xn--lclhost-6fg", "localhost%00", "http://localhost", "локалхост",
		"own.localhost", "own.localhost:7777", "OWN.localhost:9000", "own.localhost.", "own.localhost.:7777", "other.localhost:7777", "x.own.localhost", "own.localhost.evil.com",
		"runnel.example", "runnel.example:443", "runnel.example:80", "runnel.example:8443", "RUNNEL.example", "runnel.example.", "127.0.0.1:7000", "[::1]:7000",
		strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 200) + "example",
	}
	names := map[Verdict]string{HostRefused: "refused ", HostInvalid: "invalid ", HostAccepted: "accepted", HostOfPage: "page    "}
	bound := map[string]interface{ Judge(string) Verdict }{
		"loopback": newHosts(t, nil, "work.example"),
		"address":  newHosts(t, []netip.Addr{netip.MustParseAddr("192.168.1.5")}, "Work.Example."),
		"wildcard": newHosts(t, []netip.Addr{netip.IPv4Unspecified()}, "work.example"),
	}
	var b strings.Builder
	for _, which := range []string{"loopback", "address", "wildcard"} {
		for _, h := range hosts {
			fmt.Fprintf(&b, "%s %s %q\n", which, names[bound[which].Judge(h)], h)
		}
	}
	golden(t, "hosts.txt", b.String())
	for _, file := range []string{"host.go", "origin.go"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(src), "\n") {
			if strings.Contains(line, "HasPrefix") && !strings.Contains(line, `"["`) {
				t.Errorf("%s compares a prefix: %s", file, line)
			}
		}
	}
}

type pageAt string

func (p pageAt) Host() string { return string(p) }
func (p pageAt) URL() string  { return "http://" + string(p) }
func (p pageAt) Renew() error { return nil }

// newHosts returns Hosts whose page has three origins: its own name, an https
// origin behind a proxy, and an http address of this machine.
func newHosts(t *testing.T, bound []netip.Addr, names ...string) Hosts {
	t.Helper()
	h, err := NewHosts(bound, names, pageAt("own.localhost"), []string{"https://runnel.example", "http://127.0.0.1:7000"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestPageOriginsAreChecked(t *testing.T) {
	for origin, ok := range map[string]bool{
		"https://runnel.example": true, "https://runnel.example:8443": true, "http://localhost:7317": true, "http://127.0.0.1:7317": true,
		"http://[::1]:7317": true, "http://dev.localhost": true, "https://192.168.1.5:7317": true,
		"https://runnel.example/page": true, "https://runnel.example/a/b-c_d~.e": true, "http://localhost:7317/page": true,
		"https://runnel.example/page/": false, "https://runnel.example/Page": false, "https://runnel.example//page": false, "https://runnel.example/../page": false,
		"https://runnel.example/a/..": false, "https://runnel.example/p%61ge": false, "https://runnel.example/api": false, "https://runnel.example/assets/x": false,
		"https://runnel.example/a?b": false, "https://runnel.example/a;b": false,
		"": false, "runnel.example": false, "https://runnel.example/": false, "https://runnel.example:443": false,
		"https://RUNNEL.example": false, "http://runnel.example": false, "http://192.168.1.5:7317": false, "http://localhost.evil.example": false,
		"https://user@runnel.example": false, "https://runnel.example?x": false, "ftp://localhost": false, "https://": false, "null": false, "http://localhost:80": false,
	} {
		if _, err := NewHosts(nil, nil, nil, []string{origin}); (err == nil) != ok {
			t.Errorf("%q: got %v, want ok %v", origin, err, ok)
		}
	}
	if _, err := NewHosts(nil, nil, nil, []string{"https://runnel.example/a", "https://runnel.example/b"}); err == nil {
		t.Error("one host with two paths")
	}
}

// An attacker who controls the network can serve a page at the http twin of an
// https address that is given with --origin. A proxy terminates TLS for that
// address, so the request reaches the server in plain text in both cases.
func TestPlainTwinOfAnHTTPSOriginIsRefused(t *testing.T) {
	origins, err := NewOrigins([]string{"https://runnel.example", "https://other.example:8443"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, origin string
		ok           bool
	}{
		{"runnel.example", "https://runnel.example", true},
		{"runnel.example", "http://runnel.example", false},
		{"RUNNEL.example:443", "http://runnel.example:443", false},
		{"runnel.example:80", "http://runnel.example:80", false},
		{"runnel.example", "", false},
		{"other.example:8443", "https://other.example:8443", true},
		{"other.example:8443", "http://other.example:8443", false},
		{"own.localhost:7317", "http://own.localhost:7317", true},
		{"127.0.0.1:7317", "http://127.0.0.1:7317", true},
	} {
		r := httptest.NewRequest("POST", "/api/session/x/kill", nil)
		r.Host = c.host
		r.Header["Origin"] = []string{c.origin}
		if err := origins.Judge(r, HostOfPage); (err == nil) != c.ok {
			t.Errorf("the page of %s at %s: %v, want ok %v", c.origin, c.host, err, c.ok)
		}
	}
}
