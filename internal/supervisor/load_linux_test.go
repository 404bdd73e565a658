package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/testexec"
	"github.com/runnel-dev/runnel/internal/testload"
)

// often returns the number of runs, or the amount of data, of a test: long in
// long test runs, otherwise short.
func often(long, short int) int {
	if os.Getenv("RUNNEL_LONG") != "" {
		return long
	}
	return short
}

// playLoad plays the agents of these tests. It returns false if it does not
// know the role.
func playLoad(role string, args []string) bool {
	switch role {
	case "complain": // prints some MiB on standard error, then a line
		mib, _ := strconv.Atoi(args[0])
		chunk := bytes.Repeat([]byte("all the same line on standard error\n"), 1<<20/36)
		for range mib {
			_, _ = os.Stderr.Write(chunk)
		}
		fmt.Println("said it")
	case "torrent": // prints some MiB of lines
		mib, _ := strconv.Atoi(args[0])
		chunk := bytes.Repeat([]byte(strings.Repeat("x", 1023)+"\n"), 1024)
		for range mib {
			_, _ = os.Stdout.Write(chunk)
		}
		if len(args) > 1 { // stays, and repeats what it reads
			_, _ = io.Copy(os.Stdout, os.Stdin)
		}
	case "stream":
		playStream(args)
	case "drip":
		playDrip(args[0])
	case "exhausted":
		exhausted(args[0])
	default:
		return false
	}
	return true
}

// peak returns the largest and the current amount of memory of a process, in
// KiB.
func peak(t testing.TB, pid int) (most, now int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, _ = fmt.Sscan(rest, &most)
		}
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, _ = fmt.Sscan(rest, &now)
		}
	}
	return most, now
}

// bounded checks that a supervisor's memory has not grown by more than most, in
// KiB, since before. With the race detector it only logs, because the detector
// itself uses memory.
func bounded(t testing.TB, what string, a Agent, before, most int) {
	t.Helper()
	after, _ := peak(t, supervisorOf(a))
	t.Logf("%s: the supervisor had %d KiB, and at most %d", what, before, after)
	if !raceEnabled && after-before > most {
		t.Errorf("%s: the supervisor took %d KiB more", what, after-before)
	}
}

// The agent prints only on standard error, and far more than is kept of it.
func TestStderrIsBounded(t *testing.T) {
	a := start(t, roleCommand("complain", strconv.Itoa(often(1024, 64))), Takeover{})
	before, _ := peak(t, supervisorOf(a))
	if got := readLine(t, a.Stdout()); got != "said it" {
		t.Errorf("it said %q", got)
	}
	bounded(t, "stderr", a, before, 8<<10)
	wait(t, a)
	if n := len(a.StderrTail()); n == 0 || n > 64<<10 {
		t.Errorf("%d bytes of stderr are kept", n)
	}
}

// The agent prints faster than the server reads. The agent must block. The
// supervisor must not buffer unread output in memory.
func TestSlowReaderPausesTheAgent(t *testing.T) { bothWays(t, checkSlowReaderPausesTheAgent) }

func checkSlowReaderPausesTheAgent(t *testing.T) {
	mib := often(1024, 96) // more than a spool holds
	a := start(t, roleCommand("torrent", strconv.Itoa(mib)), Takeover{})
	before, _ := peak(t, supervisorOf(a))
	buf, total := make([]byte, 64<<10), 0
	for slow := 0; ; {
		n, err := a.Stdout().Read(buf)
		total += n
		if err != nil {
			break
		}
		if slow += n; slow > 1<<20 { // pause after each MiB
			slow = 0
			<-time.After(time.Millisecond)
		}
	}
	if total != mib<<20 {
		t.Errorf("%d bytes of %d", total, mib<<20)
	}
	bounded(t, "slow reader", a, before, 8<<10)
}

// No server is connected. The supervisor keeps the output in the spool, and the
// server that takes over receives all of it.
func TestSpoolKeepsOutputWithoutReader(t *testing.T) { bothWays(t, checkSpoolKeepsOutputWithoutReader) }

