package procinfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Peer is the process that connected or listened on the other end of a unix
// socket. The system reports this process for the life of the connection, even
// after it has ended and another process holds its end. The pid may have been
// reused by then, so call [Peer.Verify] after every conclusion from the pid.
type Peer struct {
	Pid int
	UID int // effective user when it connected or began to listen

	// Unsure is true if the system has no peer handles (Linux before 6.5). The
	// handle then refers to the current process with this pid.
	Unsure bool

	// MayHide is set before Verify by a caller that expects one of our own
	// programs, which hide their descriptors. It matters only if Unsure is set.
	MayHide bool

	handle Handle
	socket uint64 // inode of the peer's end; zero unless Verify must check its holders
}

// Caller returns the process that connected to a socket that this process
// accepted. The caller of Caller must close the Peer.
func Caller(c *net.UnixConn) (*Peer, error) {
	p, err := peerOf(c)
	if err != nil || !p.Unsure {
		return p, err
	}
	if p.socket, err = socketOfPeer(c); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Listener returns the process that listens on the socket to which this process
// has connected. The caller of Listener must close the Peer.
func Listener(c *net.UnixConn) (*Peer, error) { return peerOf(c) }

func peerOf(c *net.UnixConn) (*Peer, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var p *Peer
	if cerr := rc.Control(func(fd uintptr) { p, err = peerOfSocket(int(fd)) }); cerr != nil {
		return nil, cerr
	}
	return p, err
}

func peerOfSocket(fd int) (*Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("ask who is at the other end of a socket: %w", err)
	}
	if cred.Pid <= 0 {
		return nil, errors.New("the process at the other end of a socket is outside this pid namespace")
	}
	p := &Peer{Pid: int(cred.Pid), UID: int(cred.Uid)}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch {
	case err == nil:
		p.handle = Handle{pidfd}
		return p, nil
	case errors.Is(err, unix.ENOPROTOOPT):
		p.Unsure = true
		p.handle, err = OpenHandle(p.Pid)
		return p, err
	}
	return nil, fmt.Errorf("the process at the other end of a socket is gone: %w", err)
}

// Close releases the peer.
func (p *Peer) Close() { p.handle.Close() }

var (
	errPeerEnded = errors.New("the process that opened the connection has ended")
	errPeerHides = errors.New("the process that opened the connection does not show that it holds it")
	errPeerAgent = errors.New("an agent holds the connection, too")
	errPeerInner = errors.New("the process that opened the connection is in a container, or cannot be checked")
)

// Verify returns an error if p.Pid may have referred to another process than
// the peer at any time since p was created. Call it after the last use of the
// pid.
//
// It also returns an error for a process in an inner pid namespace, because the
// ancestors of such a process do not show who started it: see [IsInner].
//
// Before Linux 6.5 it also returns an error for a [Caller] that does not hold
// its end of the connection or hides its descriptors, and if a process under a
// supervisor also holds that end. A process under a supervisor that hides its
// descriptors counts as a holder.
func (p *Peer) Verify() error {
	if p.socket != 0 {
		if err := p.checkHolders(); err != nil {
			return err
		}
	}
	if inner, err := IsInner(p.Pid); inner || err != nil {
		return errPeerInner
	}
	if p.handle.Ended() {
		return errPeerEnded
	}
	return nil
}

func (p *Peer) checkHolders() error {
	held, err := HoldsSocket(p.Pid, p.socket)
	hides := errors.Is(err, fs.ErrPermission) && Owner(p.Pid) == p.UID
	if !held && !(hides && p.MayHide) {
		return errPeerHides
	}
	for range holderScans {
		if again, err := p.scanHolders(); err != nil || !again {
			return err
		}
	}
	return errPeerAgent
}

// holderScans is how often checkHolders scans again because a possible holder
// ended during the scan.
const holderScans = 5

// scanHolders returns an error if a process under a supervisor holds the
// connection. again is true if a process ended before its ancestors were read.
func (p *Peer) scanHolders() (again bool, err error) {
	pids, err := Pids()
	if err != nil {
		return false, err
	}
	for _, pid := range pids {
		if pid == p.Pid || !MayHold(pid, p.socket) {
			continue
		}
		line, err := Lineage(pid)
		switch {
		case IsGone(err):
			again = true
		case err != nil, belowSupervisor(line):
			return false, errPeerAgent
		}
	}
	return again, nil
}

