package auth

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// sameUser returns the pid of the other end if it runs as our user.
func sameUser(c *net.UnixConn) (pid int, ok bool) {
	rc, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *unix.Ucred
	if rc.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, unix.SO_PEERCRED)
	}) != nil || err != nil {
		return 0, false
	}
	return int(cred.Pid), int(cred.Uid) == os.Geteuid() && cred.Pid > 0
}

// ours reports whether pid descends from this process, or whether that cannot
// be told. What agents leave behind is adopted by us, so it descends from us.
func ours(pid int) bool {
	self := os.Getpid()
	for range 1024 { // more generations than there are, in case of a pid that was used again
		switch {
		case pid == self:
			return true
		case pid <= 1:
			return false
		}
		parent, err := parentOf(pid)
		if err != nil {
			return true
		}
		pid = parent
	}
	return true
}

// parentOf reads the fourth field of /proc/<pid>/stat. The second is a name in
// parentheses that may hold anything.
func parentOf(pid int) (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	i := bytes.LastIndexByte(data, ')')
	fields := bytes.Fields(data[i+1:])
	if i < 0 || len(fields) < 2 {
		return 0, fmt.Errorf("stat of process %d is malformed", pid)
	}
	return strconv.Atoi(string(fields[1]))
}