func checkSpoolKeepsOutputWithoutReader(t *testing.T) {
	k := Takeover{Dir: t.TempDir(), Name: "one", Window: time.Minute}
	a := start(t, roleCommand("torrent", "48"), k)
	before, _ := peak(t, supervisorOf(a))
	if !a.Detach() {
		t.Fatal("not detached")
	}
	again, b := attach(t, k)
	rest, err := io.ReadAll(again.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	total := len(rest) + len(b.Rest)
	for _, l := range b.Lines {
		total += len(l.Text)
	}
	if total != 48<<20 {
		t.Errorf("%d bytes of %d", total, 48<<20)
	}
	bounded(t, "no reader", again, before, 8<<10)
}

// held counts the system's resources that this process uses.
type held struct{ fds, goroutines, zombies int }

func holds(t testing.TB) (h held) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	h = held{fds: len(fds), goroutines: runtime.NumGoroutine()}
	self := strconv.Itoa(os.Getpid())
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		stat, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if f[0] == "Z" && f[1] == self {
			h.zombies++
		}
	}
	return h
}

// TestAgentsLeakNothing runs many agents to their end. Some end by themselves
// and some are stopped.
func TestAgentsLeakNothing(t *testing.T) {
	testload.TakesLong(t)
	dir := t.TempDir()
	once := func(i int) {
		k := Takeover{Dir: dir, Name: "one", Window: time.Minute}
		switch i % 4 {
		case 0:
			a := start1(t, roleCommand("exit", "0"), k)
			wait(t, a)
			stop(t, a)
		case 1:
			a := start1(t, roleCommand("ticker"), k)
			_ = a.Send([]byte("x\n"), 0)
			readLine(t, a.Stdout())
			stop(t, a)
		case 2:
			a := start1(t, roleCommand("deaf"), k)
			readPids := readyPids(t, a.Stdout(), 1)
			_ = unix.Kill(supervisorOf(a), unix.SIGKILL)
			<-a.Done()
			allGone(t, readPids)
			stop(t, a)
		case 3:
			if _, err := Start(t.Context(), proc.Command{Path: "/no/such/program"}, k); err == nil {
				t.Error("started")
			}
		}
	}
	for i := range 8 {
		once(i)
	}
	_, rssBefore := peak(t, os.Getpid())
	before, runs := holds(t), often(10000, 100)
	if raceEnabled {
		runs /= 10 // a start takes many times as long
	}
	for i := range runs {
		if once(i); t.Failed() {
			t.FailNow()
		}
	}
	var after held
	until(t, "all is given back", func() bool {
		after = holds(t)
		return after.fds <= before.fds+1 && after.goroutines <= before.goroutines+1 && after.zombies == 0
	})
	runtime.GC()
	_, rssAfter := peak(t, os.Getpid())
	t.Logf("after %d runs: %+v, before %+v; RSS %+.2f KiB a run", runs, after, before, float64(rssAfter-rssBefore)/float64(runs))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 1 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

func stop(t testing.TB, a Agent) {
	t.Helper()
	if err := a.Stop(t.Context(), proc.Now); err != nil {
		t.Error(err)
	}
}

// start1 is start without a cleanup function, for tests that start many agents.
func start1(t testing.TB, c proc.Command, k Takeover) Agent {
	t.Helper()
	a, err := Start(t.Context(), c, k)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// exhausted plays a server whose descriptors or processes run out, and are
// available again later. It prints the result of each start of an agent.
func exhausted(what string) {
	agent := func() {
		a, err := Start(context.Background(), roleCommand("ticker"), Takeover{})
		if start, ok := errors.AsType[*proc.StartError](err); ok {
			fmt.Println("not started:", start.Reason)
			return
		}
		if err == nil {
			err = a.Stop(context.Background(), proc.Now)
		}
		fmt.Println("started:", err)
	}
	older, err := Start(context.Background(), roleCommand("ticker"), Takeover{})
	if err != nil {
		fmt.Println(err)
		return
	}
	spareThreads(40)
	limit := map[string]int{"descriptors": unix.RLIMIT_NOFILE, "processes": unix.RLIMIT_NPROC}[what]
	var full unix.Rlimit
	_ = unix.Getrlimit(limit, &full)
	fds, _ := os.ReadDir("/proc/self/fd")
	few := map[string]int{"descriptors": len(fds), "processes": 1}[what]
	for spare := range 12 { // with each number of spare descriptors, Start fails at another step
		_ = unix.Setrlimit(limit, &unix.Rlimit{Cur: uint64(few + spare), Max: full.Max})
		agent()
		if what == "processes" {
			break
		}
	}
	_ = older.Send([]byte("still here\n"), 0)
	line, err := bufio.NewReader(older.Stdout()).ReadString('\n')
	fmt.Printf("the older one: %q %v\n", line, err)
	_ = unix.Setrlimit(limit, &full)
	agent()
	_ = older.Stop(context.Background(), proc.Now)
}

// spareThreads makes the runtime create n threads, which it keeps and reuses.
// Without a spare thread, Go itself fails when it needs one and cannot create
// it.
func spareThreads(n int) {
	var all, ended sync.WaitGroup
	all.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait()
		})
	}
	ended.Wait()
}

