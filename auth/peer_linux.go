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

// canTell is whether the process at the other end can be recognised in a way
// that an agent cannot evade: what loses its parent falls to a supervisor.
// Without pidfds there are no supervisors, as on systems other than Linux.
var canTell = procinfo.HasPidfds()

// judgeCaller reports whether our user connected to our unix socket, and
// whether an agent did. It takes a caller that has ended for an agent: an agent
// may hold its end of the connection, and another process may have its pid.
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

// agentBehind reports whether the process at the other end of c belongs to an
// agent, or may: it does, too, if a process on this machine has reset the
// connection.
func agentBehind(c *net.TCPConn) bool {
	here, there := addressOf(c.LocalAddr()), addressOf(c.RemoteAddr())
	return agentAt(here, there) || onThisMachine(there.Addr()) && !connected(c)
}

// agentAt reports whether the process at the other end of a TCP connection
// belongs to an agent. It finds the socket, then who holds it, then that one's
// ancestors. Where the socket is on this machine and its holder cannot be
// found, it is taken for an agent's if it may be: it has been closed already,
// which an agent may do that does not care for the answer, or it is our user's
// and there are agents.
func agentAt(here, there netip.AddrPort) bool {
	sock, err := findSocket(there, here)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return onThisMachine(there.Addr())
	case err != nil: // such as no file descriptors left: an agent may have brought that about
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
			return false // we do not call ourselves for an agent
		}
		if agent, sure := judgeHolder(pid, link, sock.inode); sure {
			return agent
		}
	}
	return mayBeAgents(sock.uid)
}

// judgeHolder reports whether a process belongs to an agent, and whether that
// is sure: the process holds the socket, and its pid named no other one
// meanwhile.
func judgeHolder(pid int, link string, inode uint64) (agent, sure bool) {
	h, err := procinfo.OpenHandle(pid)
	if err != nil {
		return false, false
	}
	defer h.Close()
	agent = fromAgent(pid)
	return agent, agent || holds(link, inode) && !h.Ended()
}

// holders finds processes by the sockets they hold.
var holders holderCache

// A holderCache remembers who called last, and with which descriptor: a browser
// comes again and again, and a program that opens thousands of connections has
// the next one near the last. They are found without a look at everyone else.
type holderCache struct {
	mu     sync.Mutex
	recent []holder // newest first; of a process only one
}

type holder struct{ pid, fd int }

func (h holder) link() string {
	return "/proc/" + strconv.Itoa(h.pid) + "/fd/" + strconv.Itoa(h.fd)
}

const (
	holdersKept = 8
	fdsBefore   = 32 // looked at without reading the directory
	fdsAfter    = 128
)

// find returns the pid of a process that holds a socket, and where its
// descriptor is; zero if there is none that we may look into.
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
	for _, pid := range slices.Backward(pids) { // who came last calls first, as a rule
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

// heldBy finds the descriptor with which pid holds a socket; it reports false
// if there is none, or if the process cannot be looked into.
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

// anyAgent reports whether anything of an agent runs, or whether that cannot be
// told.
func anyAgent() bool { return mayBeAgents(os.Geteuid()) }

// mayBeAgents reports whether an agent may have a socket that a process of this
// user opened, and of which no holder can be found. An agent can run processes
// of other users (by newuidmap or sudo), which do not show what they hold:
//
//   - A socket of our user, or of a user that newuidmap makes of ours, may be an
//     agent's while an agent runs.
//   - A socket of another user may be an agent's if an agent runs a process of
//     that user. It may be, too, while an agent runs and that user has no other
//     process: whoever opened the socket has changed its user since.
//   - Root can do everything anyway.
//
// A process of which nothing can be read counts as an agent's: any process of
// our user can lower our limits, so that no file opens.
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
		} else if _, err := procinfo.ReadStat(pid); !procinfo.IsGone(err) { // and has not ended meanwhile
			if ours || its {
				return true
			}
			agents = true
		}
	}
	return err != nil || agents && !others
}
