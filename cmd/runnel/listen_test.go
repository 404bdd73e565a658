//go:build unix

package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testload"
)

// A browser tries [::1] before 127.0.0.1, so the server must listen on both.
func TestServeListensOnBothLoopbackAddresses(t *testing.T) {
	testload.TakesLong(t)
	if !hasIPv6Loopback() {
		t.Skip("this machine has no [::1]")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0"} {
		s := startServer(t, t.TempDir()+"/data", "", nil, "--listen", address)
		_, port, err := net.SplitHostPort(strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"127.0.0.1", "::1"} {
			s.url = "http://" + net.JoinHostPort(host, port)
			if answer := s.call("GET", "/api/health", ""); !bytes.Contains(answer, []byte(`"ok"`)) {
				t.Errorf("--listen %s: %s answers %s", address, host, answer)
			}
		}
		s.end()
	}
}

func TestServeRefusesPortTakenOnTheOtherLoopbackAddress(t *testing.T) {
	testload.TakesLong(t)
	if !hasIPv6Loopback() {
		t.Skip("this machine has no [::1]")
	}
	for _, taken := range []string{"[::1]:0", "127.0.0.1:0"} {
		other, err := net.Listen("tcp", taken)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		_, port, _ := net.SplitHostPort(other.Addr().String())
		for _, host := range []string{"127.0.0.1", "::1", "localhost"} {
			cmd := exec.CommandContext(t.Context(), "runnel", "serve", "--listen", net.JoinHostPort(host, port), "--data", t.TempDir()+"/data")
			said := new(bytes.Buffer)
			cmd.Stderr = said
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := out.Read(make([]byte, 1)); n > 0 {
				t.Errorf("--listen %s with %s taken: it starts", host, other.Addr())
				_ = cmd.Process.Kill()
			}
			if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), "the address "+other.Addr().String()+" is in use by another program") {
				t.Errorf("--listen %s with %s taken: %v\n%s", host, other.Addr(), err, said)
			}
		}
	}
}

// Servers with different data directories may have the same setting "socket".
// The second must not take the socket, because the command line of the first
// would then reach the second.
func TestServeLeavesTheSocketOfARunningServer(t *testing.T) {
	data := t.TempDir() + "/data"
	s := startServer(t, data, "", nil)
	defer s.end()
	socket := data + "/api.sock"
	before, err := os.Lstat(socket)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "runnel", "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir()+"/data", "--socket", socket)
	said := new(bytes.Buffer)
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := out.Read(make([]byte, 1)); n > 0 {
		t.Error("the second server runs")
		_ = cmd.Process.Kill()
	}
	_ = cmd.Wait()
	if !strings.Contains(said.String(), "another program listens on the unix socket") {
		t.Errorf("said %q", said)
	}
	if after, err := os.Lstat(socket); err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket was replaced: %v", err)
	}
}
