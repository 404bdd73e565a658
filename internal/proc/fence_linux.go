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

// fence is a cgroup (version 2) that a child is started in: whatever it starts
// is in it, too, whoever its parent is, and all of it can be ended at once. It
// needs a cgroup of our own in which we may make others; where that is not so
// there is none, and nothing is lost but this. A program of our user may move
// itself out of it, which is why it is not all we have.
type fence struct {
	path string
	dir  *os.File
}

// fencePrefix begins the name of each, and a random text of markLength ends it.
const fencePrefix = "runnel-"

// newFence makes one. It returns nil where there can be none, or where c does
// not ask for it.
func newFence(c Command) *fence {
	if !c.Fence {
		return nil
	}
	own, err := ownGroup()
	if err != nil || unix.Access(filepath.Join(own, "cgroup.procs"), unix.W_OK) != nil {
		return nil
	}
	removeStale(own)
	path := filepath.Join(own, fencePrefix+rand.Text())
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil
	}
	f, err := openFence(path)
	if err == nil && unix.Faccessat(int(f.dir.Fd()), killFile, unix.W_OK, 0) != nil { // Linux before 5.14
		f.close()
		return nil
	}
	return f
}

// staleAfter is when an empty fence is one that nobody is about to fill.
const staleAfter = time.Minute

// removeStale takes empty fences away whose owners were killed. Of one with
// someone inside the system says no.
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

// openFence opens one by its path, and nothing else, whatever the path says.
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

// enclose has the child start inside.
func (f *fence) enclose(attr *syscall.SysProcAttr) {
	if f != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(f.dir.Fd())
	}
}

// hold is called with the number of the child that was started.
func (f *fence) hold(int) error { return nil }

// where says how to find it again.
func (f *fence) where() string {
	if f == nil {
		return ""
	}
	return f.path
}

// kill ends all that is inside.
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

// populated reports whether anything lives inside.
func (f *fence) populated() bool {
	fd, err := unix.Openat(int(f.dir.Fd()), "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // it is gone
	}
	defer unix.Close(fd)
	buf := make([]byte, 256)
	n, err := unix.Read(fd, buf)
	return err == nil && bytes.Contains(buf[:n], []byte("populated 1"))
}

// clear ends all that is inside, and returns when it is gone. It reports false
// if something stays.
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

// close takes away an empty one, with those that were made inside of it.
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

// endFence ends what is in the fence at path, if there is one.
func endFence(path string) (clear bool) {
	f, err := openFence(path)
	if err != nil {
		return true
	}
	defer f.close()
	return f.clear()
}

// CanFence reports whether children get fences.
func CanFence() bool {
	f := newFence(Command{Fence: true})
	defer f.close()
	return f != nil
}

// ownGroup returns the directory of the cgroup that this process is in.
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

// groupDir finds a cgroup among the mounts of proc_pid_mountinfo(5): where a
// mount shows the group root at point.
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
