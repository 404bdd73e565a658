package auth

import (
	"bufio"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

func TestServerOfThisUserIsAccepted(t *testing.T) {
	for _, at := range []struct{ network, address string }{{"tcp", "127.0.0.1:0"}, {"tcp", "[::1]:0"}, {"tcp", ":0"}, {"unix", ""}} {
		ln := listen(t, at.network, at.address)
		to := ln.Addr().String()
		if at.address == ":0" { // dial one of the addresses on which it listens
			_, port, _ := net.SplitHostPort(to)
			to = net.JoinHostPort("127.0.0.1", port)
		}
		c, err := net.Dial(at.network, to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := CheckServer(c); err != nil {
			t.Errorf("%s: %v", ln.Addr(), err)
		}
	}
}

// CheckServer rejects a child process of this test that listens on the socket.
// To CheckServer, the child is to this test what an agent's process is to a
// server.
func TestServerBelowAgentIsRejected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	cmd := process("listen")
	cmd.Env = append(cmd.Env, atVar+"=unix "+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // the child listens
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := CheckServer(c); !errors.Is(err, ErrServerAgent) {
		t.Errorf("got %v", err)
	}
	in.Close()
	_ = cmd.Wait()
	if err := CheckServer(c); !errors.Is(err, ErrServerAgent) {
		t.Errorf("of one that has ended: got %v", err)
	}
}

// An agent accepts the connection. Afterwards a server of the user listens on
// the same address. CheckServer must find out that the agent has the
// connection.
func TestConnectionThatAgentAcceptedIsRejected(t *testing.T) {
	cmd := process("accept")
	cmd.Env = append(cmd.Env, atVar+"=tcp 127.0.0.1:0")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	said := bufio.NewScanner(out)
	if !said.Scan() {
		t.Fatal("it does not listen")
	}
	at := said.Text()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !said.Scan() || said.Text() != "accepted" {
		t.Fatalf("it said %q", said.Text())
	}
	listen(t, "tcp", at)
	if err := CheckServer(c); !errors.Is(err, ErrServerAgent) {
		t.Errorf("got %v", err)
	}
}

// No process holds the listening socket, because it is in a message that is in
// transit between two sockets. An agent can hide a socket in this way.
func TestServerThatNobodyHoldsIsRejected(t *testing.T) {
	ln := listen(t, "tcp", "127.0.0.1:0")
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := CheckServer(c); !errors.Is(err, ErrServerAgent) {
		t.Errorf("got %v", err)
	}
}

func TestServerOfAnotherUserIsRejected(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be someone else")
	}
	// A socket belongs to the user who created it.
	tcp, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(tcp), "socket")
	defer f.Close()
	if err := unix.Fchown(tcp, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Bind(tcp, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(tcp, 1)); err != nil {
		t.Fatal(err)
	}
	ln, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := CheckServer(c); !errors.Is(err, ErrServerUser) {
		t.Errorf("got %v", err)
	}
}

func TestFindListenerWithoutOne(t *testing.T) {
	ln := listen(t, "tcp", "127.0.0.1:0")
	at := addressOf(ln.Addr())
	s, err := findListener(at)
	if held, herr := procinfo.HoldsSocket(os.Getpid(), s.inode); err != nil || herr != nil || !held || !s.listens || s.uid != os.Geteuid() {
		t.Errorf("got %+v, %v, %v", s, err, herr)
	}
	ln.Close()
	if s, err := findListener(at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %+v, %v", s, err)
	}
}
