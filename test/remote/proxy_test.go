//go:build unix

package remote

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testprogram"
)

// configurations returns the configurations in docs/remote.md in a language:
// that for a name of its own, and that for a path.
func configurations(t *testing.T, language string) (name, path string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/remote.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(text, -1)
	if len(found) != 2 {
		t.Fatalf("docs/remote.md has %d configurations for %s, want 2", len(found), language)
	}
	return string(found[0][1]), string(found[1][1])
}

// replaced replaces texts that occur in a configuration: what an administrator
// changes, too.
func replaced(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the configuration lacks %q:\n%s", pairs[i], text)
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// freePorts returns the addresses of free ports of this machine. They are below
// the ports that the system gives to connections, which could take one of them
// before a proxy listens.
func freePorts(t *testing.T, n int) (addrs []string) {
	t.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+mathrand.IntN(12_000)))
		if err != nil {
			continue // in use
		}
		defer ln.Close()
		if addrs = append(addrs, ln.Addr().String()); len(addrs) == n {
			return addrs
		}
	}
	t.Fatal("no free ports from 20000 to 32000")
	return nil
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// run runs a proxy until the test ends, and returns once it has printed ready.
func run(t *testing.T, ready string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	started, ended := make(chan bool, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), ready) {
				select {
				case started <- true:
				default:
				}
			}
			printed.WriteString(lines.Text() + "\n")
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, printed.String())
		}
	})
	select {
	case <-started:
	case <-ended:
		t.Fatalf("%s did not start:\n%s", name, printed.String())
	case <-time.After(waitTimeout):
		t.Fatalf("%s did not print %q", name, ready)
	}
}

// needed skips the test if a program is missing. make test-binary installs it.
func needed(t *testing.T, name string) {
	t.Helper()
	built(t)
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed; .ci/need %s installs it", name, name)
	}
}

// certify writes a certificate for names and its key to two files, and returns
// the certificate.
func certify(t *testing.T, cert, key string, names ...string) []byte {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, data := range map[string][]byte{cert: public, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return public
}

// behind starts a server behind proxies with these origins, and returns the
// address at which the proxies reach it.
func behind(t *testing.T, origins ...string) (s *testprogram.Server, addr string) {
	t.Helper()
	s = &testprogram.Server{Args: []string{"--proxied"}}
	for _, o := range origins {
		s.Args = append(s.Args, "--origin", o)
	}
	s.Start(t)
	u, err := url.Parse(s.API)
	if err != nil {
		t.Fatal(err)
	}
	return s, u.Host
}

// use uses everything at a page with its own login, and checks what a proxy
// must not do.
func use(t *testing.T, s *testprogram.Server, page string, authority []byte, proxy string) {
	t.Run(page, func(t *testing.T) {
		d := newDevice(t, page, authority, proxy)
		_, code, _ := strings.Cut(s.Command(t, "login"), "#c=")
		d.logIn(page + "/#c=" + code)
		d.useEverything(project(t))
		if status, text := d.ask("GET", "", nil); status != http.StatusOK || !entry.MatchString(text) { // after a redirect, if the page has a path
			t.Errorf("without the slash at the end: %d %s", status, text)
		}
		if status, text := d.ask("GET", "/api/me", nil, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); status != http.StatusForbidden {
			t.Errorf("the page of another site: %d %s", status, text)
		}
		if status, _ := d.ask("GET", "/api/me", nil, func(r *http.Request) { r.Header.Del("Cookie") }); status != http.StatusUnauthorized {
			t.Errorf("without the cookie: %d", status)
		}
		checkGuesses(t, d)
	})
}

// checkGuesses checks that wrong codes are counted by the address of the device
// and not by one that the device claims.
func checkGuesses(t *testing.T, d *device) {
	t.Helper()
	for i := range 40 {
		status, _ := d.ask("POST", "/api/login", object{"code": "rnl_" + rand.Text()[:26] + rand.Text()[:16] + "A"}, func(r *http.Request) {
			r.Header.Set("X-Forwarded-For", "203.0.113."+big.NewInt(int64(i)).String())
		})
		if status == http.StatusTooManyRequests {
			return
		}
	}
	t.Error("wrong codes of a device that claims another address each time are not throttled")
}

func TestPageBehindNginx(t *testing.T) {
	needed(t, "nginx")
	byName, byPath := configurations(t, "nginx")
	at := freePorts(t, 3)
	pages := []string{"https://runnel.example.org:" + portOf(at[0]), "https://example.org:" + portOf(at[1]) + "/runnel", "https://example.org:" + portOf(at[2]) + "/runnel"}
	s, addr := behind(t, pages...)
	dir := t.TempDir()
	one := certify(t, dir+"/runnel.example.org.crt", dir+"/runnel.example.org.key", "runnel.example.org")
	two := certify(t, dir+"/example.org.crt", dir+"/example.org.key", "example.org")
	// The name of the variable must differ, because one process has all three.
	adapt := func(text, listen, variable string) string {
		return replaced(t, text, "443", listen, "/etc/ssl", dir, "127.0.0.1:7317", addr, "$runnel_connection", variable)
	}
	stripping := replaced(t, byPath, "proxy_pass http://127.0.0.1:7317;", "proxy_pass http://127.0.0.1:7317/;")
	config := "pid " + dir + "/pid; error_log stderr notice; worker_processes 1;\nevents {}\nhttp {\naccess_log off;\n" +
		adapt(byName, at[0], "$a") + adapt(byPath, at[1], "$b") + adapt(stripping, at[2], "$c") + "}\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		config = strings.Replace(config, "access_log off;", "access_log off;\n"+kind+"_temp_path "+dir+"/"+kind+";", 1)
	}
	if os.Getuid() == 0 {
		config = "user root;\n" + config
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "start worker process ", nil, "nginx", "-p", dir, "-e", "stderr", "-c", file, "-g", "daemon off;")
	for i, page := range pages {
		use(t, s, page, [][]byte{one, two, two}[i], at[i])
	}
}

func TestPageBehindCaddy(t *testing.T) {
	needed(t, "caddy")
	byName, byPath := configurations(t, "caddyfile")
	stripping := replaced(t, byPath, "handle ", "handle_path ", "example.org", "strip.example.org")
	at := freePorts(t, 1)
	pages := []string{"https://runnel.example.org:" + portOf(at[0]), "https://example.org:" + portOf(at[0]) + "/runnel", "https://strip.example.org:" + portOf(at[0]) + "/runnel"}
	s, addr := behind(t, pages...)
	dir := t.TempDir()
	cert, key := dir+"/cert.pem", dir+"/key.pem"
	authority := certify(t, cert, key, "runnel.example.org", "example.org", "strip.example.org")
	// The tests have no certificate of a public authority.
	config := "{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port " + portOf(at[0]) + "\n\tdefault_bind 127.0.0.1\n}\n"
	for _, text := range []string{byName, byPath, stripping} {
		config += replaced(t, text, "127.0.0.1:7317", addr, ".org {\n", ".org {\n    tls "+cert+" "+key+"\n")
	}
	file := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "serving initial configuration", []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}, "caddy", "run", "--config", file, "--adapter", "caddyfile")
	for _, page := range pages {
		use(t, s, page, authority, at[0])
	}
}
