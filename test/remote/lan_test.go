//go:build unix

package remote

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel/internal/lan"
	"github.com/runnel-dev/runnel/internal/testprogram"
)

// onNetwork starts a server with --lan, or skips the test if this machine has
// no private address.
func onNetwork(t *testing.T) *testprogram.Server {
	t.Helper()
	built(t)
	if addrs, err := lan.Addresses(); err != nil || len(addrs) == 0 {
		t.Skipf("this machine has no private address: %v, %v", addrs, err)
	}
	s := &testprogram.Server{Args: []string{"--lan"}}
	s.Start(t)
	return s
}

var phoneLink = regexp.MustCompile(`On a phone, scan this code within a minute, or open (https://\S+/#c=\S+)`)

// links returns the login link for this machine, and the one for a phone.
func links(t *testing.T, s *testprogram.Server) (here, phone string) {
	t.Helper()
	out := s.Command(t, "login", "--qr")
	m := phoneLink.FindStringSubmatch(out)
	if m == nil || !strings.Contains(out, "▀") {
		t.Fatalf("login --qr printed %s", out)
	}
	here, _, _ = strings.Cut(out, "\n")
	return here, m[1]
}

func pageOf(link string) string { return strings.SplitN(link, "/#c=", 2)[0] }

// project returns a temporary folder by its path without links.
func project(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPhoneUsesThePageOverTheLocalNetwork(t *testing.T) {
	s := onNetwork(t)
	authority := []byte(s.Command(t, "certificate", "--pem"))
	here, link := links(t, s)
	phone := newDevice(t, pageOf(link), authority, "")

	t.Run("a device downloads the certificate without a login", func(t *testing.T) {
		d := *phone
		d.t = t
		status, page := d.ask("GET", "/certificate", nil)
		fingerprint := regexp.MustCompile(`SHA-256 +(\S+)`).FindStringSubmatch(s.Command(t, "certificate"))[1]
		if status != http.StatusOK || !strings.Contains(strings.ReplaceAll(page, "<wbr>", ""), fingerprint) || !strings.Contains(page, `href="certificate.crt"`) || strings.Contains(page, "<script") {
			t.Errorf("/certificate: %d %s", status, page)
		}
		res := d.open("GET", "/certificate.crt", nil)
		file, _ := io.ReadAll(res.Body)
		if kind := res.Header.Get("Content-Type"); kind != "application/x-x509-ca-cert" || !bytes.Equal(bytes.TrimSpace(file), bytes.TrimSpace(authority)) || bytes.Contains(file, []byte("PRIVATE")) {
			t.Errorf("/certificate.crt: %s %s", kind, file)
		}
		if status, _ := d.ask("GET", "/api/session/list", nil); status != http.StatusUnauthorized {
			t.Errorf("without a login: %d", status)
		}
	})
	t.Run("a device that does not trust the authority connects to nothing", func(t *testing.T) {
		d := newDevice(t, phone.page, otherAuthority(t), "")
		if _, err := d.http.Get(d.page + "/api/health"); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("other hosts and origins are refused", func(t *testing.T) {
		d := *phone
		d.t = t
		for _, host := range []string{"evil.example", "evil.local:7317", "[fd00::ffff]:7317", "203.0.113.7"} {
			if status, text := d.ask("GET", "/api/health", nil, func(r *http.Request) { r.Host = host }); status != http.StatusForbidden {
				t.Errorf("Host %s: %d %s", host, status, text)
			}
		}
		for _, origin := range []string{"https://evil.example", strings.Replace(d.origin, "https", "http", 1), s.Page} {
			if status, text := d.ask("POST", "/api/login", object{"code": "x"}, func(r *http.Request) { r.Header.Set("Origin", origin) }); status != http.StatusForbidden {
				t.Errorf("Origin %s: %d %s", origin, status, text)
			}
		}
		u, err := url.Parse(s.API)
		if err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequest("GET", "http://"+u.Host+"/api/health", nil)
		req.Host = strings.TrimPrefix(d.origin, "https://")
		if res, err := http.DefaultClient.Do(req); err != nil || res.StatusCode != http.StatusForbidden {
			t.Errorf("the network's Host without TLS: %v, %v", res, err)
		}
	})
	t.Run("guesses in the network are throttled and do not lock the owner out", func(t *testing.T) {
		d := *phone
		d.t = t
		throttled := false
		for range 12 {
			status, _ := d.ask("POST", "/api/login", object{"code": "rnl_" + strings.Repeat("A", 43)})
			throttled = throttled || status == http.StatusTooManyRequests
		}
		if !throttled {
			t.Error("twelve wrong codes were not throttled")
		}
	})
	t.Run("another user of this machine cannot use a login link", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("it takes root to be several users")
		}
		file := filepath.Join(t.TempDir(), "authority.crt")
		if err := os.WriteFile(file, authority, 0o644); err != nil {
			t.Fatal(err)
		}
		for dir := filepath.Dir(file); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		_, code, _ := strings.Cut(link, "/#c=")
		cmd := exec.Command("curl", "-sS", "--cacert", file, "-H", "Origin: "+phone.origin, "-H", "Sec-Fetch-Site: same-origin", "--json", `{"code":"`+code+`"}`, phone.page+"/api/login")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Dir = "/"
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "another user") {
			t.Errorf("%v %s", err, out)
		}
	})
	phone.agent = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1"
	phone.logIn(link)
	phone.useEverything(project(t))
	old := newDevice(t, phone.page, authority, "").oldHTTP()
	old.cookie, old.login = phone.cookie, phone.login
	old.useEverything(project(t))

	checkDevice(t, s, phone)
	_, code, _ := strings.Cut(here, "/#c=")
	if status, text := phone.ask("POST", "/api/login", object{"code": code}); status != http.StatusUnauthorized && status != http.StatusTooManyRequests {
		t.Errorf("the code works a second time: %d %s", status, text)
	}
}

