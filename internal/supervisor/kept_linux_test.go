package supervisor

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/rawio"
	"github.com/runnel-dev/runnel/internal/testload"
)

// stream returns what the agent "stream" prints: numbered lines of all lengths,
// of size bytes or a little more.
func stream(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var b []byte
	for i := 0; len(b) < size; i++ {
		n := r.IntN(300)
		if r.IntN(200) == 0 {
			n = r.IntN(300_000)
		}
		b = fmt.Appendf(b, "%d %s\n", i, strings.Repeat("x", n))
	}
	return b
}

// playStream prints a stream in pieces of all lengths, with pauses, and then
// waits for the end of its input.
func playStream(args []string) {
	seed, _ := strconv.Atoi(args[0])
	size, _ := strconv.Atoi(args[1])
	b, r := stream(uint64(seed), size), rand.New(rand.NewPCG(uint64(seed), 2))
	for len(b) > 0 {
		n := min(len(b), 1+r.IntN(1500))
		if r.IntN(20) == 0 {
			n = min(len(b), 1+r.IntN(200_000))
		}
		if _, err := os.Stdout.Write(b[:n]); err != nil {
			os.Exit(3)
		}
		b = b[n:]
		if r.IntN(20) == 0 {
			<-time.After(time.Duration(r.IntN(200)) * time.Microsecond)
		}
	}
	fmt.Fprintln(os.Stderr, "all printed")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// printed returns the output in a backlog.
func printed(b *Backlog) []byte {
	var all []byte
	for _, l := range b.Lines {
		if !l.In {
			all = append(all, l.Text...)
		}
	}
	return append(all, b.Rest...)
}

// playSuccessor takes over the agent and prints all that it has printed.
func playSuccessor(dir string) {
	for deadline := time.Now().Add(lifetime); time.Now().Before(deadline); {
		a, b, err := Attach(Takeover{Dir: dir, Name: "one"}, nil)
		if err != nil {
			<-time.After(2 * time.Millisecond) // the supervisor may not have detected yet that the previous server has disconnected
			continue
		}
		_, _ = os.Stdout.Write(printed(b))
		_, _ = io.Copy(os.Stdout, a.Stdout())
		return
	}
}

// Servers are killed one after the other while they read the agent's output.
// The next one has every byte once, and at least those that the killed one had
// shown.
func TestKilledServersLoseNothing(t *testing.T) { bothWays(t, checkKilledServers) }

func checkKilledServers(t *testing.T) {
	const size = 4 << 20
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))
	for i := range often(100, 3) {
		want := stream(uint64(i), size)
		k := Takeover{Dir: t.TempDir(), Name: "one", Window: time.Minute}
		cmd, out := serverRole(t, k.Dir, "1m", "stream", strconv.Itoa(i), strconv.Itoa(size))
		most := 0 // bytes that any server has shown
		for range 4 {
			got := make([]byte, min(most+1+r.IntN(size/5), len(want)))
			if n, err := io.ReadFull(out, got); err != nil {
				t.Fatalf("%d bytes of %d, %v", n, len(got), err)
			}
			_ = cmd.Process.Kill()
			more, _ := io.ReadAll(out)
			_ = cmd.Wait()
			if got = append(got, more...); !bytes.HasPrefix(want, got) {
				t.Fatalf("wrong output within %d bytes", len(got))
			}
			most = max(most, len(got))
			cmd, out = successor(t, k.Dir)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		a, b := attach(t, k)
		if got := len(printed(b)); got < most {
			t.Fatalf("%d bytes were shown, the spool has %d", most, got)
		}
		a.CloseInput()
		rest, err := io.ReadAll(a.Stdout())
		if got := append(printed(b), rest...); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
		}
		if st := wait(t, a); st.Code != 0 {
			t.Errorf("status is %+v", st)
		}
		stop(t, a)
	}
}

// successor runs a server that takes over in a process of its own.
func successor(t *testing.T, dir string) (*exec.Cmd, io.Reader) {
	t.Helper()
	return testServer(t, dir, "successor", dir)
}