// MayHold reports whether a process may have a descriptor of the socket with
// this inode: it has one, or it is our user's and hides its descriptors, or the
// check failed, for example for lack of descriptors. The system hides the
// descriptors of a process that is ending, too: MayHold waits a little until it
// has ended and has none. A process whose first thread has ended looks like one
// that is ending, so MayHold checks its other threads.
func MayHold(pid int, inode uint64) bool {
	for range endingChecks {
		held, empty, err := holdsSocket(fdDir(pid), inode)
		if held || err == nil && !empty || IsGone(err) {
			return held
		}
		owner := Owner(pid)
		if owner != os.Geteuid() && (owner >= 0 || errors.Is(err, fs.ErrPermission)) {
			return false
		}
		st, failed := ReadStat(pid)
		if IsGone(failed) || st.Dead {
			return false
		}
		if !st.Ending {
			return err != nil // it shows that it has no descriptors, or it hides them
		}
		if may, sure := threadsMayHold(pid, inode); sure || err == nil {
			return may
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

// endingChecks is how often MayHold checks a process that is ending, one
// millisecond apart.
const endingChecks = 100

// threadsMayHold reports whether a thread of a process, except the first, may
// have a descriptor of the socket with this inode. Threads can have different
// descriptors. sure is false if there is no other thread, or if one is ending.
func threadsMayHold(pid int, inode uint64) (may, sure bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	d, err := os.Open(dir)
	if err != nil {
		return false, false
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil || len(names) < 2 {
		return false, false
	}
	sure = true
	for _, name := range names {
		if name == strconv.Itoa(pid) {
			continue
		}
		held, _, err := holdsSocket(dir+"/"+name+"/fd", inode)
		switch {
		case held:
			return true, true
		case err == nil || IsGone(err):
			continue
		}
		var buf [statSize]byte
		stat, err := ReadFile(pid, "task/"+name+"/stat", buf[:])
		if err != nil {
			sure = sure && IsGone(err)
		} else if st, err := ParseStat(stat); err == nil && !st.Ending {
			return true, true // it hides its descriptors
		} else {
			sure = false
		}
	}
	return false, sure
}

// Owner returns the effective user of a process, or -1 if it cannot be read.
func Owner(pid int) int {
	var buf [statSize]byte
	data, err := ReadFile(pid, "status", buf[:])
	if err != nil {
		return -1
	}
	return parseOwner(data)
}

// HoldsSocket reports whether a process has a descriptor of the socket with
// this inode. It returns fs.ErrPermission if the process hides its descriptors.
func HoldsSocket(pid int, inode uint64) (bool, error) {
	held, _, err := holdsSocket(fdDir(pid), inode)
	return held, err
}

func fdDir(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/fd" }

// holdsSocket reports whether one of the descriptors in dir is a socket with
// this inode, and whether there are no descriptors.
func holdsSocket(dir string, inode uint64) (held, empty bool, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return false, false, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return false, false, err
	}
	want := "socket:[" + strconv.FormatUint(inode, 10) + "]"
	for _, name := range names {
		if to, err := os.Readlink(dir + "/" + name); err == nil && to == want {
			return true, false, nil
		}
	}
	return false, len(names) == 0, nil
}

// socketOfPeer returns the inode of the other end of c.
func socketOfPeer(c *net.UnixConn) (inode uint64, err error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	if cerr := rc.Control(func(fd uintptr) {
		var st syscall.Stat_t
		if err = syscall.Fstat(int(fd), &st); err == nil {
			inode, err = askForPeer(uint32(st.Ino))
		}
	}); cerr != nil {
		return 0, cerr
	}
	if err == nil && inode == 0 {
		err = errors.New("the other end of the socket is closed")
	}
	return inode, err
}

// The required constants of linux/unix_diag.h.
const (
	sockDiagByFamily = 20
	unixDiagRequest  = 24
	unixDiagAnswer   = 16 // before its attributes
	unixDiagShowPeer = 4
	unixDiagPeer     = 2 // the attribute
	anyState         = 1<<32 - 1
)

// askForPeer asks the kernel for the inode of a unix socket's peer.
func askForPeer(inode uint32) (uint64, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("ask for the peer of a socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return 0, err
	}
	q := make([]byte, unix.NLMSG_HDRLEN+unixDiagRequest)
	ne := binary.NativeEndian
	ne.PutUint32(q[0:], uint32(len(q)))
	ne.PutUint16(q[4:], sockDiagByFamily)
	ne.PutUint16(q[6:], unix.NLM_F_REQUEST)
	b := q[unix.NLMSG_HDRLEN:]
	b[0] = unix.AF_UNIX
	ne.PutUint32(b[4:], anyState)
	ne.PutUint32(b[8:], inode)
	ne.PutUint32(b[12:], unixDiagShowPeer)
	ne.PutUint64(b[16:], 1<<64-1) // no cookie: match any socket with this inode
	if err := unix.Sendto(fd, q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask for the peer of a socket: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, fmt.Errorf("ask for the peer of a socket: %w", err)
	}
	return parsePeer(answer[:n])
}

// parsePeer returns the peer attribute in the kernel's answer.
func parsePeer(answer []byte) (inode uint64, err error) {
	ne := binary.NativeEndian
	if len(answer) < unix.NLMSG_HDRLEN+4 {
		return 0, errors.New("ask for the peer of a socket: a short answer")
	}
	body := answer[unix.NLMSG_HDRLEN:]
	if ne.Uint16(answer[4:]) == unix.NLMSG_ERROR {
		return 0, fmt.Errorf("ask for the peer of a socket: %w", unix.Errno(-int32(ne.Uint32(body))))
	}
	if len(body) < unixDiagAnswer {
		return 0, errors.New("ask for the peer of a socket: a short answer")
	}
	for attrs := body[unixDiagAnswer:]; len(attrs) >= unix.NLA_HDRLEN; {
		size := int(ne.Uint16(attrs))
		if size < unix.NLA_HDRLEN || size > len(attrs) {
			break
		}
		if ne.Uint16(attrs[2:]) == unixDiagPeer && size >= unix.NLA_HDRLEN+4 {
			return uint64(ne.Uint32(attrs[unix.NLA_HDRLEN:])), nil
		}
		attrs = attrs[min(len(attrs), (size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
	return 0, errors.New("ask for the peer of a socket: the socket has no peer")
}
