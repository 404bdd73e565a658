package proc

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/procinfo"
	"github.com/runnel-dev/runnel/internal/testload"
)

func playHere(role string, args []string) {
	switch {
	case playUnix(role, args):
	case role == "descriptors":
		listDescriptors()
	case role == "zoo":
		zoo()
		ready()
		forever()
	case role == "zoo then exit":
		zoo()
		ready()
		os.Stdin.Read(make([]byte, 1))
	case role == "tools":
		tools()
		play("deaf", nil)
	case role == "misnamed":
		os.WriteFile("/proc/self/comm", []byte("x) Z 1 1 ("), 0)
		play("deaf", nil)
	case role == "headless": // its first thread has ended
		ready()
		loseMainThread()
	case role == "forker": // starts a process every 5 ms
		ready()
		for tick, i := time.Tick(5*time.Millisecond), 0; i < 2000; i++ {
			exec.Command("/bin/sleep", "60").Start()
			<-tick
		}
	case role == "hopper": // starts its successor and exits, again and again
		if args[0] == "1" {
			ready()
		}
		if hop, _ := strconv.Atoi(args[0]); hop < 3000 {
			respawn(nil, "hopper", strconv.Itoa(hop+1))
		}
	case role == "subreaper":
		beSubreaper()
	default:
		panic("no such role: " + role)
	}
}

const deathSignal = "SIGSEGV"

// die ends this process by a real SIGSEGV. Without the default handler, the Go
// runtime would turn the signal into an exit code.
func die() {
	var byDefault [4]uint64 // struct sigaction
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGSEGV), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
	unix.Kill(os.Getpid(), unix.SIGSEGV)
	forever()
}

func loseMainThread() {
	for {
		go func() {
			runtime.LockOSThread()
			if unix.Gettid() == os.Getpid() {
				syscall.Syscall(unix.SYS_EXIT, 0, 0, 0)
			}
			forever()
		}()
		if e, _ := process(os.Getpid()); isZombieRow(os.Getpid()) && !e.dead {
			forever()
		}
	}
}

func isZombieRow(pid int) bool {
	stat, _ := procinfo.ReadFile(pid, "stat", make([]byte, 1024))
	return bytes.Contains(stat, []byte(") Z "))
}

// zooSize is the number of processes of the zoo that print that they are ready,
// including the process that starts the others.
const zooSize = 8

func tools() {
	respawn(nil, "deaf")
	respawn(newSession, "deaf")
	respawn(newSession, "forker")
}

// zoo starts a process for each way in which a descendant can detach itself or
// avoid being killed.
func zoo() {
	respawn(nil, "deaf")
	respawn(newSession, "deaf")
	respawn(nil, "fork away", "deaf")
	respawn(newSession, "fork away", "fork away", "misnamed")
	respawn(nil, "fork away", "headless")
	respawn(newSession, "forker")
	respawn(nil, "fork away", "hopper", "1")
}

// alive reports whether a thread of the process is running. It reads /proc
// itself instead of calling the code under test.
func alive(pid int) bool {
	stats, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	return slices.ContainsFunc(stats, func(path string) bool {
		stat, _ := os.ReadFile(path)
		_, rest, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
		return len(rest) > 0 && rest[0] != 'Z' && rest[0] != 'X'
	})
}

func living(pids []int) []int {
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return !alive(pid) })
}

func descriptors(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names) - 1 // without the descriptor of /proc/self/fd itself
}

// tagged adds a variable to the environment of c. It also returns a function
// that finds all running processes with this variable, however they detached
// themselves.
func tagged(c Command) (Command, func() []int) {
	tag := "PROC_TEST_TAG=" + rand.Text()
	c.Env = append(c.Env, tag)
	return c, func() (pids []int) {
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range files {
			env, _ := os.ReadFile(path)
			pid, err := strconv.Atoi(strings.Split(path, "/")[2])
			if err == nil && bytes.Contains(env, []byte(tag)) {
				pids = append(pids, pid)
			}
		}
		return living(pids)
	}
}

