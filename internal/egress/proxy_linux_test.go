package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/bridge"
	"github.com/runnel-dev/runnel/internal/publicip"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a proxy in a network of its own: names resolve to the addresses in
// hosts, and every connection leads to the server.
type rig struct {
	proxy *Proxy
	path  string
	hosts map[string]string

	mu       sync.Mutex
	dialled  []string
	resolved []string
	attempts []Attempt
	ended    chan Attempt
}

func newRig(t *testing.T, p Policy, server string) *rig {
	t.Helper()
	return newAskingRig(t, p, server, nil)
}

// newAskingRig is newRig with a Config.Ask.
func newAskingRig(t *testing.T, p Policy, server string, ask func(context.Context, string, int) Answer) *rig {
	t.Helper()
	r := &rig{path: filepath.Join(t.TempDir(), "s"), hosts: map[string]string{}, ended: make(chan Attempt, 100)}
	ln, err := net.Listen("unix", r.path)
	if err != nil {
		t.Fatal(err)
	}
	r.proxy = Serve(ln, Config{
		Policy: p, Secret: "secret", Ask: ask,
		Report: func(a Attempt) {
			r.mu.Lock()
			r.attempts = append(r.attempts, a)
			r.mu.Unlock()
			if !a.Open {
				r.ended <- a
			}
		},
		resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			r.mu.Lock()
			r.resolved = append(r.resolved, host)
			r.mu.Unlock()
			if r.hosts[host] == "" {
				return nil, errors.New("no such host")
			}
			var out []netip.Addr
			for a := range strings.SplitSeq(r.hosts[host], " ") {
				out = append(out, netip.MustParseAddr(a))
			}
			return out, nil
		},
		dial: func(ctx context.Context, address string) (net.Conn, error) {
			r.mu.Lock()
			r.dialled = append(r.dialled, address)
			r.mu.Unlock()
			return new(net.Dialer).DialContext(ctx, "tcp", server)
		},
		own: func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("203.0.113.7")} },
	})
	t.Cleanup(r.proxy.Close)
	return r
}

// open sends raw bytes as a program does whose connection is handed to the
// proxy with a secret, and returns the connection.
func (r *rig) open(t *testing.T, secret, raw string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, accepted := pair(t)
	r.hand(t, secret, 0, accepted)
	_, _ = io.WriteString(c, raw) // fails if the proxy has closed the connection
	return c, bufio.NewReader(c)
}

// hand does what the bridge does with a connection that it has accepted.
func (r *rig) hand(t *testing.T, secret string, port int, accepted *net.TCPConn) {
	t.Helper()
	defer accepted.Close()
	to := r.dial(t)
	defer to.Close()
	if err := bridge.Hand(to, secret, port, accepted); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) dial(t *testing.T) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: r.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pair returns both ends of a connection: the program's, and the accepted one.
func pair(t *testing.T) (program net.Conn, accepted *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if program, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return program, c.(*net.TCPConn)
}

// request sends raw bytes, with a secret, and returns the status of the answer
// and the connection.
func (r *rig) request(t *testing.T, secret, raw string) (int, net.Conn, *bufio.Reader) {
	t.Helper()
	c, br := r.open(t, secret, raw)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return 0, c, br
	}
	return resp.StatusCode, c, br
}

func connectTo(host string, port int) string {
	at := net.JoinHostPort(host, strconv.Itoa(port))
	return "CONNECT " + at + " HTTP/1.1\r\nHost: " + at + "\r\n\r\n"
}

