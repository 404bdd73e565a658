package auth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/procinfo"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// The test binary also runs as the other processes of the tests. The variable
// roleVar lists the remaining roles, from the first process that starts to the
// one that calls.
const (
	roleVar = "AUTH_TEST_ROLES"
	atVar   = "AUTH_TEST_AT"   // network and address to call
	keepVar = "AUTH_TEST_KEEP" // directory for the takeover data of supervisors
)

func TestMain(m *testing.M) {
	supervisor.Main() // agents of these tests get real supervisors
	if roles := os.Getenv(roleVar); roles != "" {
		if err := play(roles); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A child built with the race detector would otherwise take a second to
	// exit.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	goleak.VerifyTestMain(m)
}

func play(roles string) error {
	if parent := os.Getenv("AUTH_TEST_ORPHAN"); parent != "" { // wait until the parent has exited
		os.Unsetenv("AUTH_TEST_ORPHAN")
		if _, err := io.ReadAll(os.NewFile(3, "parent")); err != nil {
			return err
		}
		for strconv.Itoa(os.Getppid()) == parent { // the parent closes its files shortly before it exits
			runtime.Gosched()
		}
	}
	role, rest, _ := strings.Cut(roles, ",")
	switch role {
	case "serve", "supervise and die", "mark and die", "start and die": // as a server would
		return serve(role, rest)
	case "drop": // runs a tool without the agent's mark, and runs until it is stopped
		tool := process(rest)
		tool.Env = slices.DeleteFunc(tool.Env, func(e string) bool { return procinfo.IsMark([]byte(e)) })
		tool.Stdin, tool.Stdout = os.Stdin, os.Stdout
		if err := tool.Start(); err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		return nil
	case "fork": // the child continues without its parent
		end, _, err := os.Pipe()
		if err != nil {
			return err
		}
		child := process(rest)
		child.ExtraFiles = []*os.File{end}
		child.Stdin, child.Stdout = os.Stdin, os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		child.Env = append(child.Env, "AUTH_TEST_ORPHAN="+strconv.Itoa(os.Getpid()))
		return child.Start()
	case "pair": // one process that judges, and a sibling that calls
		judge := process("judge")
		out, err := judge.StdoutPipe()
		if err != nil {
			return err
		}
		if err := judge.Start(); err != nil {
			return err
		}
		said := bufio.NewReader(out)
		at, err := said.ReadString('\n')
		if err != nil {
			return err
		}
		caller := process("call")
		caller.Env = append(caller.Env, atVar+"=tcp "+strings.TrimSpace(at))
		in, err := caller.StdinPipe()
		if err != nil {
			return err
		}
		if err := caller.Start(); err != nil {
			return err
		}
		verdict, err := said.ReadString('\n')
		fmt.Print(verdict)
		in.Close()
		return errors.Join(err, caller.Wait(), judge.Wait())
	case "judge":
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(ln.Addr())
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		fmt.Println(NewPeer(c).Agent())
		return nil
	case "listen":
		network, address, _ := strings.Cut(os.Getenv(atVar), " ")
		ln, err := net.Listen(network, address)
		if err != nil {
			return err
		}
		fmt.Println("listens")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return ln.Close()
	case "accept": // accept one connection and stop listening
		network, address, _ := strings.Cut(os.Getenv(atVar), " ")
		ln, err := net.Listen(network, address)
		if err != nil {
			return err
		}
		fmt.Println(ln.Addr())
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		ln.Close()
		fmt.Println("accepted")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return c.Close()
	case "foreign":
		if err := syscall.Setuid(12345); err != nil {
			return err
		}
	}
	return callUp(role)
}

func callUp(role string) error {
	network, address, _ := strings.Cut(os.Getenv(atVar), " ")
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	fmt.Println("called")
	switch role {
	case "leave":
		return nil
	case "stay": // the process that started this one has exited
		_, _ = io.Copy(io.Discard, c)
	default:
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	return c.Close()
}

// serve starts an agent as a server does: under a supervisor, with a mark, or
// with neither. It prints the first line of the agent. Then it waits for the
// end of the test, or exits as if it had been killed.
func serve(role, rest string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := proc.Command{Path: self, Env: append(os.Environ(), roleVar+"="+rest, "GORACE=atexit_sleep_ms=0")}
	if role != "start and die" {
		c.Mark = "AUTH_TEST_" + proc.MarkSuffix
	}
	var agent interface {
		Stdout() io.Reader
		Stop(ctx context.Context, l proc.Ladder) error
	}
	switch role {
	case "serve", "supervise and die":
		agent, err = supervisor.Start(context.Background(), c, takeoverIn(os.Getenv(keepVar)))
	default:
		agent, err = proc.Start(context.Background(), c)
	}
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(agent.Stdout()).ReadString('\n')
	fmt.Print(line)
	if err != nil || role != "serve" {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return agent.Stop(context.Background(), proc.Now)
}

// takeoverIn returns a Takeover with which a supervisor outlives its server.
func takeoverIn(dir string) supervisor.Takeover {
	return supervisor.Takeover{Dir: dir, Name: "agent", Window: time.Minute}
}

func process(roles string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVar+"="+roles, "GORACE=atexit_sleep_ms=0") // otherwise each process takes a second to exit
	return cmd
}

// call starts processes of which the last calls ln, and returns this side of
// the connection.
func call(t *testing.T, ln net.Listener, roles string) net.Conn {
	t.Helper()
	cmd := process(roles)
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := supervisor.End(takeoverIn(dir)); err != nil {
			t.Error(err)
		}
	})
	cmd.Env = append(cmd.Env, atVar+"="+ln.Addr().Network()+" "+ln.Addr().String(), keepVar+"="+dir)
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
	wait := sync.OnceFunc(func() {
		_, _ = io.Copy(io.Discard, out) // returns once all processes have ended
		_ = cmd.Wait()
	})
	t.Cleanup(func() { in.Close(); wait() })
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); line != "called\n" {
		t.Fatalf("%s: got %q, %v", roles, line, err)
	}
	if strings.HasSuffix(roles, "leave") || strings.Contains(roles, "die") {
		wait()
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// The packages that start agents for a server also start the agents of this
// test. A mark or a command line that auth does not recognise therefore fails
// the test.
func TestAgentsAreToldFromTheUser(t *testing.T) {
	for name, tt := range map[string]struct {
		roles string
		want  bool
	}{
		"child":                          {"call", true},
		"supervised":                     {"serve,call", true},
		"supervised, by another server":  {"fork,serve,drop,call", true},
		"supervised, by a killed server": {"supervise and die,stay", true},
		"supervised, by a killed server, mark dropped":           {"supervise and die,drop,stay", true},
		"supervised, by a killed server, mark dropped, detached": {"supervise and die,drop,fork,fork,stay", true},
		"marked, without a supervisor, orphan":                   {"mark and die,stay", true},
		"marked, without a supervisor, double fork":              {"fork,mark and die,fork,fork,stay", true},
		"left at once":    {"fork,fork,leave", true},
		"not marked":      {"start and die,stay", false},
		"nothing of ours": {"fork,fork,call", false},
	} {
		for _, at := range []struct{ network, address string }{{"tcp", "127.0.0.1:0"}, {"tcp", "[::1]:0"}, {"tcp", ":0"}, {"unix", ""}} {
			if tt.roles == "fork,fork,leave" && at.network == "unix" {
				continue // on a unix socket the kernel still reports the process that connected
			}
			t.Run(name+" "+at.network+" "+at.address, func(t *testing.T) {
				c := call(t, listen(t, at.network, at.address), tt.roles)
				p := NewPeer(c)
				if got := p.Agent(); got != tt.want {
					t.Errorf("an agent: got %v", got)
				}
				if id, ok := p.Identity(); ok != (!tt.want && at.network == "unix") {
					t.Errorf("got in without a credential: %v, %+v", ok, id)
				}
			})
		}
	}
}

// A server that was started by an agent of another server, for example in a
// test, does not take its own user for an agent.
func TestServerUnderASupervisorKnowsItsUser(t *testing.T) {
	cmd := process("serve,pair")
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
	verdict, err := bufio.NewReader(out).ReadString('\n')
	if verdict != "false\n" {
		t.Errorf("got %q, %v", verdict, err)
	}
	in.Close()
	_ = cmd.Wait()
}

// Both ways of finding a socket return the same one.
func TestFindSocket(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		ln := listen(t, "tcp", address)
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		for _, to := range []string{"127.0.0.1", "::1"} {
			client, err := net.Dial("tcp", net.JoinHostPort(to, port))
			if err != nil {
				continue // the server does not listen on this address
			}
			defer client.Close()
			here, there := addressOf(client.LocalAddr()), addressOf(client.RemoteAddr())
			asked, err := askKernel(here, there, false)
			if err != nil {
				t.Fatalf("%s by %s: %v", address, to, err)
			}
			read, err := readTable(here, there)
			if err != nil || asked != read || asked.inode == 0 || asked.uid != os.Geteuid() {
				t.Errorf("%s by %s: the kernel says %+v, its list %+v, %v", address, to, asked, read, err)
			}
			if pid, _ := new(holderCache).find(asked.inode); pid != os.Getpid() {
				t.Errorf("held by %d", pid)
			}
			if agentAt(there, here) {
				t.Error("this process is taken for an agent")
			}
			far := netip.MustParseAddrPort("192.0.2.1:1")
			for _, find := range []func(_, _ netip.AddrPort) (socket, error){findSocket, readTable} {
				if s, err := find(far, there); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a caller far away: got %+v, %v", s, err)
				}
			}
			if agentAt(there, far) {
				t.Error("a caller far away is taken for an agent")
			}
		}
	}
}

