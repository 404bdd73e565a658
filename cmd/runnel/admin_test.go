package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTokenForThisMachineGoesThroughNoProxy runs itself in child processes,
// because Go reads the proxy settings once per process.
func TestTokenForThisMachineGoesThroughNoProxy(t *testing.T) {
	const role = "RUNNEL_TEST_PROXY_CLIENT"
	if base := os.Getenv(role); base != "" {
		_ = newAdmin(base, "rnl_secret", dialServer).get(t.Context(), "/api/me", nil)
		return
	}
	asked := make(chan string, 10)
	serve := func(who string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- who + " " + r.Host }))
		t.Cleanup(srv.Close)
		return srv.Listener.Addr().String()
	}
	proxy, server := serve("proxy"), serve("server")
	_, port, err := net.SplitHostPort(server)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"random.localhost", "RANDOM.LocalHost", "localhost", "127.0.0.1"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), role+"=http://"+name+":"+port, "HTTP_PROXY=http://"+proxy, "http_proxy=http://"+proxy, "NO_PROXY=", "no_proxy=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		if got := <-asked; !strings.HasPrefix(got, "server ") {
			t.Errorf("%s: got asked %q", name, got)
		}
	}
}

func TestTokenNameWithControlCharactersIsRejected(t *testing.T) {
	for _, name := range []string{"", "a\nb", "a\x1b[31mb", "\u202eci"} {
		out, errOut, code := callRunnel(nil, "token", "create", name, "--data", t.TempDir())
		if code != 2 || out != "" || strings.ContainsAny(errOut, "\x1b\u202e") {
			t.Errorf("%q: exit code %d, %q %q", name, code, out, errOut)
		}
	}
}