func policy(t *testing.T, own, allow, sets []string) Policy {
	t.Helper()
	p, err := New(own, allow, sets)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProxyConnectsOnlyToListedHosts(t *testing.T) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }))
	defer echo.Close()
	_, port, _ := net.SplitHostPort(echo.Listener.Addr().String())
	local, _ := strconv.Atoi(port)
	p := policy(t, []string{"api.example.com"}, []string{"*.sub.example.org", "10.1.0.0/16", "intern.example.com", "deep.example.com:8443", "203.0.113.7", "localhost:" + port}, []string{"git"})
	p.Refused = []int{7317}
	p.Entries = append(p.Entries, Entry{Loopback: 7317, By: "test"})
	r := newRig(t, p, echo.Listener.Addr().String())
	r.hosts = map[string]string{
		"api.example.com": "93.184.216.34", "a.sub.example.org": "93.184.216.35", "intern.example.com": "10.1.2.3",
		"github.com": "10.2.0.1", "gitlab.com": "127.0.0.1", "bitbucket.org": "203.0.113.7", "codeberg.org": "169.254.169.254 93.184.216.36",
		"deep.example.com": "93.184.216.37", "raw.githubusercontent.com": "::ffff:192.168.1.1", "crates.io": "93.184.216.40",
		"site.sub.example.org": "fec0::1", "translated.sub.example.org": "::ffff:0:a00:1", "relay.sub.example.org": "192.88.99.1", "orchid.sub.example.org": "2001:10::1",
	}
	for _, c := range []struct {
		host   string
		port   int
		status int
		by     string
	}{
		{"api.example.com", 443, 200, "agent"},
		{"API.example.com.", 443, 200, "agent"},
		{"api.example.com", 8443, 403, ""},
		{"xapi.example.com", 443, 403, ""},
		{"a.sub.example.org", 443, 200, "egress.allow: *.sub.example.org"},
		{"sub.example.org", 443, 403, ""},
		{"evil.com", 443, 403, ""},
		{"intern.example.com", 443, 200, "egress.allow: intern.example.com"}, // the private address is listed, too
		{"10.1.9.9", 443, 200, "egress.allow: 10.1.0.0/16"},
		{"10.2.0.1", 443, 403, ""},
		{"93.184.216.34", 443, 403, ""},                // the address of a listed name
		{"github.com", 443, 403, ""},                   // leads into the private network
		{"gitlab.com", 443, 403, ""},                   // leads to this machine
		{"bitbucket.org", 443, 403, ""},                // leads to an address of this machine
		{"203.0.113.7", 443, 403, ""},                  // this machine, though listed as an address
		{"codeberg.org", 443, 200, "egress.sets: git"}, // only its public address counts
		{"raw.githubusercontent.com", 443, 403, ""},
		{"site.sub.example.org", 443, 403, ""}, // old private addresses, and ranges that stand for IPv4 addresses
		{"translated.sub.example.org", 443, 403, ""},
		{"relay.sub.example.org", 443, 403, ""},
		{"orchid.sub.example.org", 443, 403, ""},
		{"deep.example.com", 8443, 200, "egress.allow: deep.example.com:8443"},
		{"deep.example.com", 443, 403, ""},
		{"crates.io", 443, 403, ""},
		{"localhost", local, 200, "egress.allow: localhost:" + port},
		{"127.0.0.1", local, 200, "egress.allow: localhost:" + port},
		{"::1", local, 200, "egress.allow: localhost:" + port},
		{"127.0.0.1", 1, 403, ""},
		{"0.0.0.0", 22, 403, ""},
		{"127.1.2.3", 22, 403, ""},
		{"127.0.0.1", 7317, 403, ""}, // the server itself
		{"unknown.sub.example.org", 443, 502, ""},
	} {
		status, conn, _ := r.request(t, "secret", connectTo(c.host, c.port))
		if status != c.status {
			t.Errorf("%s:%d: status %d, want %d", c.host, c.port, status, c.status)
		}
		conn.Close()
		if a := <-r.ended; c.status != 502 && a.By != c.by || a.Port != c.port || (a.Why == "") != (c.status == 200) {
			t.Errorf("%s:%d: recorded as %+v", c.host, c.port, a)
		}
	}
	for _, at := range r.dialled {
		if ip := netip.MustParseAddrPort(at).Addr(); !publicip.Is(ip) && !ip.IsLoopback() && !netip.MustParsePrefix("10.1.0.0/16").Contains(ip) {
			t.Errorf("connected to %s", at)
		}
	}
}

