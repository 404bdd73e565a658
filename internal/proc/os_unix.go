//go:build unix

package proc

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const ownSessions = true // attributes gives each child a session, without a terminal

func ask(p *os.Process, r rung) {
	switch r {
	case interrupted:
		p.Signal(unix.SIGINT)
	case terminated:
		p.Signal(unix.SIGTERM)
	}
}

func freeze(p *os.Process) { p.Signal(unix.SIGSTOP) }

func force(p *os.Process) { p.Kill() } // uses a process handle where the system has one

// endGroup kills all members of a process group at once, so that no member can
// fork to escape. The caller must know that the id is not reused.
func endGroup(pgid int) { unix.Kill(-pgid, unix.SIGKILL) }

func usableDir(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir() && unix.Access(dir, unix.X_OK) == nil
}

func signalName(s *os.ProcessState) string {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return unix.SignalName(status.Signal())
	}
	return ""
}

// readNow reads the contents of the pipe without waiting. It returns
// errNothingThere if the pipe is empty and open.
func readNow(f *os.File, p []byte) (n int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var errno error
	err = conn.Read(func(fd uintptr) bool {
		for {
			n, errno = unix.Read(int(fd), p)
			if !errors.Is(errno, unix.EINTR) {
				return true
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(errno, unix.EAGAIN):
		return 0, errNothingThere
	case errno != nil:
		return 0, errno
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
