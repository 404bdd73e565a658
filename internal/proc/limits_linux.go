package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// leafName is the name of the cgroup in which a process that enforces limits
// runs itself. Its fences are beside this cgroup: a cgroup that contains
// processes cannot limit the cgroups in it.
const leafName = "runnel-server"

// delegateFix says how a process gets a cgroup in which it can enforce limits.
const delegateFix = "start the server as a systemd service with Delegate=yes, or remove limits from the configuration"

// groupOfFences returns the cgroup in which this process creates fences.
func groupOfFences() (string, error) {
	own, err := ownGroup()
	if err == nil && filepath.Base(own) == leafName {
		own = filepath.Dir(own)
	}
	return own, err
}

// controllers returns the cgroup controllers that enforce l.
func (l Limits) controllers() (names []string) {
	if l.MemoryMiB > 0 {
		names = append(names, "memory")
	}
	if l.Processes > 0 {
		names = append(names, "pids")
	}
	if l.CPUs > 0 {
		names = append(names, "cpu")
	}
	return names
}

// enabling serializes EnableLimits.
var enabling sync.Mutex

// EnableLimits makes it possible to enforce l on children that start from now
// on. To that end it moves this process, its descendants and the supervisors of
// earlier servers into a cgroup below their present one. It fails with a
// *LimitsError if limits cannot be enforced here.
func EnableLimits(l Limits) error {
	if !l.any() {
		return nil
	}
	enabling.Lock()
	defer enabling.Unlock()
	group, missing, err := missingControllers(l)
	if err != nil || len(missing) == 0 {
		return err
	}
	const tries = 20 // a process may start in the cgroup meanwhile
	for range tries {
		if err := vacate(group); err != nil {
			return err
		}
		if err = enable(group, missing); err == nil || !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	if err != nil {
		return refusedLimits(group, err)
	}
	return nil
}

// CheckLimits returns the error that EnableLimits would most likely return, and
// changes nothing.
func CheckLimits(l Limits) error {
	if !l.any() {
		return nil
	}
	group, missing, err := missingControllers(l)
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = inhabitants(group)
	return err
}

// missingControllers returns the cgroup of the fences, and the controllers that
// are available but not enabled for them.
func missingControllers(l Limits) (group string, missing []string, err error) {
	if group, err = groupOfFences(); err != nil {
		return "", nil, &LimitsError{"limits of agents need cgroups (version 2), which are not mounted here", "mount them, or remove limits from the configuration"}
	}
	for _, name := range []string{".", "cgroup.procs", "cgroup.subtree_control"} {
		if err := unix.Access(filepath.Join(group, name), unix.W_OK); err != nil {
			return "", nil, &LimitsError{"runnel may not create cgroups in its cgroup " + group, delegateFix}
		}
	}
	available, err := words(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return "", nil, refusedLimits(group, err)
	}
	enabled, err := words(filepath.Join(group, "cgroup.subtree_control"))
	if err != nil {
		return "", nil, refusedLimits(group, err)
	}
	var lacking []string
	for _, name := range l.controllers() {
		switch {
		case !slices.Contains(available, name):
			lacking = append(lacking, name)
		case !slices.Contains(enabled, name):
			missing = append(missing, name)
		}
	}
	if len(lacking) > 0 {
		return "", nil, &LimitsError{
			"the cgroup " + group + " has no controller " + strings.Join(lacking, " and no controller ") + "; it has: " + shownList(available),
			"let systemd delegate them (Delegate=yes in the unit of the server; for a user service also Delegate=memory pids cpu in user@.service), or remove the limits that need them",
		}
	}
	return group, missing, nil
}

func shownList(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}

// words returns the words of a file of a cgroup.
func words(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	return strings.Fields(string(text)), err
}

// enable enables controllers for the cgroups in group.
func enable(group string, controllers []string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+strings.Join(controllers, " +")), 0)
}