// killAll kills processes that a test left running on purpose.
func killAll(t *testing.T, pids func() []int) {
	until(t, "all gone", func() bool {
		left := pids()
		for _, pid := range left {
			unix.Kill(pid, unix.SIGKILL)
		}
		return len(left) == 0
	})
}

func TestStopEndsTheWholeProcessTree(t *testing.T) {
	for name, ladder := range map[string]Ladder{
		"asked":  {Interrupt: 50 * time.Millisecond, Terminate: 50 * time.Millisecond},
		"killed": Now,
	} {
		t.Run(name, func(t *testing.T) {
			c, left := tagged(command("zoo"))
			c.Mark = "PROC_TEST_" + MarkSuffix
			p := start(t, c)
			t.Cleanup(func() { killAll(t, left) })
			ready := awaitReady(t, p, zooSize)
			t.Cleanup(func() { killAll(t, func() []int { return living(ready) }) })
			until(t, "the forker has forked", func() bool { return len(left()) > zooSize+10 })
			begin := time.Now()
			stop(t, p, ladder)
			testload.Within(t, "stopping", begin, 5*time.Second)
			if pids := append(left(), living(ready)...); len(pids) > 0 {
				t.Errorf("%d processes left: %s", len(pids), names(pids))
			}
			if status := wait(t, p); status.Leftover != 0 {
				t.Errorf("%d left by our own count", status.Leftover)
			}
		})
	}
}

// The descendants of a child are killed even if the child exits by itself or
// crashes.
func TestDescendantsEndAfterTheChildExits(t *testing.T) {
	for name, end := range map[string]func(*Process){
		"exit":  func(p *Process) { p.CloseStdin() },
		"crash": func(p *Process) { unix.Kill(p.Pid(), unix.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			c, left := tagged(command("zoo then exit"))
			c.Mark = "PROC_TEST_" + MarkSuffix
			c.Linger = 10 * time.Millisecond
			p := start(t, c)
			t.Cleanup(func() { killAll(t, left) })
			ready := awaitReady(t, p, zooSize)
			t.Cleanup(func() { killAll(t, func() []int { return living(ready) }) })
			end(p)
			wait(t, p)
			if pids := append(left(), living(ready)...); len(pids) > 0 {
				t.Errorf("%d processes left: %s", len(pids), names(pids))
			}
		})
	}
}

// Without a mark, Stop ends every descendant that is still linked to the child.
func TestStopEndsDescendantsWithoutAMark(t *testing.T) {
	c, left := tagged(command("tools"))
	p := start(t, c)
	t.Cleanup(func() { killAll(t, left) })
	awaitReady(t, p, 4)
	stop(t, p, Ladder{Interrupt: 10 * time.Millisecond, Terminate: -1})
	if pids := left(); len(pids) > 0 {
		t.Errorf("%d processes left: %s", len(pids), names(pids))
	}
}

func names(pids []int) string {
	var all []string
	for _, pid := range pids {
		stat, _ := procinfo.ReadFile(pid, "stat", make([]byte, 60))
		all = append(all, fmt.Sprintf("%q", stat))
	}
	return strings.Join(all, " ")
}

// A process without any link to the child holds all our pipes. We cannot find
// that process, but Wait must still return.
func TestPipesHeldByAForeignProcessDoNotBlockWait(t *testing.T) {
	t.Parallel()
	c, left := tagged(command("fork away with all", "twice"))
	c.Linger = 200 * time.Millisecond
	p := start(t, c)
	t.Cleanup(func() { killAll(t, left) })
	if err := p.Send(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, p, 1)
	if rest, err := io.ReadAll(p.Stdout()); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if diff := cmp.Diff(ExitStatus{StdoutHeld: true, StderrHeld: true}, wait(t, p)); diff != "" {
		t.Error(diff)
	}
	if len(left()) != 1 {
		t.Errorf("it was found: the test no longer shows what it should")
	}
}

