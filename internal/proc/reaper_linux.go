package proc

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// BecomeSubreaper makes this process adopt orphaned descendants, instead of the
// system's init, and reaps them when they end. This affects the whole program,
// so only main should call it. stop stops the reaping, waits until it has
// stopped, and ends the subreaper role.
//
// The reaper never reaps children that this process started itself. The os
// package holds a pidfd to each such child until it is waited for, which
// identifies them. Without pidfds (Linux before 5.4) BecomeSubreaper returns
// errors.ErrUnsupported.
func BecomeSubreaper() (stop func(), err error) {
	if !CanBeSubreaper() {
		return nil, errors.ErrUnsupported
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	reaping.Store(true)
	ended := make(chan os.Signal, 1) // one token suffices: each wake-up checks all processes
	signal.Notify(ended, unix.SIGCHLD)
	quit := make(chan struct{})
	var reaper sync.WaitGroup
	reaper.Go(func() {
		for {
			reapOrphans()
			select {
			case <-ended:
			case <-quit:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		signal.Stop(ended)
		close(quit)
		reaper.Wait()
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
		reaping.Store(false)
	}), nil
}

// CanBeSubreaper reports whether BecomeSubreaper can succeed here.
func CanBeSubreaper() bool { return procinfo.HasPidfds() }

func reapOrphans() {
	self := os.Getpid()
	var zombies []entry
	for _, pid := range list() {
		if e, ok := process(pid); ok && e.ppid == self && e.dead {
			zombies = append(zombies, e)
		}
	}
	if len(zombies) == 0 {
		return
	}
	held, err := heldByPidfd() // after the table: children started since then are not in zombies
	if err != nil {
		return // the next signal tries again
	}
	for _, z := range zombies {
		if !held[z.pid] {
			reapOrphan(z)
		}
	}
}

func reapOrphan(z entry) {
	fd, err := unix.PidfdOpen(z.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, ok := process(z.pid); ok && now.identity == z.identity {
		unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil)
	}
}

// heldByPidfd returns the ids of the processes to which this process has a
// pidfd.
func heldByPidfd() (map[int]bool, error) {
	const self = "/proc/self/fdinfo/"
	dir, err := os.Open(self)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	held := make(map[int]bool)
	for _, name := range names {
		info, err := os.ReadFile(self + name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for line := range bytes.Lines(info) {
			if rest, ok := bytes.CutPrefix(line, []byte("Pid:")); ok {
				if pid, err := strconv.Atoi(string(bytes.TrimSpace(rest))); err == nil {
					held[pid] = true
				}
			}
		}
	}
	return held, nil
}

var errBlind = errors.New("the process table cannot be read")

// adopted returns the children of this process that it did not start.
func adopted() ([]identity, error) {
	self := os.Getpid()
	rows := make(map[int]entry)
	if _, sees := survey(rows, nil, 0); !sees {
		return nil, errBlind
	}
	var found []identity
	for _, e := range rows {
		if e.ppid == self && !e.dead {
			found = append(found, e.identity)
		}
	}
	held, err := heldByPidfd() // after the table: children started since then are not in found
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(id identity) bool { return held[id.pid] }), nil
}

// reaping is true between BecomeSubreaper and its stop.
var reaping atomic.Bool

// IsSubreaper reports whether this process adopts orphaned descendants because
// of BecomeSubreaper. It ignores other subreaper settings, since such a program
// may have adopted children that must not be killed.
func IsSubreaper() bool { return reaping.Load() }