// checkDevice checks that the login of a phone is a named device, and that its
// stream and its requests end when it is revoked.
func checkDevice(t *testing.T, s *testprogram.Server, phone *device) {
	t.Helper()
	var found struct {
		ID, Name             string
		CreatedAt, ExpiresAt time.Time
	}
	if list := s.Command(t, "devices", "list", "--json"); json.Unmarshal([]byte(list), &found) != nil || found.Name != "Safari on iPhone" {
		t.Fatalf("devices: %s", list)
	}
	if life := found.ExpiresAt.Sub(found.CreatedAt); life < 30*24*time.Hour || life > 30*24*time.Hour+time.Hour {
		t.Errorf("the login is valid for %s", life)
	}
	socket, _ := phone.socket()
	s.Command(t, "devices", "revoke", found.ID)
	if _, _, err := socket.Read(t.Context()); websocket.CloseStatus(err) != 4401 {
		t.Errorf("the WebSocket of a revoked device: %v", err)
	}
	if status, _ := phone.ask("GET", "/api/me", nil); status != http.StatusUnauthorized {
		t.Errorf("a request of a revoked device: %d", status)
	}
}

func TestAuthorityOutlivesTheServer(t *testing.T) {
	s := onNetwork(t)
	before := s.Command(t, "certificate", "--pem")
	file := filepath.Join(s.Home, ".config", "runnel", "lan-authority.pem")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the authority: %v, %v", info, err)
	}
	s.Stop()
	s.Start(t)
	if s.Command(t, "certificate", "--pem") != before {
		t.Error("the server has another authority after a restart, so every device must trust it again")
	}
	s.Stop()
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "--lan", "--listen", "127.0.0.1:0"}, {"certificate"}} {
		cmd := exec.Command(testprogram.Path(t), append(args, "--data", s.Data)...)
		cmd.Env = s.Env
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "lan-authority.pem can be read by others") {
			t.Errorf("%s with a key that others can read: %v %s", args[0], err, out)
		}
	}
}

// otherAuthority returns the certificate of the authority of another machine.
func otherAuthority(t *testing.T) []byte {
	t.Helper()
	home := t.TempDir()
	s := &testprogram.Server{Home: home, Args: []string{"--lan"}}
	s.Start(t)
	defer s.Stop()
	return []byte(s.Command(t, "certificate", "--pem"))
}
