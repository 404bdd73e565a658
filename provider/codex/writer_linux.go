package codex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// lockFolder has a file for each conversation that a process has open. Codex
// holds a lock on the file while it may write the conversation.
func lockFolder(home string) string { return filepath.Join(home, "thread-writer-locks") }

// maxLocks bounds the files in lockFolder that are read.
const maxLocks = 4096

// lockReads is how often lockOwners reads /proc/locks. The kernel writes the
// file in pages, and may skip a lock between two pages when another one is
// released meanwhile. On a machine with many locks, one reading in fifty
// skipped a lock that was held all the time.
const lockReads = 5

// lockOwners returns the processes that hold locks on files of the file system
// that dir is in, by the inode of the file. /proc/locks has the process id of
// each lock's owner. A lock that was released meanwhile may be included.
func lockOwners(dir string) (map[string]int, error) {
	device, err := deviceOf(dir)
	if err != nil {
		return nil, err
	}
	owners := make(map[string]int)
	for range lockReads {
		locks, pages, err := readLocks()
		if err != nil {
			return nil, err
		}
		addLockOwners(owners, locks, device)
		if pages <= 1 {
			break // nothing can be missing
		}
	}
	return owners, nil
}

// readLocks returns the content of /proc/locks, and in how many pages the kernel
// wrote it.
func readLocks() (locks string, pages int, err error) {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	var all []byte
	page := make([]byte, 64<<10)
	for {
		n, err := f.Read(page)
		if all = append(all, page[:n]...); n > 0 {
			pages++
		}
		if errors.Is(err, io.EOF) {
			return string(all), pages, nil
		}
		if err != nil {
			return "", 0, err
		}
	}
}

// deviceOf returns the device of the file system that dir is in, as /proc/locks
// has it. Btrfs reports another one for its files, so the mount is looked up. If the
// system does not tell the mount (Linux before 5.8, and some containers), deviceOf
// returns "".
func deviceOf(dir string) (string, error) {
	var st unix.Statx_t
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID, &st); err != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return "", nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", nil
	}
	return deviceOfMount(string(mounts), st.Mnt_id), nil
}

// deviceOfMount returns the device of a mount, or "".
func deviceOfMount(mounts string, id uint64) string {
	for line := range strings.Lines(mounts) {
		// A line begins with the mount, its parent and the device: 28 1 254:0
		if f := strings.Fields(line); len(f) > 2 && f[0] == strconv.FormatUint(id, 10) {
			var major, minor uint32
			if _, err := fmt.Sscanf(f[2], "%d:%d", &major, &minor); err == nil {
				return fmt.Sprintf("%02x:%02x", major, minor)
			}
		}
	}
	return ""
}

// addLockOwners adds the owners of locks on the device, or on all devices if it is
// unknown.
func addLockOwners(owners map[string]int, locks, device string) {
	for line := range strings.Lines(locks) {
		// A line has this form:
		//
		//	1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || f[3] != "WRITE" {
			continue
		}
		i := strings.LastIndexByte(f[5], ':')
		if i < 0 || device != "" && f[5][:i] != device {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			owners[f[5][i+1:]] = pid
		}
	}
}

// ownerOf returns the process that holds the lock of a conversation, or 0.
func ownerOf(home, thread string, owners map[string]int) int {
	if !token().MatchString(thread) || strings.Contains(thread, "/") {
		return 0
	}
	st, err := os.Lstat(filepath.Join(lockFolder(home), thread+".lock"))
	if err != nil {
		return 0
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return owners[strconv.FormatUint(sys.Ino, 10)]
}

// writer describes the process that has a conversation open, for an error.
func writer(home, thread string) string {
	const unknown = "another Codex on this machine"
	owners, err := lockOwners(lockFolder(home))
	if err != nil {
		return unknown
	}
	if pid := ownerOf(home, thread, owners); pid > 0 {
		return unknown + ", process " + strconv.Itoa(pid)
	}
	return unknown
}

// Writers implements [runnel.WriterFinder].
func (p *Provider) Writers(ctx context.Context) (list []runnel.Writer, known bool) {
	home := homeOf(p.program)
	root, names, err := agentconn.ListFolder(lockFolder(home), maxLocks)
	if err != nil {
		return nil, false
	}
	defer root.Close()
	owners, err := lockOwners(lockFolder(home))
	if err != nil {
		return nil, false
	}
	for _, name := range names {
		thread, isLock := strings.CutSuffix(name, ".lock")
		if !isLock || ctx.Err() != nil {
			continue
		}
		if pid := ownerOf(home, thread, owners); pid > 0 {
			if w, ok := agentconn.RunningWriter(thread, pid, "", runnel.WriterDescriptors); ok {
				list = append(list, w)
			}
		}
	}
	return list, true
}

// stopTime is how long StopWriter waits for the process to exit.
const stopTime = 5 * time.Second

// StopWriter implements [runnel.WriterStopper]. It stops only the process that
// the system names as the owner of the conversation's lock.
func (p *Provider) StopWriter(ctx context.Context, w runnel.Writer) error {
	ctx, stop := context.WithTimeout(ctx, stopTime)
	defer stop()
	err := agentconn.StopWriter(ctx, w.PID, func() bool {
		home := homeOf(p.program)
		owners, err := lockOwners(lockFolder(home))
		return err == nil && ownerOf(home, w.AgentSessionID, owners) == w.PID
	})
	if err != nil {
		return runnel.Fail(runnel.ConversationInUse, "Codex, process "+strconv.Itoa(w.PID)+", did not leave the conversation. Close it there, or fork the session.", err)
	}
	return nil
}
