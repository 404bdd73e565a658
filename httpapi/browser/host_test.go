package browser

import (
	"flag"
	"fmt"
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

// Catalogue: B03.
func TestHostTable(t *testing.T) {
	hosts := []string{
		"localhost", "localhost:7777", "LOCALHOST", "LOCALHOST.", "localhost.", "localhost..", "127.0.0.1", "127.0.0.1:7777", "127.0.0.1.", "127.8.9.1",
		"[::1]", "[::1]:7777", "::1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]:1", "[::1%lo]", "[127.0.0.1]", "[::1", "[::1]x", "[::1]:",
		"127.evil.com", "localhost.evil.com", "127.0.0.1.nip.io", "evil-localhost", "notlocalhost", "0.0.0.0", "0.0.0.0:7777", "[::]", "0x7f.1",
		"2130706433", "127.1", "0177.0.0.1", "192.168.1.5", "10.0.0.7:80", "[fe80::1]", "work.example", "WORK.example:1", "sub.work.example", "work.example.evil.com",
		"", " ", ":7777", "localhost:", "localhost:77777777", "localhost:x", "localhost:1:2", "user@localhost", "localhost@evil.com", "localhost/evil", "localhost\\evil",
		"localhost\x00", "localhost,evil.com", "loc\u0430lhost", "xn--lclhost-6fg", "localhost%00", "http://localhost", "локалхост",
		strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 200) + "example",
	}
	names := map[Verdict]string{HostRefused: "refused ", HostInvalid: "invalid ", HostAccepted: "accepted"}
	bound := map[string]interface{ Judge(string) Verdict }{
		"loopback": NewHosts(nil, []string{"work.example"}),
		"address":  NewHosts([]netip.Addr{netip.MustParseAddr("192.168.1.5")}, []string{"Work.Example."}),
		"wildcard": NewHosts([]netip.Addr{netip.IPv4Unspecified()}, []string{"work.example"}),
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