// Without descriptors or processes, Start fails with that reason. Running
// agents continue, and Start succeeds again when there are enough.
func TestStartFailsCleanlyWithoutDescriptorsOrProcesses(t *testing.T) {
	for _, what := range []string{"descriptors", "processes"} {
		t.Run(what, func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self, what)
			cmd.Env = []string{roleVar + "=exhausted"}
			if what == "processes" {
				if os.Getuid() != 0 {
					t.Skip("the limit counts all that this user runs")
				}
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54322, Gid: 54322}} // root has no limit
				cmd.Path = readable(t, self)
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%s", out)
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			n := len(lines)
			if n < 3 || lines[0] != "not started: "+string(proc.NoResources) || lines[n-1] != "started: <nil>" || lines[n-2] != `the older one: "0 still here\n" <nil>` {
				t.Errorf("it told %q", lines)
			}
			for _, line := range lines[:n-2] {
				if line != lines[0] && line != "started: <nil>" {
					t.Errorf("it told %q", line)
				}
			}
		})
	}
}

// readable copies a program to a directory from which every user can run it.
func readable(t *testing.T, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "supervisor-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b, err := os.ReadFile(program)
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), testexec.Write(dir+"/agent", b))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/agent"
}

// The kernel kills an agent when the thread of the supervisor that started the
// agent ends. The end of a thread of the server must not kill it.
func TestEndOfAServerThreadDoesNotKillTheAgent(t *testing.T) {
	testload.TakesLong(t)
	quit := make(chan struct{})
	var chaos sync.WaitGroup
	threads := 0
	chaos.Go(func() {
		for threads < often(10000, 500) {
			select {
			case <-quit:
				return
			default:
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				runtime.LockOSThread() // without an unlock, so the thread ends with the goroutine
			}()
			<-ended
			threads++
		}
	})
	runs := often(100, 10)
	if raceEnabled {
		runs /= 5
	}
	for i := range runs {
		var agents []Agent
		for range 3 {
			agents = append(agents, start1(t, roleCommand("ticker"), Takeover{}))
		}
		for _, a := range agents {
			for n := range 5 {
				if err := a.Send([]byte("x\n"), 0); err != nil {
					t.Fatal(err)
				}
				if got := readLine(t, a.Stdout()); got != fmt.Sprint(n, " x") {
					t.Fatalf("run %d: got %q", i, got)
				}
			}
			stop(t, a)
		}
	}
	close(quit)
	chaos.Wait()
	t.Logf("%d threads ended meanwhile", threads)
}
