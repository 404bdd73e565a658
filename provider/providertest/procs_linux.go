package providertest

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// descendants returns the process ids of all running descendants of this
// process.
func descendants() []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		ppid, _ := strconv.Atoi(fields[1])
		if fields[0] != "Z" {
			children[ppid] = append(children[ppid], pid)
		}
	}
	var out []int
	queue := children[os.Getpid()]
	for len(queue) > 0 {
		pid := queue[0]
		queue = append(queue[1:], children[pid]...)
		out = append(out, pid)
	}
	return out
}

// worksIn reports whether the working directory of a process is dir, even if
// dir has been removed.
func worksIn(pid int, dir string) bool {
	at, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	return err == nil && strings.TrimSuffix(at, " (deleted)") == dir
}

func killDescendants(t *testing.T)   { signalAll(t, syscall.SIGKILL) }
func freezeDescendants(t *testing.T) { signalAll(t, syscall.SIGSTOP) }

func signalAll(t *testing.T, sig syscall.Signal) {
	t.Helper()
	pids := descendants()
	if len(pids) == 0 {
		t.Fatal("the agent has no process")
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}