func TestReusedPIDIsNotSignalled(t *testing.T) {
	bystander := start(t, command("echo"))
	e, ok := process(bystander.Pid())
	if !ok {
		t.Fatal("no such process")
	}
	other := e
	other.start-- // as of an earlier process with this id
	kill(other)

	// The same through Stop: the tree has recorded a process whose id now
	// belongs to another process.
	p := start(t, command("block"))
	awaitReady(t, p, 1)
	p.tree.mu.Lock()
	p.tree.known[other.identity] = true
	p.tree.mu.Unlock()
	stop(t, p, Now)

	if closed(bystander.exited) {
		t.Fatal("a process was signalled that only has the number of another")
	}
	if err := bystander.Send([]byte("still there\n")); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 32)
	if n, err := bystander.Stdout().Read(line); string(line[:n]) != "still there\n" || err != nil {
		t.Errorf("%q, %v", line[:n], err)
	}
	kill(e)
	if got := wait(t, bystander).Signal; got != "SIGKILL" {
		t.Errorf("the right identity: ended by %q", got)
	}
}

// Runs leak no descriptors, goroutines or processes. The first run is not
// counted, because the Go runtime opens descriptors of its own in it.
func TestRunsLeakNoDescriptorsGoroutinesOrProcesses(t *testing.T) {
	one := func() {
		p, err := Start(t.Context(), command("echo"))
		if err != nil {
			t.Fatal(err)
		}
		p.Send([]byte("x"))
		p.CloseStdin()
		wait(t, p)
		p, err = Start(t.Context(), command("leave"))
		if err != nil {
			t.Fatal(err)
		}
		awaitReady(t, p, 1)
		stop(t, p, Now)
	}
	one()
	fds, goroutines := descriptors(t), runtime.NumGoroutine()
	runs := 10
	if os.Getenv("RUNNEL_LONG") != "" {
		runs = 30
	}
	for range runs {
		one()
	}
	if now := descriptors(t); now > fds {
		t.Errorf("%d descriptors, then %d", fds, now)
	}
	until(t, "goroutines ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	for _, pid := range list() {
		if e, _ := process(pid); e.ppid == os.Getpid() {
			t.Errorf("child %d stayed", pid)
		}
	}
}

func listDescriptors() {
	for _, fd := range openDescriptors() {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		target, err2 := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err == nil && err2 == nil {
			fmt.Println(fd, flags&unix.O_NONBLOCK != 0, strings.Split(target, ":")[0])
		}
	}
}

func openDescriptors() (fds []int) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if fd, err := strconv.Atoi(filepath.Base(link)); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