func TestProxyCountsBytesAndEndsTunnels(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }))
	defer server.Close()
	r := newRig(t, policy(t, []string{"api.example.com"}, nil, nil), server.Listener.Addr().String())
	r.hosts["api.example.com"] = "93.184.216.34"
	const request = "GET / HTTP/1.0\r\nHost: x\r\n\r\n"
	status, c, br := r.request(t, "secret", connectTo("api.example.com", 443)+request) // the request comes with the CONNECT request
	if status != 200 {
		t.Fatalf("status %d", status)
	}
	answer, err := io.ReadAll(br)
	if err != nil || !strings.HasSuffix(string(answer), "hello") {
		t.Fatalf("answer %q, %v", answer, err)
	}
	c.Close()
	if a := <-r.ended; a.Sent != int64(len(request)) || a.Received != int64(len(answer)) || a.By != "agent" {
		t.Errorf("recorded as %+v", a)
	}
	if _, c, _ = r.request(t, "secret", connectTo("api.example.com", 443)); c == nil {
		t.Fatal("no connection")
	}
	r.proxy.Close()
	if a := <-r.ended; a.Open {
		t.Errorf("recorded as %+v", a)
	}
	if _, err := io.ReadAll(c); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		t.Errorf("an open tunnel: %v", err)
	}
}

func TestProxyServesPlainRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.Header.Get("Proxy-Authorization"))
	}))
	defer server.Close()
	r := newRig(t, policy(t, nil, []string{"deb.example.com"}, nil), server.Listener.Addr().String())
	r.hosts["deb.example.com"] = "93.184.216.34"
	for host, want := range map[string]int{"deb.example.com": 200, "other.example.com": 403, "127.0.0.1": 403} {
		status, c, br := r.request(t, "secret", "GET http://"+host+"/x HTTP/1.1\r\nHost: "+host+"\r\nProxy-Authorization: Basic eA==\r\nConnection: close\r\n\r\n")
		if status != want {
			t.Errorf("%s: status %d, want %d", host, status, want)
		}
		if status == 200 {
			if body, _ := io.ReadAll(br); !strings.Contains(string(body), "GET deb.example.com ") {
				t.Errorf("the host received %q", body)
			}
		}
		c.Close()
	}
	if status, _, _ := r.request(t, "secret", "GET / HTTP/1.1\r\nHost: deb.example.com\r\n\r\n"); status != http.StatusBadRequest {
		t.Errorf("a request without a URL: status %d", status)
	}
}

// A listed host has many spellings, and each has connections of its own.
func TestProxyKeepsFewConnectionsWithoutARequest(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer origin.Close()
	r := newRig(t, policy(t, nil, []string{"localhost:8080"}, nil), origin.Listener.Addr().String())
	program, answers := r.open(t, "secret", "")
	const requests = 90
	for i := range requests {
		fmt.Fprintf(program, "GET http://127.0.0.%d:8080/ HTTP/1.1\r\nHost: x\r\n\r\n", i+1)
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	for range requests - maxIdle {
		<-r.ended
	}
}

func TestProxyRejectsConnectionsWithoutTheSecret(t *testing.T) {
	r := newRig(t, policy(t, []string{"api.example.com"}, nil, nil), "127.0.0.1:1")
	r.hosts["api.example.com"] = "93.184.216.34"
	for _, secret := range []string{"", "wrong!", "secreT"} {
		if status, _, _ := r.request(t, secret, connectTo("api.example.com", 443)); status != 0 {
			t.Errorf("secret %q: status %d", secret, status)
		}
	}
	if len(r.dialled) > 0 {
		t.Errorf("connected to %v", r.dialled)
	}
}

// TestProxyTakesOnlyTheConnectionOfAProgram knows the secret and sends anything
// but the connection of a program.
func TestProxyTakesOnlyTheConnectionOfAProgram(t *testing.T) {
	r := newRig(t, policy(t, []string{"api.example.com"}, nil, nil), "127.0.0.1:1")
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	for what, c := range map[string]struct {
		message string
		fds     []int
	}{
		"nothing":           {"secret00000", nil},
		"a file":            {"secret00000", []int{int(file.Fd())}},
		"a unix socket":     {"secret00000", []int{ends[0]}},
		"two descriptors":   {"secret00000", []int{ends[0], ends[1]}},
		"no port":           {"secretports", []int{ends[0]}},
		"a negative port":   {"secret-0001", []int{ends[0]}},
		"half of a message": {"secr", []int{ends[0]}},
	} {
		to := r.dial(t)
		var rights []byte
		if c.fds != nil {
			rights = unix.UnixRights(c.fds...)
		}
		if _, _, err := to.WriteMsgUnix([]byte(c.message), rights, nil); err != nil {
			t.Fatal(err)
		}
		_ = to.CloseWrite()
		if n, err := to.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%s: the proxy answered", what)
		}
		to.Close()
	}
	if status, _, _ := r.request(t, "secret", connectTo("other.example.com", 443)); status != http.StatusForbidden {
		t.Errorf("afterwards the proxy answers %d", status)
	}
	if len(r.dialled) > 0 {
		t.Errorf("connected to %v", r.dialled)
	}
}

