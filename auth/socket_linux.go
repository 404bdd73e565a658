package auth

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A socket is the kernel's information about a TCP socket.
type socket struct {
	inode   uint64 // zero once its process has closed it
	uid     int
	listens bool // it listens and is not an end of a connection
}

// findSocket returns the end of a connection on this machine that has the
// address local. If there is none, the error is fs.ErrNotExist. The addresses
// may belong to another connection by now, so the caller must call [connected]
// last. findSocket asks the kernel for this socket; if the kernel does not
// support that, it reads the list of all sockets.
func findSocket(local, remote netip.AddrPort) (socket, error) {
	s, err := askKernel(local, remote, false)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	return readTable(local, remote)
}

// connected reports whether c is still a connection: the other end has not
// reset it, but may have closed its direction. While it returns true, no other
// connection has had the same addresses.
func connected(c *net.TCPConn) bool {
	rc, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var info *unix.TCPInfo
	cerr := rc.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	return cerr == nil && err == nil && (info.State == unix.BPF_TCP_ESTABLISHED || info.State == unix.BPF_TCP_CLOSE_WAIT)
}

// onThisMachine reports whether an address belongs to this machine. It also
// returns true if that cannot be determined.
func onThisMachine(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(its net.Addr) bool {
		own, err := netip.ParsePrefix(its.String())
		return err == nil && own.Addr().Unmap() == a
	})
}

// findListener returns the socket that listens at an address, or at that port
// on all addresses of this machine. If there is none, the error is
// fs.ErrNotExist.
func findListener(at netip.AddrPort) (socket, error) {
	none := func(a netip.Addr) netip.AddrPort {
		if a.Is4() {
			return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
		}
		return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	s, err := askKernel(at, none(at.Addr()), true)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	for _, a := range []netip.Addr{at.Addr(), netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if s, err = readTable(netip.AddrPortFrom(a, at.Port()), none(a)); err == nil {
			return s, nil
		}
	}
	return s, err
}

// Parts of linux/inet_diag.h.
const (
	sockDiagByFamily = 20
	diagRequestLen   = 56
	diagAnswerLen    = 72
	diagState        = 1 // offset in the answer, as are the two below
	diagUID          = 64
	diagInode        = 68
	anyState         = 1<<32 - 1
)

// askKernel asks the kernel for a socket with these addresses: a listening one,
// or one end of a connection. It also asks for an IPv6 socket with an IPv4
// address, because a server can accept IPv4 connections on an IPv6 socket.
func askKernel(local, remote netip.AddrPort, listens bool) (socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return socket{}, fmt.Errorf("ask for a socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return socket{}, err
	}
	families := []uint8{unix.AF_INET, unix.AF_INET6}
	if !local.Addr().Is4() {
		families = families[1:]
	}
	for _, family := range families {
		s, err := ask(fd, family, local, remote)
		if err == nil && s.listens == listens || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	return socket{}, fs.ErrNotExist
}

func ask(fd int, family uint8, local, remote netip.AddrPort) (socket, error) {
	q := make([]byte, unix.NLMSG_HDRLEN+diagRequestLen)
	ne := binary.NativeEndian
	ne.PutUint32(q[0:], uint32(len(q)))
	ne.PutUint16(q[4:], sockDiagByFamily)
	ne.PutUint16(q[6:], unix.NLM_F_REQUEST)
	b := q[unix.NLMSG_HDRLEN:]
	b[0], b[1] = family, unix.IPPROTO_TCP
	ne.PutUint32(b[4:], anyState)
	binary.BigEndian.PutUint16(b[8:], local.Port())
	binary.BigEndian.PutUint16(b[10:], remote.Port())
	copy(b[12:28], addressBytes(family, local.Addr()))
	copy(b[28:44], addressBytes(family, remote.Addr()))
	for i := 48; i < 56; i++ {
		b[i] = 0xff // any socket cookie
	}
	if err := unix.Sendto(fd, q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return socket{}, fmt.Errorf("ask for a socket: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < unix.NLMSG_HDRLEN+4 {
		return socket{}, fmt.Errorf("ask for a socket: %w", errors.Join(err, errors.New("no answer")))
	}
	body := answer[unix.NLMSG_HDRLEN:n]
	if ne.Uint16(answer[4:]) == unix.NLMSG_ERROR {
		errno := unix.Errno(-int32(ne.Uint32(body)))
		return socket{}, fmt.Errorf("ask for a socket: %w", errno) // ENOENT matches fs.ErrNotExist
	}
	if len(body) < diagAnswerLen {
		return socket{}, errors.New("ask for a socket: a short answer")
	}
	if body[diagState] == unix.BPF_TCP_SYN_SENT { // the connection is not established yet
		return socket{}, fs.ErrNotExist
	}
	return socket{uint64(ne.Uint32(body[diagInode:])), int(ne.Uint32(body[diagUID:])), body[diagState] == unix.BPF_TCP_LISTEN}, nil
}

func addressBytes(family uint8, a netip.Addr) []byte {
	if family == unix.AF_INET {
		return a.AsSlice()
	}
	b := a.As16() // an IPv4 address becomes an IPv4-mapped IPv6 address
	return b[:]
}

// readTable looks up a socket in /proc/net/tcp and /proc/net/tcp6.
func readTable(local, remote netip.AddrPort) (socket, error) {
	want := func(family uint8) string { return tableAddress(family, local) + " " + tableAddress(family, remote) }
	tables := map[string]string{"/proc/net/tcp6": want(unix.AF_INET6)}
	if local.Addr().Is4() {
		tables["/proc/net/tcp"] = want(unix.AF_INET)
	}
	found := false
	for name, addresses := range tables {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		found = true
		s, ok := scanTable(bufio.NewScanner(f), addresses)
		f.Close()
		if ok {
			return s, nil
		}
	}
	if !found {
		return socket{}, errors.New("the system has no list of sockets")
	}
	return socket{}, fs.ErrNotExist
}

// States in /proc/net/tcp of sockets that are not an end of a connection.
const (
	tableListening  = "0A"
	tableConnecting = "02"
)

// scanTable reads lines such as
//
//	0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 12345 …
func scanTable(lines *bufio.Scanner, addresses string) (s socket, ok bool) {
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[1]+" "+f[2] != addresses || f[3] == tableConnecting {
			continue
		}
		uid, err := strconv.Atoi(f[7])
		inode, err2 := strconv.ParseUint(f[9], 10, 64)
		return socket{inode, uid, f[3] == tableListening}, err == nil && err2 == nil
	}
	return s, false
}

// tableAddress formats an address as in /proc/net/tcp: each 32-bit word as a
// number in the byte order of this machine.
func tableAddress(family uint8, ap netip.AddrPort) string {
	b := slices.Clone(addressBytes(family, ap.Addr()))
	for i := 0; i+4 <= len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	return strings.ToUpper(hex.EncodeToString(b)) + fmt.Sprintf(":%04X", ap.Port())
}