// A child has the descriptors 0, 1 and 2, all in blocking mode as programs
// expect, and no other descriptor that we opened.
func TestChildHasThreeDescriptors(t *testing.T) {
	others := start(t, command("block")) // a child whose pipes are open meanwhile
	awaitReady(t, others, 1)
	inherited := make(map[int]bool) // descriptors that this process inherited from the program that runs the tests
	for _, fd := range openDescriptors() {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 && fd > 2 {
			inherited[fd] = true
		}
	}
	p := start(t, command("descriptors"))
	out, _ := io.ReadAll(p.Stdout())
	var got []string
	for line := range strings.Lines(string(out)) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		fd, _ := strconv.Atoi(number)
		its := strings.Contains(rest, "anon_inode") || strings.Contains(rest, "/sys/") || strings.Contains(rest, "/proc/")
		if !inherited[fd] && !its { // the Go runtime opens descriptors of its own
			got = append(got, number+" "+rest)
		}
	}
	if diff := cmp.Diff([]string{"0 false socket", "1 false socket", "2 false pipe"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestChildHasNoTerminal(t *testing.T) {
	p := start(t, command("block"))
	awaitReady(t, p, 1)
	e, _ := process(p.Pid())
	if e.sid != e.pid || e.pgid != e.pid {
		t.Errorf("session %d, group %d of process %d", e.sid, e.pgid, e.pid)
	}
}

// beSubreaper adopts orphans while it starts and awaits children of its own.
// The reaper must not take the exit status of those children.
func beSubreaper() {
	stop, err := BecomeSubreaper()
	if err != nil {
		fmt.Println("unsupported:", err)
		return
	}
	for i := range 20 {
		respawn(newSession, "fork away", "exit", "0").Wait() // makes an orphan that ends
		code := i % 7
		cmd := exec.Command(self(), strconv.Itoa(code))
		cmd.Env = []string{roleVar + "=exit"}
		cmd.SysProcAttr = newSession
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
		}
		await(func() bool { return zombie(cmd.Process.Pid) }) // the reaper must then leave the zombie to cmd.Wait
		reapOrphans()
		var exit *exec.ExitError
		if err := cmd.Wait(); code != 0 && (!errors.As(err, &exit) || exit.ExitCode() != code) || code == 0 && err != nil {
			fmt.Printf("a child that was ours ended with %v, not %d\n", err, code)
		}
	}
	await(func() bool { return orphans() == 0 })
	stop()
	fmt.Println("no orphans")
}

func await(cond func() bool) {
	for tick := time.Tick(time.Millisecond); !cond(); <-tick {
	}
}

func zombie(pid int) bool {
	e, _ := process(pid)
	return e.dead
}

func orphans() (n int) {
	for _, pid := range list() {
		if e, _ := process(pid); e.ppid == os.Getpid() {
			n++
		}
	}
	return n
}

func TestBecomeSubreaper(t *testing.T) {
	p := start(t, command("subreaper"))
	got, _ := io.ReadAll(p.Stdout())
	if strings.HasPrefix(string(got), "unsupported") {
		t.Skip("no pidfds here")
	}
	if string(got) != "no orphans\n" {
		t.Errorf("%s; stderr: %s", got, p.StderrTail())
	}
}

// Before this process asks for the duplicate of the child's stdin, the child may
// have ended.
func TestSharedStdinOutlivesTheChild(t *testing.T) {
	c := command("exit", "0")
	c.ShareStdin = true
	p := start(t, c)
	wait(t, p)
	in := p.StdinFile()
	if in == nil {
		t.Fatal("no duplicate")
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// Another process reads the child's output. This process only notices its end,
// and what the child has printed can be read after that.
func TestSharedStdoutEndsAfterWhatWasPrinted(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		held bool
	}{
		"exits":        {args: []string{"echo"}},
		"left it open": {args: []string{"fork away with all", "twice"}, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, left := tagged(command(test.args[0], test.args[1:]...))
			c.ShareStdout, c.Linger = true, 200*time.Millisecond
			p := start(t, c)
			t.Cleanup(func() { killAll(t, left) })
			shared := p.StdoutFile()
			defer shared.Close()
			reader := duplicate(t, shared)
			if test.held {
				if err := p.Send(make([]byte, 8<<20)); err != nil {
					t.Fatal(err)
				}
				readReady(t, p, reader, 1)
			} else {
				if err := p.Send([]byte("hello\n")); err != nil {
					t.Fatal(err)
				}
				p.CloseStdin()
			}
			if st := wait(t, p); st.StdoutHeld != test.held {
				t.Errorf("status is %+v", st)
			}
			rest, err := io.ReadAll(reader)
			if want := map[bool]string{false: "hello\n"}[test.held]; string(rest) != want || err != nil {
				t.Errorf("%q, %v", rest, err)
			}
			if n, _ := p.Stdout().Read(make([]byte, 1)); n != 0 {
				t.Error("this process has read it")
			}
		})
	}
}

// duplicate returns a file that the poller watches.
func duplicate(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	again := os.NewFile(uintptr(fd), "")
	t.Cleanup(func() { again.Close() })
	return again
}
