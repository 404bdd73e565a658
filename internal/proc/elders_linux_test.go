package proc

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// started returns a child process that runs until the test ends or its kill is
// called.
func started(t *testing.T) (e entry, kill func()) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	t.Cleanup(kill)
	e, ok := process(cmd.Process.Pid)
	if !ok {
		t.Fatal("the child has no entry")
	}
	return e, kill
}

// A survey reads the status of an older process once, and this process and
// younger ones each time.
func TestSurveySkipsKnownOlderProcesses(t *testing.T) {
	e, _ := started(t)
	for since, want := range map[uint64]bool{0: true, e.start: true, e.start + 1: false} {
		survey(make(map[int]entry), nil, since)
		table := make(map[int]entry)
		survey(table, nil, since)
		if _, found := table[e.pid]; found != want {
			t.Errorf("since %d: found %t, started at %d", since, found, e.start)
		}
		if _, found := table[os.Getpid()]; !found {
			t.Errorf("since %d: this process is missing", since)
		}
	}
}

// A process that has the id of an older one which has ended is no older
// process.
func TestSurveyNoticesReusedPid(t *testing.T) {
	const lastPid = "/proc/sys/kernel/ns_last_pid"
	for range 100 {
		old, kill := started(t)
		survey(make(map[int]entry), nil, 0)
		kill()
		until(t, "a later time", func() bool {
			e, kill := started(t)
			kill()
			return e.start > old.start
		})
		if err := os.WriteFile(lastPid, []byte(strconv.Itoa(old.pid-1)), 0); err != nil {
			t.Skip("only root chooses the id of a process: ", err)
		}
		e, kill := started(t)
		if e.pid != old.pid {
			kill()
			continue // another program was faster, and may keep the id
		}
		table := make(map[int]entry)
		survey(table, nil, e.start)
		if table[e.pid].start != e.start {
			t.Errorf("the survey has %+v, want %+v", table[e.pid], e)
		}
		return
	}
	t.Fatal("no child got the id")
}

func TestStartTimesAreForgottenWithTheirProcesses(t *testing.T) {
	s := startTimes{known: make(map[int]startTime)}
	for pid := range 100 {
		s.note(pid, folder{inode: uint64(pid)}, 1)
	}
	if !s.older(7, folder{inode: 7}, 2) || s.older(7, folder{inode: 7}, 1) || s.older(7, folder{inode: 8}, 2) || s.older(100, folder{}, 2) {
		t.Error("wrong start times")
	}
	s.keep([]int{7, 200})
	if len(s.known) != 1 || !s.older(7, folder{inode: 7}, 2) {
		t.Errorf("%v are left", s.known)
	}
}
