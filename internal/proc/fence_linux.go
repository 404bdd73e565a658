package proc

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fence is a cgroup (version 2) in which a child starts. All descendants of the
// child are in it too, and one write kills all of them. A fence needs a
// delegated cgroup in which this process may create others; without one,
// newFence returns nil. A process of our user can leave its cgroup, so the
// process tree is searched as well.
type fence struct {
	path string
	dir  *os.File
}

// fencePrefix starts the name of each fence. A random text of markLength
// follows.
const fencePrefix = "runnel-"

// newFence creates a fence with the limits of c. It returns nil if that is
// impossible, or if c does not ask for one. The error is nil unless c has
// limits.
func newFence(c Command) (*fence, error) {
	limited := c.Limits.any()
	if !c.Fence && !limited {
		return nil, nil
	}
	f, err := makeFence()
	if err == nil && limited {
		if err = f.limit(c.Limits); err != nil {
			f.close()
		}
	}
	switch {
	case err == nil:
		return f, nil
	case limited:
		return nil, err
	}
	return nil, nil
}

// makeFence creates a fence without limits.
func makeFence() (*fence, error) {
	group, err := groupOfFences()
	if err == nil {
		err = unix.Access(filepath.Join(group, "cgroup.procs"), unix.W_OK)
	}
	if err != nil {
		return nil, refusedLimits(group, err)
	}
	removeStale(group)
	path := filepath.Join(group, fencePrefix+rand.Text())
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, refusedLimits(group, err)
	}
	f, err := openFence(path)
	if err != nil {
		return nil, refusedLimits(group, err)
	}
	if unix.Faccessat(int(f.dir.Fd()), killFile, unix.W_OK, 0) != nil { // Linux before 5.14
		f.close()
		return nil, &LimitsError{"limits of agents need Linux 5.14 or newer", "remove limits from the configuration"}
	}
	return f, nil
}

// staleAfter is the age from which an empty fence counts as abandoned.
const staleAfter = time.Minute

// removeStale removes empty fences whose owners were killed. The system refuses
// to remove a fence that contains processes.
func removeStale(own string) {
	entries, err := os.ReadDir(own)
	if err != nil {
		return
	}
	for _, e := range entries {
		id, ok := strings.CutPrefix(e.Name(), fencePrefix)
		if !ok || !isMark(id) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = unix.Rmdir(filepath.Join(own, e.Name()))
		}
	}
}

const killFile = "cgroup.kill"

// openFence opens the fence at path. It rejects every path that does not name a
// fence.
func openFence(path string) (*fence, error) {
	id, ok := strings.CutPrefix(filepath.Base(path), fencePrefix)
	if !ok || !isMark(id) || !filepath.IsAbs(path) {
		return nil, errors.New("not a fence")
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var system unix.Statfs_t
	if err := unix.Fstatfs(fd, &system); err != nil || system.Type != unix.CGROUP2_SUPER_MAGIC {
		unix.Close(fd)
		return nil, errors.Join(err, errors.New("not a fence"))
	}
	return &fence{path, os.NewFile(uintptr(fd), path)}, nil
}

// enclose makes the child start inside the fence.
func (f *fence) enclose(attr *syscall.SysProcAttr) {
	if f != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(f.dir.Fd())
	}
}

// hold does nothing: on Linux the child starts inside the fence.
func (f *fence) hold(int) error { return nil }

// where returns the path of the fence, by which endFence finds it.
func (f *fence) where() string {
	if f == nil {
		return ""
	}
	return f.path
}

// kill kills all processes in the fence.
func (f *fence) kill() {
	if f == nil {
		return
	}
	fd, err := unix.Openat(int(f.dir.Fd()), killFile, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_, _ = unix.Write(fd, []byte("1"))
}

// populated reports whether the fence contains a living process.
func (f *fence) populated() bool {
	fd, err := unix.Openat(int(f.dir.Fd()), "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // the fence was removed
	}
	defer unix.Close(fd)
	buf := make([]byte, 256)
	n, err := unix.Read(fd, buf)
	return err == nil && bytes.Contains(buf[:n], []byte("populated 1"))
}

// clear kills all processes in the fence and waits until they have ended. It
// returns false if some remain after sweepFor.
func (f *fence) clear() bool {
	for deadline, pause := time.Now().Add(sweepFor), firstPause; f.populated(); pause = min(2*pause, longPause) {
		if time.Now().After(deadline) {
			return false
		}
		f.kill()
		time.Sleep(pause)
	}
	return true
}

// close removes an empty fence and all cgroups that were created in it.
func (f *fence) close() {
	if f == nil {
		return
	}
	f.dir.Close()
	var inside []string
	_ = filepath.WalkDir(f.path, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			inside = append(inside, path)
		}
		return nil
	})
	for i := len(inside) - 1; i >= 0; i-- {
		_ = unix.Rmdir(inside[i])
	}
}

// endFence kills the processes in the fence at path, if it exists.
func endFence(path string) (clear bool) {
	f, err := openFence(path)
	if err != nil {
		return true
	}
	defer f.close()
	return f.clear()
}

// CanFence reports whether children can get fences here.
func CanFence() bool {
	f, _ := newFence(Command{Fence: true})
	defer f.close()
	return f != nil
}

// ownGroup returns the directory of this process's cgroup.
func ownGroup() (string, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(groups)) {
		if own, ok := strings.CutPrefix(line, "0::"); ok {
			return groupDir(strings.TrimSuffix(own, "\n"), string(mounts))
		}
	}
	return "", errors.New("no cgroup")
}

// groupDir returns the directory of the cgroup own. mounts has the format of
// proc_pid_mountinfo(5); a mount shows the cgroup root at the directory point.
func groupDir(own, mounts string) (string, error) {
	for line := range strings.Lines(mounts) {
		what, system, _ := strings.Cut(line, " - ")
		f := strings.Fields(what)
		if len(f) < 5 || !strings.HasPrefix(system, "cgroup2 ") || strings.Contains(f[4], `\`) {
			continue
		}
		root, point := f[3], f[4]
		rel, err := filepath.Rel(root, own)
		if err == nil && filepath.IsLocal(rel) && own == filepath.Clean(own) {
			return filepath.Join(point, rel), nil
		}
	}
	return "", errors.New("no cgroup is mounted")
}
