package proc

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that ended during a survey may have had children that the survey
// missed, so that survey is not complete.
func TestSurveyNoticesTheEnded(t *testing.T) {
	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	until(t, "a zombie", func() bool { return zombie(cmd.Process.Pid) })

	table := make(map[int]entry)
	if complete, _ := survey(table, nil, 0); complete {
		t.Error("complete, although a process was found that had just ended")
	}
	e := table[cmd.Process.Pid]
	if !e.dead {
		t.Errorf("row is %+v", e)
	}
	until(t, "complete once all the ended are known", func() bool { complete, _ := survey(table, nil, 0); return complete })
}

// look must find a child even while another goroutine lowers and raises this
// process's limit of descriptors.
func TestLookNeverMissesAChildForWantOfDescriptors(t *testing.T) {
	child := exec.Command("/bin/sleep", "60")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // our own session is never touched
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	var limit unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	before := newTree(os.Getpid(), "", nil, false)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for low := (unix.Rlimit{Max: limit.Max}); ; {
			_ = unix.Prlimit(0, unix.RLIMIT_NOFILE, &low, nil)
			for range rand.IntN(20) {
				runtime.Gosched()
			}
			_ = unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil)
			for range rand.IntN(200) {
				runtime.Gosched()
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	saw, blind, missed := 0, 0, 0
	for began := time.Now(); time.Since(began) < time.Second; {
		tr := newTree(os.Getpid(), "", nil, false)
		tr.root, tr.self = before.root, before.self
		living, sees := tr.look()
		switch {
		case !sees:
			blind++
		case len(living) == 0:
			missed++
		default:
			saw++
		}
	}
	close(stop)
	<-stopped
	t.Logf("%d looks saw the child, %d were blind", saw, blind)
	if missed > 0 {
		t.Errorf("%d looks missed the child", missed)
	}
}

func TestFindMark(t *testing.T) {
	const mark = "PROC_TEST_" + MarkSuffix + "=x"
	for name, tt := range map[string]struct {
		env  []string
		want finding
	}{
		"first":        {[]string{mark, "B=1"}, present},
		"last":         {[]string{"A=1", mark}, present},
		"longer name":  {[]string{"A" + mark}, absent},
		"longer value": {[]string{mark + "y"}, absent},
		"in a value":   {[]string{"A=" + mark}, absent},
		"empty":        {[]string{}, absent},
	} {
		cmd := exec.Command("/bin/sleep", "60")
		cmd.Env = tt.env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		got := unknown
		until(t, "an answer", func() bool {
			got = findMark(cmd.Process.Pid, mark, make([]byte, 4096))
			return got != unknown
		})
		if got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
		cmd.Process.Kill()
		cmd.Wait()
		if got := findMark(cmd.Process.Pid, mark, make([]byte, 4096)); got != unknown {
			t.Errorf("%s: %v of a process that is gone", name, got)
		}
	}
}

// A program may be a subreaper for its own reasons. IsSubreaper then returns
// false, so that we do not kill that program's orphans.
func TestSubreaperOfItsOwnAccord(t *testing.T) {
	if IsSubreaper() {
		t.Fatal("is one already")
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	if IsSubreaper() {
		t.Error("counts as one of ours")
	}
	stop, err := BecomeSubreaper()
	if err != nil {
		t.Skip(err)
	}
	if !IsSubreaper() {
		t.Error("not one after all")
	}
	stop()
	if IsSubreaper() {
		t.Error("still one")
	}
}
