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

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// canTell reports whether the process at the other end of a connection can be
// identified in a way that an agent cannot evade. That requires supervisors,
// which adopt processes that lose their parent. Supervisors require pidfds and
// run on Linux only.
var canTell = procinfo.HasPidfds()

// judgeCaller reports whether our user connected to our unix socket, and
// whether an agent did. A caller that has ended counts as an agent, because an
// agent may hold its end of the connection while another process has its pid.
func judgeCaller(c *net.UnixConn) (ours, agent bool) {
	p, err := procinfo.Caller(c)
	if err != nil {
		return false, true
	}
	defer p.Close()
	if p.UID != os.Geteuid() {
		return false, true
	}
	return true, fromAgent(p.Pid) || p.Verify() != nil
}

// isAgentProcess reports whether the process at the other end of c belongs, or
// may belong, to an agent. It also returns true if a process on this machine
// has reset the connection.
func isAgentProcess(c *net.TCPConn) bool {
	here, there := addressOf(c.LocalAddr()), addressOf(c.RemoteAddr())
	return agentAt(here, there) || onThisMachine(there.Addr()) && !connected(c)
}

// agentAt reports whether the process at the other end of a TCP connection
// belongs to an agent. It finds the socket, the process that holds the socket,
// and the ancestors of that process.
//
// If the socket is on this machine and no holder can be found, agentAt returns
// true if the holder may be an agent. That is the case if the socket is already
// closed, since an agent need not wait for the answer, or if mayBeAgents
// returns true.
func agentAt(here, there netip.AddrPort) bool {
	sock, err := findSocket(there, here)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return onThisMachine(there.Addr())
	case err != nil: // for example no free file descriptors, which an agent may have caused
		return onThisMachine(there.Addr()) && anyAgent()
	case sock.inode == 0:
		return true
	}
	for range 3 {
		pid, link := holders.find(sock.inode)
		if pid == 0 {
			break
		}
		if pid == os.Getpid() {
			return false // the server's own calls are not an agent's
		}
		if agent, sure := judgeHolder(pid, link, sock.inode); sure {
			return agent
		}
	}
	return mayBeAgents(sock.uid)
}

// judgeHolder reports whether a process belongs to an agent, and whether the
// result is reliable: the process holds the socket, and its pid was not reused
// during the check.
func judgeHolder(pid int, link string, inode uint64) (agent, sure bool) {
	h, err := procinfo.OpenHandle(pid)
	if err != nil {
		return false, false
	}
	defer h.Close()
	agent = fromAgent(pid)
	return agent, agent || holds(link, inode) && !h.Ended()
}

// holders finds processes by the sockets that they hold.
var holders holderCache

// A holderCache remembers the last callers and their descriptors. Browsers
// connect repeatedly, and a program that opens thousands of connections usually
// has the next descriptor near the last one. Such callers are found without
// reading all processes.
type holderCache struct {
	mu     sync.Mutex
	recent []holder // newest first; at most one per process
}

type holder struct{ pid, fd int }

func (h holder) link() string {
	return "/proc/" + strconv.Itoa(h.pid) + "/fd/" + strconv.Itoa(h.fd)
}

const (
	holdersKept = 8
	fdsBefore   = 32  // descriptors below the last one that are checked without reading the directory
	fdsAfter    = 128 // the last descriptor and those above it, likewise
)

// find returns a process that holds a socket, and the path of its descriptor.
// It returns pid 0 if it finds no holder among the processes whose descriptors
// we may read.
func (c *holderCache) find(inode uint64) (pid int, link string) {
	c.mu.Lock()
	recent := slices.Clone(c.recent)
	c.mu.Unlock()
	for _, h := range recent {
		for fd := max(0, h.fd-fdsBefore); fd < h.fd+fdsAfter; fd++ {
			if near := (holder{h.pid, fd}); holds(near.link(), inode) {
				return c.found(near)
			}
		}
	}
	for _, h := range recent {
		if h, ok := heldBy(h.pid, inode); ok {
			return c.found(h)
		}
	}
	pids, _ := procinfo.Pids()
	for _, pid := range slices.Backward(pids) { // a new caller is usually one of the newest processes
		if h, ok := heldBy(pid, inode); ok {
			return c.found(h)
		}
	}
	return 0, ""
}

func (c *holderCache) found(h holder) (pid int, link string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent = slices.DeleteFunc(c.recent, func(old holder) bool { return old.pid == h.pid })
	c.recent = slices.Insert(c.recent, 0, h)
	c.recent = c.recent[:min(len(c.recent), holdersKept)]
	return h.pid, h.link()
}

// heldBy returns the descriptor with which pid holds a socket. It returns false
// if there is none or the descriptors cannot be read.
func heldBy(pid int, inode uint64) (holder, bool) {
	d, err := os.Open("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		return holder{}, false
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range slices.Backward(names) {
		fd, err := strconv.Atoi(name)
		if h := (holder{pid, fd}); err == nil && holds(h.link(), inode) {
			return h, true
		}
	}
	return holder{}, false
}

func holds(link string, inode uint64) bool {
	to, err := os.Readlink(link)
	return err == nil && to == "socket:["+strconv.FormatUint(inode, 10)+"]"
}

// anyAgent reports whether a process of an agent runs. It also returns true if
// that cannot be determined.
func anyAgent() bool { return mayBeAgents(os.Geteuid()) }

// mayBeAgents reports whether an agent may hold a socket that a process of this
// user opened, if no holder of the socket can be found. An agent can run
// processes of other users, by newuidmap or sudo, and these hide their
// descriptors. The rules are:
//
//   - A socket of our user, or of a user that newuidmap can map for our user,
//     may be an agent's while any agent runs.
//   - A socket of another user may be an agent's if an agent runs a process of
//     that user. It may also be an agent's if an agent runs and that user has
//     no other process, because the process that opened the socket must have
//     changed its user.
//   - A socket of root is not counted as an agent's unless our user is root,
//     because root can do everything anyway.
//
// A process of which nothing can be read counts as an agent's, because any
// process of our user can lower our limits so that no file opens.
func mayBeAgents(uid int) bool {
	ours := uid == os.Geteuid() || subordinate(uid)
	if uid == 0 && !ours {
		return false
	}
	self, err := procinfo.Lineage(os.Getpid())
	if err != nil {
		return true
	}
	agents, others := false, false
	pids, err := procinfo.Pids()
	for _, pid := range pids {
		if pid == self[0].Pid {
			continue
		}
		its := procinfo.Owner(pid) == uid
		if !fromAgentOf(self, pid) {
			others = others || its
		} else if _, err := procinfo.ReadStat(pid); !procinfo.IsGone(err) { // it has not ended meanwhile
			if ours || its {
				return true
			}
			agents = true
		}
	}
	return err != nil || agents && !others
}
