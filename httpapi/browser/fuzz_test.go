package browser

import (
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// If Judge accepts a Host header, the allow-list also has the host that
// url.Parse finds in that header (J05).
func FuzzHostOrigin(f *testing.F) {
	for _, h := range []string{"localhost:7777", "127.0.0.1", "[::1]:1", "127.0.0.1.nip.io", "localhost.", "user@localhost", "[::ffff:127.0.0.1]", "LOCALHOST", "0.0.0.0", "127.1", "", "work.example"} {
		f.Add(h, "http://"+h)
	}
	f.Add("localhost", "null")
	f.Add("localhost:80", "http://localhost:80@evil.example")
	f.Add("own.localhost:9000", "http://own.localhost:9000")
	f.Add("runnel.example", "https://runnel.example")
	hosts, err := NewHosts(nil, []string{"work.example"}, pageAt("own.localhost"), []string{"https://runnel.example"})
	if err != nil {
		f.Fatal(err)
	}
	origins, err := NewOrigins([]string{"https://runnel.example"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, host, origin string) {
		verdict := hosts.Judge(host)
		if verdict != HostAccepted && verdict != HostOfPage {
			return
		}
		u, err := url.Parse("http://" + host + "/")
		if err != nil || u.User != nil || u.Path != "/" || u.Fragment != "" || u.RawQuery != "" {
			t.Fatalf("accepted %q, which is no host: %v", host, err)
		}
		name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
			if !ip.Unmap().IsLoopback() {
				t.Fatalf("accepted the address %s", ip)
			}
		} else if ofPage := name == "own.localhost" || name == "runnel.example"; ofPage != (verdict == HostOfPage) || !ofPage && name != "localhost" && name != "work.example" {
			t.Fatalf("accepted the name %q as %d", name, verdict)
		}
		r := httptest.NewRequest("POST", "/api/session/x/kill", nil)
		r.Host = host
		r.Header["Origin"] = []string{origin}
		if origins.Judge(r, verdict) != nil {
			return
		}
		o, err := url.Parse(origin)
		if err != nil || o.Scheme != "http" && origin != "https://runnel.example" {
			t.Fatalf("accepted the origin %q: %v", origin, err)
		}
		if !strings.EqualFold(o.Host, host) && origin != "https://runnel.example" {
			t.Fatalf("accepted the origin %q for the host %q", origin, host)
		}
	})
}
