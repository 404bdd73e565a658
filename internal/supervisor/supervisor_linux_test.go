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
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/procinfo"
	"github.com/runnel-dev/runnel/internal/testload"
)

func playHere(role string, args []string) {
	if playLoad(role, args) {
		return
	}
	switch role {
	case "server": // starts an agent, prints the agent's output, and waits to be killed
		hide(os.Getenv(relayVar) == "")
		window, _ := time.ParseDuration(args[1])
		a, err := Start(context.Background(), roleCommand(args[2], args[3:]...), Takeover{Dir: args[0], Name: "one", Window: window})
		if err != nil {
			fmt.Println(err)
			return
		}
		if args[2] == "ticker" {
			a.Begin(Checkpoint{Log: 7, State: []byte("state")}, 0)
			_ = a.Send([]byte("first\n"), 0)
		}
		out := bufio.NewReader(a.Stdout())
		if args[2] == "stubborn" {
			ready, _ := out.ReadString('\n')
			fmt.Print(ready)
			go a.Stop(context.Background(), proc.Ladder{Interrupt: time.Minute})
		}
		_, _ = io.Copy(os.Stdout, out)
	case "successor":
		hide(os.Getenv(relayVar) == "")
		playSuccessor(args[0])
	case "marked": // starts two processes that detach themselves but keep their environment
		self, _ := os.Executable()
		cmd := exec.Command("/bin/sh", "-c", `(setsid `+self+` &); (`+self+` &)`)
		for _, e := range os.Environ() {
			if !strings.HasPrefix(e, roleVar) {
				cmd.Env = append(cmd.Env, e)
			}
		}
		cmd.Env, cmd.Stdout = append(cmd.Env, roleVar+"=orphan"), os.Stdout
		if err := cmd.Run(); err != nil {
			panic(err)
		}
		fmt.Println("ready", os.Getpid())
		<-time.After(lifetime)
	case "fds": // first opens n descriptors, which take the lowest free numbers
		n, _ := strconv.Atoi(args[1])
		for range n {
			_, _ = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		for range 5 { // the numbers differ each time
			a, err := Start(context.Background(), roleCommand("exit", "0"), Takeover{Dir: args[0], Name: "one", Window: time.Minute})
			if err != nil {
				fmt.Println(err)
				return
			}
			_ = a.Stop(context.Background(), proc.Now)
			_, _ = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		fmt.Println("ready")
	case "nopidfd":
		withoutPidfds()
	case "spy":
		_, _, err := Attach(Takeover{Dir: args[0], Name: "one"}, nil)
		fmt.Println(err)
	case "orphan":
		fmt.Println("ready", os.Getpid())
		<-time.After(lifetime)
	}
}

// zoo starts processes that are hard to find: they have no parent in the
// agent's tree and no mark in their environment, and one has its own session.
// Each prints its process id.
func zoo() {
	self, _ := os.Executable()
	for i, attr := range []*syscall.SysProcAttr{{Setsid: true}, {Setpgid: true}, {}} {
		cmd := exec.Command("/bin/sh", "-c", `(`+self+` &) ; exit 0`) // the parent ends at once
		if i == 0 {
			cmd = exec.Command("/bin/sh", "-c", `setsid `+self+` & exit 0`)
		}
		cmd.Env = []string{roleVar + "=orphan"} // without the mark
		cmd.Stdout, cmd.SysProcAttr = os.Stdout, attr
		if err := cmd.Run(); err != nil {
			panic(err)
		}
	}
	fmt.Println("ready", os.Getpid())
	<-time.After(lifetime)
}

func alive(pid int) bool {
	_, ok := proc.Identify(pid)
	return ok
}

func readyPids(t testing.TB, r io.Reader, n int) []int {
	t.Helper()
	var pids []int
	for range n {
		line := readLine(t, r)
		pid, err := strconv.Atoi(strings.TrimPrefix(line, "ready "))
		if err != nil {
			t.Fatalf("unexpected %q", line)
		}
		pids = append(pids, pid)
	}
	return pids
}

func allGone(t testing.TB, pids []int) {
	t.Helper()
	for _, pid := range pids {
		until(t, fmt.Sprint("process ", pid, " is gone"), func() bool { return !alive(pid) })
	}
}

func supervisorOf(a Agent) int { return a.(*child).supervisor.Pid }

func TestLinesPassBothWays(t *testing.T) { bothWays(t, checkLines) }

func checkLines(t *testing.T) {
	a := start(t, roleCommand("echo"), Takeover{})
	out := bufio.NewReader(a.Stdout())
	for i := range 100 {
		line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", i*100))
		if err := a.Send([]byte(line), 0); err != nil {
			t.Fatal(err)
		}
		if got, err := out.ReadString('\n'); err != nil || got != line {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

func TestExitIsTold(t *testing.T) { bothWays(t, checkExitIsTold) }

func checkExitIsTold(t *testing.T) {
	a := start(t, roleCommand("exit", "3"), Takeover{})
	if st := wait(t, a); st.Code != 3 || st.Signal != "" {
		t.Errorf("status is %+v", st)
	}
	if got := a.StderrTail(); got != "last words\n" {
		t.Errorf("stderr ends with %q", got)
	}
	if err := a.Send([]byte("x\n"), 0); !errors.Is(err, proc.ErrStdinClosed) {
		t.Errorf("sent to nobody: %v", err)
	}
}

func TestStartErrorsAreTheSame(t *testing.T) {
	for _, c := range []proc.Command{
		{Path: "/no/such/program"}, {Path: "relative"}, {Path: "/etc/passwd"}, {Path: "/bin/true", Dir: "/no/such"},
		{Path: "/bin/true", Env: []string{"x"}},
	} {
		_, want := proc.Start(t.Context(), c)
		_, got := Start(t.Context(), c, Takeover{})
		if want == nil || got == nil || got.Error() != want.Error() {
			t.Errorf("%s: %v, directly %v", c.Path, got, want)
		}
		if _, ok := errors.AsType[*proc.StartError](got); !ok {
			t.Errorf("%s: %T", c.Path, got)
		}
	}
}

func TestAllOutputBeforeTheEnd(t *testing.T) { bothWays(t, checkAllOutputBeforeTheEnd) }

func checkAllOutputBeforeTheEnd(t *testing.T) {
	for _, n := range []int{5000, 500000} {
		a := start(t, roleCommand("flood", strconv.Itoa(n)), Takeover{})
		if n == 5000 {
			wait(t, a) // before the test reads any output
		}
		got, err := io.ReadAll(a.Stdout())
		if lines := bytes.Count(got, []byte{'\n'}); err != nil || lines != n {
			t.Errorf("%d lines of %d, %v", lines, n, err)
		}
	}
}

func TestStopEndsTheWholeProcessTree(t *testing.T) { bothWays(t, checkStopEndsTheWholeProcessTree) }

func checkStopEndsTheWholeProcessTree(t *testing.T) {
	a := start(t, roleCommand("zoo"), Takeover{})
	pids := readyPids(t, a.Stdout(), 4)
	if err := a.Stop(t.Context(), proc.Now); err != nil {
		t.Fatal(err)
	}
	for _, pid := range append(pids, supervisorOf(a)) {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// serverRole runs a server in a process of its own, which a test can kill.
func serverRole(t testing.TB, dir, window, role string, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	return testServer(t, dir, "server", append([]string{dir, window, role}, args...)...)
}

// testServer runs a role in a process of its own as a server for an agent in
// dir.
func testServer(t testing.TB, dir, role string, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = []string{roleVar + "=" + role}
	if !canKeep() {
		cmd.Env = append(cmd.Env, relayVar+"=1")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = End(Takeover{Dir: dir, Name: "one"})
	})
	return cmd, out
}

func TestAgentsEndWithAServerThatHasNoTakeoverWindow(t *testing.T) {
	for _, role := range []string{"zoo", "deaf"} {
		cmd, out := serverRole(t, t.TempDir(), "0s", role)
		n := map[string]int{"zoo": 4, "deaf": 1}[role]
		pids := readyPids(t, out, n)
		_ = cmd.Process.Kill()
		allGone(t, pids)
	}
}

func TestWindowEndsWithoutAServer(t *testing.T) {
	dir := t.TempDir()
	cmd, out := serverRole(t, dir, "100ms", "zoo")
	pids := readyPids(t, out, 4)
	r, err := Takeover{Dir: dir, Name: "one"}.read()
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	allGone(t, append(pids, r.Supervisor.Pid))
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestTakeover(t *testing.T) { bothWays(t, checkTakeover) }

func checkTakeover(t *testing.T) {
	dir := t.TempDir()
	cmd, out := serverRole(t, dir, "1m", "ticker")
	if got := readLine(t, out); got != "0 first" {
		t.Fatalf("got %q", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	k := Takeover{Dir: dir, Name: "one", Window: time.Minute}
	a, b := attach(t, k)
	if !b.Known || b.Log != 7 || string(b.State) != "state" || len(b.Lines) != 2 {
		t.Fatalf("backlog is %+v", b)
	}
	if in, out := b.Lines[0], b.Lines[1]; !in.In || string(in.Text) != "first\n" || out.In || string(out.Text) != "0 first\n" {
		t.Errorf("lines are %+v", b.Lines)
	}
	if _, _, err := Attach(k, nil); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("taken over twice: %v", err)
	}
	if err := a.Send([]byte("second\n"), 8); err != nil {
		t.Fatal(err)
	}
	if got := readLine(t, a.Stdout()); got != "1 second" {
		t.Errorf("got %q", got)
	}
	if !a.Detach() {
		t.Fatal("not detached")
	}
	a, b = attach(t, k)
	if len(b.Lines) != 4 || string(b.Lines[3].Text) != "1 second\n" || b.Lines[2].End != 8 {
		t.Errorf("lines are %+v", b.Lines)
	}
	if err := a.Stop(t.Context(), proc.Now); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Attach(k, nil); !errors.Is(err, ErrNone) {
		t.Errorf("after the end: %v", err)
	}
}

func attach(t testing.TB, k Takeover) (Agent, *Backlog) {
	t.Helper()
	var a Agent
	var b *Backlog
	until(t, "taken over", func() (ok bool) { // the supervisor may not have detected yet that the previous server has disconnected
		var err error
		a, b, err = Attach(k, nil)
		return err == nil
	})
	t.Cleanup(func() { _ = a.Stop(context.Background(), proc.Now) })
	return a, b
}

// A server that is killed while it stops an agent leaves an agent that was
// interrupted. Another server would mistake the agent's last output for the end
// of its work.
func TestAgentThatIsBeingStoppedIsNotTakenOver(t *testing.T) {
	k := Takeover{Dir: t.TempDir(), Name: "one", Window: time.Minute}
	cmd, out := serverRole(t, k.Dir, "1m", "stubborn")
	pids := readyPids(t, out, 1)
	if got := readLine(t, out); got != "interrupted" {
		t.Fatalf("got %q", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for {
		b, _, err := Attach(k, nil)
		if errors.Is(err, ErrNone) {
			break
		}
		if err == nil {
			_ = b.Stop(t.Context(), proc.Now)
			t.Fatal("taken over")
		}
	}
	allGone(t, pids)
}

// The output and the exit status of an agent that ends while no server is
// connected are not lost.
func TestTakeoverAfterTheEnd(t *testing.T) { bothWays(t, checkTakeoverAfterTheEnd) }

func checkTakeoverAfterTheEnd(t *testing.T) {
	dir := t.TempDir()
	k := Takeover{Dir: dir, Name: "one", Window: time.Minute}
	a := start(t, roleCommand("flood", "100000"), k)
	if !a.Detach() {
		t.Fatal("not detached")
	}
	a, b := attach(t, k)
	rest, err := io.ReadAll(a.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	all := len(b.Lines) + bytes.Count(append(b.Rest, rest...), []byte{'\n'})
	if all != 100000 {
		t.Errorf("%d lines", all)
	}
	if st := wait(t, a); st.Code != 0 {
		t.Errorf("status is %+v", st)
	}
}

func TestAgentEndsWithItsKilledSupervisor(t *testing.T) {
	bothWays(t, checkAgentEndsWithItsKilledSupervisor)
}

func checkAgentEndsWithItsKilledSupervisor(t *testing.T) {
	stop, err := proc.BecomeSubreaper()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	a := start(t, roleCommand("zoo"), Takeover{})
	pids := readyPids(t, a.Stdout(), 4)
	if err := unix.Kill(supervisorOf(a), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-a.Done()
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	if _, err := a.Wait(t.Context()); err == nil {
		t.Error("a status nobody knows")
	}
}

// Supervisor and server are killed. The agent itself ends at once. The next
// server ends the agent's other processes with End.
func TestNextStartEndsWhatKilledSupervisorsLeft(t *testing.T) {
	dir := t.TempDir()
	cmd, out := serverRole(t, dir, "1m", "marked")
	pids := readyPids(t, out, 3)
	k := Takeover{Dir: dir, Name: "one"}
	r, err := k.read()
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Kill(r.Supervisor.Pid, unix.SIGKILL)
	_ = cmd.Process.Kill()
	until(t, "the agent is gone", func() bool { return !alive(pids[0]) || !alive(pids[1]) || !alive(pids[2]) })
	until(t, "nobody is there", func() bool { _, _, err := Attach(k, nil); return errors.Is(err, ErrNone) })
	if err := End(k); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// Somebody copies the directory of a running server, such as to try a new
// version with the copy. The agents belong to the server of the original.
func TestRecordInACopyOfItsDirectoryEndsNothing(t *testing.T) {
	original := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(original, 0o700); err != nil {
		t.Fatal(err)
	}
	_, out := serverRole(t, original, "1m", "marked")
	pids := readyPids(t, out, 3)
	k := Takeover{Dir: t.TempDir(), Name: "one"}
	record, err := os.ReadFile(Takeover{Dir: original, Name: "one"}.record())
	if err == nil {
		err = os.WriteFile(k.record(), record, 0o600)
	}
	if err == nil { // a copy by hard links has the socket, too
		err = os.Link(filepath.Join(original, "one.sock"), filepath.Join(k.Dir, "one.sock"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Attach(k, nil); !errors.Is(err, ErrNone) {
		t.Errorf("the copy is taken over: %v", err)
	}
	if err := End(k); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("process %d was ended", pid)
		}
	}
	if left, err := Names(k.Dir); len(left) > 0 || err != nil {
		t.Errorf("the copy still has %v, %v", left, err)
	}
	moved := original + "-moved"
	if err := os.Rename(original, moved); err != nil {
		t.Fatal(err)
	}
	if err := End(Takeover{Dir: moved, Name: "one"}); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is left after the end from the moved directory", pid)
		}
	}
}

// A record may name a process that is not ours. Attach and End must not touch
// that process.
func TestRecordOfAForeignProcessIsIgnored(t *testing.T) {
	other := exec.Command("sleep", "90")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	id, _ := proc.Identify(other.Process.Pid)
	for what, r := range map[string]Record{
		"its number, used again":      {Version: version, Boot: procinfo.BootID(), Supervisor: proc.Identity{Pid: id.Pid, Start: id.Start - 1}},
		"of the boot before":          {Version: version, Boot: "another", Supervisor: id},
		"not a supervisor":            {Version: version, Boot: procinfo.BootID(), Supervisor: id},
		"a mark that all others have": {Version: version, Boot: procinfo.BootID(), Supervisor: id, Mark: "PATH=" + os.Getenv("PATH")},
	} {
		k := Takeover{Dir: t.TempDir(), Name: "one"}
		if err := k.write(r); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Attach(k, nil); err == nil {
			t.Errorf("%s: taken over", what)
		}
		_ = End(k)
		if !alive(id.Pid) {
			t.Fatalf("%s: ended", what)
		}
	}
}

// A supervisor of another version keeps another spool. The next server does not
// take it over, and ends it.
func TestSupervisorOfAnotherVersionIsNotTakenOver(t *testing.T) {
	testload.TakesLong(t)
	k := Takeover{Dir: t.TempDir(), Name: "one", Window: time.Minute}
	a := start(t, roleCommand("deaf"), k)
	pids := readyPids(t, a.Stdout(), 1)
	if !a.Detach() {
		t.Fatal("not detached")
	}
	r, err := k.read()
	if err != nil {
		t.Fatal(err)
	}
	r.Version = version - 1
	if err := k.write(r); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Attach(k, nil); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("taken over: %v", err)
	}
	if err := End(k); err != nil {
		t.Error(err)
	}
	allGone(t, append(pids, r.Supervisor.Pid))
}

// A process that an agent started finds the socket, but cannot take over.
func TestAgentCannotTakeOver(t *testing.T) {
	dir := t.TempDir()
	k := Takeover{Dir: dir, Name: "one", Window: time.Minute}
	start(t, roleCommand("deaf"), k)
	spy := start(t, roleCommand("spy", dir), Takeover{})
	if got := readLine(t, spy.Stdout()); !strings.Contains(got, "a process that an agent started") {
		t.Errorf("the spy was told %q", got)
	}
}

// An agent can replace the record and the socket of one conversation with those
// of another while no server runs.
func TestTakeoverFailsForTheSupervisorOfAnotherConversation(t *testing.T) {
	dir := t.TempDir()
	other := Takeover{Dir: dir, Name: "other", Window: time.Minute}
	start(t, roleCommand("deaf"), other)
	k := Takeover{Dir: dir, Name: "one", Window: time.Minute}
	for _, pair := range [][2]string{{other.record(), k.record()}, {filepath.Join(dir, other.socket()), filepath.Join(dir, k.socket())}} {
		if err := os.Link(pair[0], pair[1]); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Attach(k, nil); err == nil || !strings.Contains(err.Error(), "another conversation") {
		t.Errorf("taken over: %v", err)
	}
}

// Each running agent has a supervisor, so a supervisor must be small.
func TestSupervisorNeedsLittleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory too")
	}
	a := start(t, roleCommand("deaf"), Takeover{})
	readyPids(t, a.Stdout(), 1)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", supervisorOf(a)))
	if err != nil {
		t.Fatal(err)
	}
	kilobytes := -1
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "RssAnon:" {
			if kilobytes, err = strconv.Atoi(string(f[1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	const most = 6 << 10
	if kilobytes < 1 || kilobytes > most {
		t.Errorf("the supervisor has %d kB of its own, want 1 to %d", kilobytes, most)
	}
}

// Detach returns false, and the agent stays connected, if no later server could
// find the supervisor.
func TestNotDetachedWhereNobodyCouldTakeOver(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "missing")
	for _, k := range []Takeover{{}, {Window: time.Minute}, {Dir: t.TempDir(), Name: "one"}, {Dir: blocked, Name: "one", Window: time.Minute}} {
		a := start(t, roleCommand("echo"), k)
		if a.Detach() {
			t.Errorf("%+v: detached", k)
			continue
		}
		if err := a.Send([]byte("still there\n"), 0); err != nil {
			t.Fatal(err)
		}
		if got := readLine(t, a.Stdout()); got != "still there" {
			t.Errorf("got %q", got)
		}
	}
}

// A supervisor starts whatever descriptor numbers are free in the process that
// starts it. The lowest free number differs between the runs.
func TestStartWhateverDescriptorsAreFree(t *testing.T) {
	testload.TakesLong(t)
	dir := t.TempDir()
	for n := range 12 {
		cmd := exec.Command("/proc/self/exe", dir, strconv.Itoa(n))
		cmd.Env = []string{roleVar + "=fds", "GODEBUG=containermaxprocs=0", "GORACE=atexit_sleep_ms=0"}
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ready\n" {
			t.Errorf("with %d: %v, %q", n, err, out)
		}
	}
}

// A server that takes over waits until the previous server has disconnected.
func TestTakeoverWaitsForTheOneBefore(t *testing.T) { bothWays(t, checkTakeoverWaitsForTheOneBefore) }

func checkTakeoverWaitsForTheOneBefore(t *testing.T) {
	k := Takeover{Dir: t.TempDir(), Name: "one", Window: time.Minute}
	before := start(t, roleCommand("ticker"), k)
	type taken struct {
		a   Agent
		err error
	}
	after := make(chan taken, 1)
	r, err := k.read()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		a, _, err := Attach(k, nil)
		after <- taken{a, err}
	}()
	until(t, "one asks", func() bool { return sockets(r.Supervisor.Pid) >= 4 || len(after) > 0 })
	if !before.Detach() {
		t.Fatal("not detached")
	}
	got := <-after
	if got.err != nil {
		t.Fatal(got.err)
	}
	if err := got.a.Stop(t.Context(), proc.Now); err != nil {
		t.Error(err)
	}
}

// sockets returns the number of open sockets of a process, or a large number if
// this user may not list its descriptors.
func sockets(pid int) (n int) {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return 1 << 10
	}
	for _, fd := range fds {
		if to, err := os.Readlink(dir + fd.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

func TestKeepInADirectoryBesideUs(t *testing.T) {
	t.Chdir(t.TempDir())
	a := start(t, roleCommand("echo"), Takeover{Dir: ".", Name: "one", Window: time.Minute})
	if !a.Detach() {
		t.Fatal("not detached")
	}
	attach(t, Takeover{Dir: ".", Name: "one", Window: time.Minute})
}

// An agent without a directory of its own runs in the server's directory,
// although its supervisor runs in another one.
func TestAgentRunsBesideUs(t *testing.T) {
	here, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(here)
	a := start(t, proc.Command{Path: "/bin/pwd"}, Takeover{})
	if got := readLine(t, a.Stdout()); got != here {
		t.Errorf("it runs in %s, not in %s", got, here)
	}
}

// After a power loss, the record of a supervisor may be empty. Its session starts
// an agent again.
func TestAgentStartsDespiteADamagedRecord(t *testing.T) {
	for _, content := range []string{"", "\x00\x00\x00", `{"supervisor":`} {
		k := Takeover{Dir: t.TempDir(), Name: "one", Window: time.Minute}
		if err := os.WriteFile(k.record(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Attach(k, nil); !errors.Is(err, ErrNone) {
			t.Errorf("%q: attach: %v", content, err)
		}
		start(t, roleCommand("ticker"), k)
		if _, err := k.read(); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
}