// A program in the sandbox can connect to the proxy, too. Without the secret it
// must not fill the server with descriptors, one with each byte.
func TestProxyKeepsNoDescriptorsWithoutTheSecret(t *testing.T) {
	r := newRig(t, policy(t, nil, nil, nil), "127.0.0.1:1")
	to := r.dial(t)
	defer to.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	_, _, err = to.WriteMsgUnix([]byte("s"), unix.UnixRights(int(write.Fd())), nil)
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	_ = to.SetReadDeadline(time.Now().Add(headTime / 2))
	if _, err := to.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the proxy waits for the rest of a message: %v", err)
	}
	_ = read.SetReadDeadline(time.Now().Add(headTime / 2))
	if _, err := read.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the proxy keeps the descriptor: %v", err)
	}
}

func TestProxyConnectsToPortsWithoutARequest(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	port := echo.Addr().(*net.TCPAddr).Port
	r := newRig(t, policy(t, nil, []string{fmt.Sprint("localhost:", port)}, nil), echo.Addr().String())
	for reached, want := range map[int]string{port: "hello", port + 1: ""} {
		program, accepted := pair(t)
		r.hand(t, "secret", reached, accepted)
		_, _ = io.WriteString(program, "hello")
		_ = program.(*net.TCPConn).CloseWrite()
		if got, _ := io.ReadAll(program); string(got) != want {
			t.Errorf("port %d answered %q, want %q", reached, got, want)
		}
	}
	for range 2 {
		switch a := <-r.ended; a.Port {
		case port:
			if a.By == "" || a.Why != "" || a.Sent != 5 || a.Received != 5 {
				t.Errorf("the listed port: %+v", a)
			}
		default:
			if a.By != "" || a.Why == "" {
				t.Errorf("the other port: %+v", a)
			}
		}
	}
}

func TestPolicyRejectsWrongEntries(t *testing.T) {
	for _, entry := range []string{
		"", "*", "*.com", "https://example.com", "example.com/path", "user@example.com", "exa mple.com", "localhost", "127.0.0.1", "127.0.0.0/8",
		"::1", "0.0.0.0/0", "::/0", "example.com:0", "example.com:70000", "example.com:x", "a..b", strings.Repeat("a", 300), "*.*.example.com",
	} {
		if p, err := New(nil, []string{entry}, nil); err == nil {
			t.Errorf("%q was accepted as %+v", entry, p.Entries)
		} else if !strings.Contains(err.Error(), "egress.allow.0: ") {
			t.Errorf("%q: the error does not name the entry: %v", entry, err)
		}
	}
	if _, err := New(nil, nil, []string{"everything"}); err == nil || !strings.Contains(err.Error(), "git or packages") {
		t.Errorf("an unknown set: %v", err)
	}
	if _, err := New(nil, make([]string, MaxEntries+1), nil); err == nil {
		t.Error("too many entries were accepted")
	}
}