func TestForeignUserIsRejected(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be someone else")
	}
	ln := listen(t, "unix", "")
	path := ln.Addr().String()
	for _, p := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := process("foreign")
	cmd.Env = append(cmd.Env, atVar+"=unix "+path)
	if out, err := cmd.Output(); err == nil || !strings.Contains(string(out), "permission denied") {
		t.Errorf("a socket of mode 0600: got %q, %v", out, err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // a wrong mode, which must not matter because the kernel reports the user
		t.Fatal(err)
	}
	p := NewPeer(call(t, ln, "foreign"))
	if id, ok := p.Identity(); ok || !p.Unix() || !p.Agent() {
		t.Errorf("another user got in: %+v", id)
	}
}

func BenchmarkPeer(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	there, here := addressOf(server.RemoteAddr()), addressOf(server.LocalAddr())
	sock, err := findSocket(there, here)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("socket", func(b *testing.B) {
		for b.Loop() {
			_, _ = findSocket(there, here)
		}
	})
	b.Run("table", func(b *testing.B) {
		for b.Loop() {
			_, _ = readTable(there, here)
		}
	})
	b.Run("holder/first", func(b *testing.B) {
		for b.Loop() {
			new(holderCache).find(sock.inode)
		}
	})
	b.Run("holder/again", func(b *testing.B) {
		var h holderCache
		for b.Loop() {
			h.find(sock.inode)
		}
	})
	b.Run("holder/of thousands", func(b *testing.B) {
		var h holderCache
		var socks []uint64
		for range 5000 { // both ends of each are in this process
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			s, err := ln.Accept()
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			sock, err := findSocket(addressOf(s.RemoteAddr()), addressOf(s.LocalAddr()))
			if err != nil {
				b.Fatal(err)
			}
			socks = append(socks, sock.inode)
		}
		b.ResetTimer()
		for i := 0; b.Loop(); i++ {
			if pid, _ := h.find(socks[i%len(socks)]); pid != os.Getpid() {
				b.Fatal(pid)
			}
		}
	})
	b.Run("holder/none", func(b *testing.B) {
		for b.Loop() {
			new(holderCache).find(1)
		}
	})
	b.Run("ancestry", func(b *testing.B) {
		for b.Loop() {
			fromAgent(os.Getppid())
		}
	})
}