// vacate moves the processes of group into its leaf.
func vacate(group string) error {
	leaf := filepath.Join(group, leafName)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return refusedLimits(group, err)
	}
	const rounds = 20 // a process that has not moved yet may start others
	for range rounds {
		pids, err := inhabitants(group)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return refusedLimits(group, err)
			}
		}
	}
	return nil // enable reports what is left
}

// inhabitants returns the processes in group, this process first. It fails if
// one of them is neither a descendant of this process nor a supervisor, because
// only its owner may move it.
func inhabitants(group string) ([]int, error) {
	list, err := words(filepath.Join(group, "cgroup.procs"))
	if err != nil {
		return nil, refusedLimits(group, err)
	}
	var pids []int
	for _, word := range list {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, refusedLimits(group, err)
		}
		if !mayMove(pid) {
			return nil, &LimitsError{fmt.Sprintf("process %d also runs in the cgroup %s of this process, so no limits can be set there", pid, group), delegateFix}
		}
		pids = append(pids, pid)
	}
	if at := slices.Index(pids, os.Getpid()); at > 0 {
		pids[0], pids[at] = pids[at], pids[0]
	}
	return pids, nil
}

// mayMove reports whether a process is this one, a descendant of it, or a
// supervisor that an earlier server of this user has started. It returns true
// for a process that has ended.
func mayMove(pid int) bool {
	if is, err := procinfo.IsSupervisor(pid); is || pid > 0 && procinfo.IsGone(err) {
		return true
	}
	for range 100 { // levels of descendants
		if pid == os.Getpid() {
			return true
		}
		e, ok := process(pid)
		if !ok {
			return pid > 0
		}
		if pid = e.ppid; pid <= 1 {
			return pid == os.Getpid()
		}
	}
	return false
}

func refusedLimits(group string, err error) error {
	return &LimitsError{fmt.Sprintf("limits cannot be set in the cgroup %s: %v", group, bare(err)), delegateFix}
}

// limit sets the limits of an empty fence.
func (f *fence) limit(l Limits) error {
	const period = 100_000 // microseconds, the kernel's default
	var values [][2]string
	if l.MemoryMiB > 0 {
		values = append(values, [2]string{"memory.max", strconv.FormatInt(int64(l.MemoryMiB)<<20, 10)})
		if unix.Faccessat(int(f.dir.Fd()), "memory.swap.max", unix.F_OK, 0) == nil { // absent without swap accounting
			values = append(values, [2]string{"memory.swap.max", "0"})
		}
	}
	if l.Processes > 0 {
		values = append(values, [2]string{"pids.max", strconv.Itoa(l.Processes)})
	}
	if l.CPUs > 0 {
		values = append(values, [2]string{"cpu.max", fmt.Sprintf("%d %d", max(1000, int64(l.CPUs*period)), period)})
	}
	for _, v := range values {
		if err := os.WriteFile(filepath.Join(f.path, v[0]), []byte(v[1]), 0); err != nil {
			return refusedLimits(f.path, err)
		}
	}
	return nil
}

// note adds to st what the kernel has counted in the fence: processes that it
// killed at the memory limit, and processes that it did not start.
func (f *fence) note(st *ExitStatus) {
	if f == nil {
		return
	}
	memory := f.counts("memory.events")
	if memory["oom"] > 0 { // otherwise the memory of the machine was used up
		st.MemoryKills = memory["oom_kill"]
	}
	st.RefusedForks = f.counts("pids.events")["max"]
}

// counts reads a file of lines with a name and a number each. It returns nil if
// there is no such file.
func (f *fence) counts(file string) map[string]int {
	list, err := words(filepath.Join(f.path, file))
	if err != nil {
		return nil
	}
	counts := make(map[string]int)
	for i := 0; i+1 < len(list); i += 2 {
		counts[list[i]], _ = strconv.Atoi(list[i+1])
	}
	return counts
}
