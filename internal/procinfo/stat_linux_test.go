package procinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = "1 2 3 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 %d 0 77 1000 10"
	row := func(name, state string, threads int) string {
		return "9 (" + name + ") " + state + " " + fmt.Sprintf(rest, threads)
	}
	want := Stat{Pid: 9, Start: 77, Parent: 1, Group: 2, Session: 3}
	dead := want
	dead.Dead = true
	ending := want
	ending.Ending = true
	for stat, want := range map[string]Stat{
		row("node", "S", 11):         want,
		row("a) Z 5 5 (b c", "R", 1): want,
		row("headless", "Z", 2):      want,
		row("zombie", "Z", 1):        dead,
		row("gone", "X", 0):          dead,
		"9 (exits) R 1 2 3 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 77 0 0": ending,
		"9 (short) S 1 2 3":            {},
		"":                             {},
		"nothing in parentheses S 1 2": {},
		"9 (removed) X 0 -1 -1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 0 0 77 1000 10": {Pid: 9, Start: 77, Dead: true},
		"x (number) S 1 2 3 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 77 1000 10":    {},
	} {
		got, err := ParseStat([]byte(stat))
		if got != want || (err != nil) != (want == Stat{}) {
			t.Errorf("%s: %+v, %v", stat, got, err)
		}
	}
}

func TestParseLevels(t *testing.T) {
	for status, want := range map[string]int{
		"Name:\tx\nNSpid:\t12\nNSpgid:\t12\n": 1,
		"Name:\tx\nNSpid:\t12\t1\n":           2,
		"Name:\tNSpid:\t1 2\n":                0, // the name of the program
		"Name:\tx\nNSpid:\t12":                0, // cut off
		"":                                    0,
	} {
		if got, err := parseLevels([]byte(status)); got != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %d, %v, want %d", status, got, err, want)
		}
	}
}

func TestProcessInAContainerIsInner(t *testing.T) {
	if inner, err := IsInner(os.Getpid()); inner || err != nil {
		t.Errorf("this process: %v, %v", inner, err)
	}
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("this system allows no new namespaces: %v", err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	if inner, err := IsInner(cmd.Process.Pid); !inner || err != nil {
		t.Errorf("the process in new namespaces: %v, %v", inner, err)
	}
}

func TestOwnProcess(t *testing.T) {
	st, err := ReadStat(os.Getpid())
	if err != nil || st.Pid != os.Getpid() || st.Parent != os.Getppid() || st.Dead || !st.HasEnviron {
		t.Errorf("%+v, %v", st, err)
	}
	if pids, err := Pids(); err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("%d of %v, %v", os.Getpid(), pids, err)
	}
}

// startShell starts a shell with an environment. It returns once the shell runs, because
// the kernel may show the environment of this process until then. end ends the shell.
func startShell(t *testing.T, env ...string) (cmd *exec.Cmd, end func()) {
	t.Helper()
	cmd = exec.Command("/bin/sh", "-c", "echo begun; read line", SuperviseCommand)
	cmd.Env = env
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
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd, func() {
		in.Close()
		_ = cmd.Wait()
	}
}

func TestMarksAndCommandLineOfAProcess(t *testing.T) {
	mark := "SOME_" + MarkSuffix + "=x"
	cmd, end := startShell(t, "A=1", mark, MarkSuffix+"_OTHER=x", "VALUE="+MarkSuffix)
	if got := Marks(cmd.Process.Pid); !slices.Equal(got, []string{mark}) {
		t.Errorf("marks: %q", got)
	}
	if r, ok := RunningProcess(cmd.Process.Pid, ""); !ok || !r.Ends || r.Session != "" { // an agent's process without a supervisor
		t.Errorf("as a running process: %+v, %v", r, ok)
	}
	if is, err := IsSupervisor(cmd.Process.Pid); is || err != nil { // the first argument is not SuperviseCommand
		t.Errorf("a supervisor: %v, %v", is, err)
	}
	end()
	if _, err := IsSupervisor(cmd.Process.Pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of one that is gone: %v", err)
	}
}

func TestOrdinaryProcessDoesNotEnd(t *testing.T) {
	cmd, end := startShell(t, "A=1")
	defer end()
	if r, ok := RunningProcess(cmd.Process.Pid, ""); !ok || r.Ends {
		t.Errorf("as a running process: %+v, %v", r, ok)
	}
}

func TestSupervisedSession(t *testing.T) {
	for name, tt := range map[string]struct {
		args    []string
		session string
		ok      bool
	}{
		"supervisor":  {[]string{"runnel", SuperviseCommand, "id"}, "id", true},
		"unnamed":     {[]string{"runnel", SuperviseCommand}, "", true},
		"later":       {[]string{"runnel", "run", SuperviseCommand}, "", false},
		"only a name": {[]string{SuperviseCommand}, "", false},
		"no words":    {nil, "", false},
		"longer":      {[]string{"runnel", SuperviseCommand + "r", "id"}, "", false},
	} {
		if session, ok := SupervisedSession(tt.args); session != tt.session || ok != tt.ok {
			t.Errorf("%s: %q, %v", name, session, ok)
		}
	}
}

// An agent controls the command lines of the processes that it starts.
func TestIsSupervisorReadsBoundedPartOfCommandLine(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, SuperviseCommand), []byte("echo begun; read line"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want bool
	}{
		"supervisor": {[]string{SuperviseCommand}, true}, // for the shell, its script
		"other":      {[]string{"-c", "echo begun; read line"}, false},
	} {
		cmd := exec.Command("/bin/sh", append(tt.args, make([]string, 110_000)...)...)
		cmd.Dir = dir
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
		// Wait for output of the program: until it runs, the kernel may show
		// the command line of this process.
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		is, err := IsSupervisor(cmd.Process.Pid)
		runtime.ReadMemStats(&after)
		if is != tt.want || err != nil {
			t.Errorf("%s: %v, %v", name, is, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
		in.Close()
		_ = cmd.Wait()
	}
}
