package auth

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
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

// agentAt reports whether the process at the other end of a TCP connection
// belongs to an agent. It finds the socket, then who holds it, then that one's
// ancestors. Where the socket is on this machine and its holder cannot be found,
// it is taken for an agent's if it may be: it has been closed already, which an
// agent may do that does not care for the answer, or it is our user's and there
// are agents.
func agentAt(here, there netip.AddrPort) bool {
	sock, err := findSocket(there, here)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return there.Addr().IsLoopback() // else on another machine
	case err != nil: // such as no file descriptors left: an agent may have brought that about
		return there.Addr().IsLoopback() && anyAgent()
	case sock.inode == 0:
		return true
	}
	for range 3 {
		pid, link := holders.find(sock.inode)
		if pid == 0 {
			break
		}
		if pid == os.Getpid() {
			return false // we do not call ourselves for an agent
		}
		agent := fromAgent(pid)
		if agent || holds(link, sock.inode) { // it is still the one that was judged
			return agent
		}
	}
	return sock.uid == os.Geteuid() && anyAgent()
}

// holders finds processes by the sockets they hold.
var holders holderCache

// A holderCache remembers who called last: a browser comes again and again, and
// is found without a look at everyone else.
type holderCache struct {
	mu     sync.Mutex
	recent []int // newest first
}

const holdersKept = 8

// find returns the pid of a process that holds a socket, and where its
// descriptor is; zero if there is none that we may look into.
func (h *holderCache) find(inode uint64) (pid int, link string) {
	h.mu.Lock()
	recent := append([]int(nil), h.recent...)
	h.mu.Unlock()
	for _, pid := range recent {
		if link := heldBy(pid, inode); link != "" {
			return pid, link
		}
	}
	pids, _ := processes()
	for _, pid := range slices.Backward(pids) { // who came last calls first, as a rule
		link := heldBy(pid, inode)
		if link == "" {
			continue
		}
		h.mu.Lock()
		h.recent = append([]int{pid}, h.recent[:min(len(h.recent), holdersKept-1)]...)
		h.mu.Unlock()
		return pid, link
	}
	return 0, ""
}

// heldBy returns the descriptor with which pid holds a socket; empty if it does
// not, or if it cannot be looked into.
func heldBy(pid int, inode uint64) string {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	d, err := os.Open(dir)
	if err != nil {
		return ""
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if link := dir + "/" + name; holds(link, inode) {
			return link
		}
	}
	return ""
}

func holds(link string, inode uint64) bool {
	to, err := os.Readlink(link)
	return err == nil && to == "socket:["+strconv.FormatUint(inode, 10)+"]"
}

// processes returns the pids of all.
func processes() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// anyAgent reports whether anything of an agent runs, or whether that cannot be
// told.
func anyAgent() bool {
	self := os.Getpid()
	pids, err := processes()
	for _, pid := range pids {
		if pid != self && fromAgent(pid) {
			if _, err := statOf(pid); err == nil { // and has not ended meanwhile
				return true
			}
		}
	}
	return err != nil
}