// A server is killed between two steps of kept.take, or in the middle of one.
// The next server has every byte once.
func TestServerKilledWithinTakeLosesNothing(t *testing.T) {
	const size, part = 790, 300 // the agent prints 100 lines
	for name, step := range map[string]struct{ shown, copied, taken int }{
		"before":                 {},
		"after it saw output":    {shown: size},
		"while it copied output": {shown: size, copied: part},
		"after it copied output": {shown: size, copied: size},
		"while it took output":   {shown: size, copied: size, taken: part},
		"after it took output":   {shown: size, copied: size, taken: size},
	} {
		t.Run(name, func(t *testing.T) {
			k := Takeover{Dir: t.TempDir(), Name: "one", Window: time.Minute}
			a := start(t, roleCommand("flood", "100", "stay"), k)
			out := a.(*child).output.(*kept)
			first := make([]byte, size)
			until(t, "all is printed", func() (all bool) {
				_ = out.raw.Control(func(socket uintptr) {
					_ = countShown(int(socket))
					n, _ := rawio.Receive(uintptr(socket), first, unix.MSG_PEEK)
					all = n == size
				})
				return all
			})
			_ = out.raw.Control(func(fd uintptr) {
				socket, buf := int(fd), make([]byte, size)
				_ = countShown(socket)
				if step.shown > 0 {
					_, _ = rawio.Receive(uintptr(socket), buf, unix.MSG_PEEK)
				}
				_, _ = unix.Pwrite(out.spool, buf[:step.copied], 0)
				if step.taken > 0 {
					_, _ = rawio.Receive(uintptr(socket), buf[:step.taken], 0)
				}
			})
			if err := a.Send([]byte("end\n"), 0); err != nil {
				t.Fatal(err)
			}
			until(t, "the end is printed", func() (all bool) {
				_ = out.raw.Control(func(socket uintptr) {
					n, _ := unix.IoctlGetInt(int(socket), unix.SIOCINQ)
					all = n == size-step.taken+len("end\n")
				})
				return all
			})
			if !a.Detach() {
				t.Fatal("not detached")
			}
			next, b := attach(t, k)
			next.CloseInput() // ends the agent
			rest, err := io.ReadAll(next.Stdout())
			if got := append(printed(b), rest...); err != nil || string(got) != string(first)+"end\n" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// A supervisor does not wake while the server reads the agent's output.
func TestSupervisorSleepsWhileServerReads(t *testing.T) {
	testload.TakesLong(t)
	a := start(t, roleCommand("drip", "300"), Takeover{})
	until(t, "the start is over", func() bool {
		before := switches(t, supervisorOf(a))
		<-time.After(3 * quiet)
		return switches(t, supervisorOf(a)) == before
	})
	before := switches(t, supervisorOf(a))
	if err := a.Send([]byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		readLine(t, a.Stdout())
	}
	if n := switches(t, supervisorOf(a)) - before; n > 150 { // it passes one line on, and frees memory after that
		t.Errorf("the supervisor woke %d times for 300 lines", n)
	}
}

// playDrip waits for a line, and then prints n lines with pauses.
func playDrip(n string) {
	_, _ = os.Stdin.Read(make([]byte, 10))
	many, _ := strconv.Atoi(n)
	for i := range many {
		fmt.Println("line", i)
		<-time.After(2 * time.Millisecond)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// switches returns how often the threads of a process have waited.
func switches(t *testing.T, pid int) (n int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads: %v", err)
	}
	for _, path := range threads {
		b, _ := os.ReadFile(path) // a thread may have ended
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				more, _ := strconv.Atoi(strings.TrimSpace(rest))
				n += more
			}
		}
	}
	return n
}

// A supervisor is killed while nobody reads. What the agent has printed before
// is not lost.
func TestOutputOutlivesKilledSupervisor(t *testing.T) {
	a := start(t, roleCommand("flood", "5000"), Takeover{}) // fits into the socket
	<-exited(t, a.Pid())
	if err := unix.Kill(supervisorOf(a), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-a.Done()
	got, err := io.ReadAll(a.Stdout())
	if lines := bytes.Count(got, []byte{'\n'}); err != nil || lines != 5000 {
		t.Errorf("%d lines of 5000, %v", lines, err)
	}
}

// exited returns a channel that is closed when a process has ended or is a
// zombie.
func exited(t *testing.T, pid int) <-chan struct{} {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	ended := make(chan struct{})
	if err != nil {
		close(ended)
		return ended
	}
	go func() {
		defer close(ended)
		defer unix.Close(fd)
		ends(fd, time.Minute)
	}()
	return ended
}

// The turn is longer than a spool may be. The server reads all of it, the spool
// keeps a bounded part, and no other server takes over before the next turn.
func TestTurnLongerThanSpool(t *testing.T) {
	k := Takeover{Dir: t.TempDir(), Name: "one", Window: time.Minute}
	t.Cleanup(func() { _ = End(k) })
	a := start(t, roleCommand("torrent", "96", "stay"), k)
	n, err := io.CopyN(io.Discard, a.Stdout(), 96<<20)
	if err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(a.(*child).output.(*kept).spool, &st); err != nil {
		t.Fatal(err)
	}
	if st.Size != 96<<20 || st.Blocks*512 > maxSpool+2*removeSize {
		t.Errorf("a spool of %d bytes takes %d", st.Size, st.Blocks*512)
	}
	a.Begin(Checkpoint{Log: 1}, 90<<20) // its first bytes were removed
	if !a.Detach() {
		t.Fatal("not detached")
	}
	until(t, "refused", func() bool {
		_, _, err := Attach(k, nil)
		return err != nil && strings.Contains(err.Error(), "too long")
	})
}

// The same, and a new turn begins.
func TestTurnAfterOneLongerThanSpool(t *testing.T) {
	k := Takeover{Dir: t.TempDir(), Name: "one", Window: time.Minute}
	a := start(t, roleCommand("torrent", "96", "stay"), k)
	if _, err := io.CopyN(io.Discard, a.Stdout(), 96<<20); err != nil {
		t.Fatal(err)
	}
	a.Begin(Checkpoint{Log: 1}, 96<<20)
	if err := a.Send([]byte("hello\n"), 96<<20); err != nil {
		t.Fatal(err)
	}
	if got := readLine(t, a.Stdout()); got != "hello" {
		t.Errorf("got %q", got)
	}
	if !a.Detach() {
		t.Fatal("not detached")
	}
	if _, b := attach(t, k); b.Log != 1 || b.From != 96<<20 || len(b.Lines) != 2 {
		t.Errorf("backlog is %+v", b)
	}
}

// A server that was stopped holds nothing of the agent, even if nobody read the
// output, and the output can still be read.
func TestStoppedAgentHoldsNoDescriptors(t *testing.T) { bothWays(t, checkNoDescriptors) }

func checkNoDescriptors(t *testing.T) {
	stop(t, start1(t, roleCommand("flood", "1"), Takeover{})) // opens what all agents share
	before := holds(t).fds
	a := start1(t, roleCommand("flood", "5000"), Takeover{})
	if st := wait(t, a); st != (proc.ExitStatus{}) {
		t.Errorf("status is %+v, %s", st, a.StderrTail())
	}
	if err := a.Stop(t.Context(), proc.Now); err != nil {
		t.Fatal(err)
	}
	if after := holds(t).fds; after > before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
	if canKeep() {
		got, err := io.ReadAll(a.Stdout())
		if lines := bytes.Count(got, []byte{'\n'}); err != nil || lines != 5000 {
			t.Errorf("%d lines of 5000, %v", lines, err)
		}
	}
}

// The system ends the launcher with the supervisor, but not the process that the
// launcher has started. That process must not see the end of its input before
// it is killed: an agent would print that its turn was cancelled.
func TestInputStaysOpenWhenTheSupervisorIsKilled(t *testing.T) {
	for range 10 {
		a := start(t, roleCommand("launcher"), Takeover{})
		if ready := readLine(t, a.Stdout()); ready != "ready" {
			t.Fatalf("the agent printed %q", ready)
		}
		if err := unix.Kill(supervisorOf(a), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(a.Stdout())
		if err != nil || len(rest) > 0 {
			t.Fatalf("after the supervisor's end the agent printed %q (%v)", rest, err)
		}
	}
}

func TestCloseInputEndsTheInputAlthoughTheServerHoldsIt(t *testing.T) {
	a := start(t, roleCommand("launcher"), Takeover{})
	readLine(t, a.Stdout())
	a.CloseInput()
	if line := readLine(t, a.Stdout()); line != "end of input" {
		t.Errorf("the agent printed %q", line)
	}
}

func TestNoteReturnsToTheNextServer(t *testing.T) {
	c := roleCommand("ticker")
	c.Note = strings.Repeat("n", 1<<10)
	k := Takeover{Dir: t.TempDir(), Name: "one", Window: time.Minute}
	a := start1(t, c, k)
	if !a.Detach() {
		t.Fatal("not detached")
	}
	if _, b := attach(t, k); b.Note != c.Note {
		t.Errorf("the note is %q", b.Note)
	}
}
