package supervisor

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/rawio"
)

// kept is an output that this process reads without the supervisor. It copies
// the output from the agent's socket to the spool before it takes the output
// from the socket, so a process that is killed loses nothing. What a killed
// process had copied and not taken is in both places. The supervisor removes it
// from the socket: see server.recoverOutput.
//
// A pipe instead of the socket could be spliced to the spool in one step. But
// other processes of the same user can open a pipe, and print into it.
type kept struct {
	socket *net.UnixConn
	raw    syscall.RawConn // that of socket

	mu     sync.Mutex // guards the following fields
	closed bool       // the descriptors, including socket, are closed
	spool  int
	// input is the supervisor's end of the agent's input. It keeps the input open
	// if the supervisor is killed. Otherwise a process of the agent that the
	// system does not kill with the supervisor could read the end of its input,
	// and print that its work was cancelled, before it is killed.
	input int
	state []byte // the first page of the notes, which the supervisor shares
	rest  []byte // what Read still returns after closed is set

	begun   int64 // position in the output at which the last turn began
	end     int64 // position up to which the output was taken
	removed int64 // position up to which this process has removed output from the spool

	// The argument and results of try, which is stored so that Read allocates no
	// closure. They are used by Read only.
	try func(socket uintptr) (done bool)
	p   []byte
	n   int
	err error
}

func newKept(socket *net.UnixConn, raw syscall.RawConn, files descriptors, state []byte, begun, end int64) *kept {
	k := &kept{
		socket: socket, raw: raw, spool: files.take(spoolFile), input: files.take(inputFile),
		state: state, begun: begun, end: end,
	}
	k.try = func(socket uintptr) bool {
		k.n, k.err = k.take(int(socket), k.p)
		return !errors.Is(k.err, unix.EAGAIN)
	}
	return k
}

// Read implements io.Reader. It must not be called concurrently.
func (k *kept) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	k.p, k.n = p, 0
	_ = k.raw.Read(k.try) // fails if the socket is closed
	if k.p = nil; k.n > 0 {
		return k.n, nil
	}
	k.release()
	return k.takeRest(p)
}

func (k *kept) takeRest(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// take copies what the socket has to the spool, and then takes it from the
// socket. It never waits: with nothing in the socket it returns EAGAIN, and 0
// at the end of the output.
func (k *kept) take(socket int, p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, err := rawio.Receive(uintptr(socket), p, unix.MSG_PEEK)
	if n == 0 || err != nil {
		return 0, err
	}
	if _, err := rawio.WriteAt(uintptr(k.spool), p[:n], k.end); err != nil {
		return 0, err
	}
	k.end += int64(n)
	for at := 0; at < n; {
		some, err := rawio.Receive(uintptr(socket), p[at:n], 0)
		if some == 0 || err != nil {
			return 0, errors.Join(errors.New("supervisor: the socket has less than it showed"), err)
		}
		at += some
	}
	taken(k.state).Store(k.end)
	k.removeOld()
	return n, nil
}

// removeOld removes output from the spool, in large pieces, if the turn is
// longer than a spool may be. Such a turn cannot be taken over. The caller
// holds k.mu.
func (k *kept) removeOld() {
	if k.end-k.begun <= maxSpool {
		return
	}
	page := int64(os.Getpagesize())
	from, to := max(k.removed, k.begun/page*page), k.end/page*page
	if to-from >= removeSize && removePages(k.spool, from, to) == nil {
		k.removed = to
	}
}

// removeSize is how much output is removed at once, in bytes.
const removeSize = 1 << 20

// removePages gives back the memory of a part of a spool, whose size stays.
func removePages(spool int, from, to int64) error {
	return unix.Fallocate(spool, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
}

func (k *kept) begin(after int64) (lost int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begun = after
	return k.removed
}

func (k *kept) cut() { _ = k.socket.CloseRead() } // what the socket holds can still be read

func (k *kept) release() {
	k.cut()
	_ = k.raw.Control(func(socket uintptr) { // fails if it is closed
		buf := make([]byte, relaySize)
		for {
			n, err := k.take(int(socket), buf)
			if n == 0 || err != nil {
				return
			}
			k.mu.Lock()
			k.rest = append(k.rest, buf[:n]...)
			k.mu.Unlock()
		}
	})
	_ = k.Close()
}

// Close implements io.Closer. It returns when this process no longer takes
// output.
func (k *kept) Close() error {
	err := k.socket.Close() // waits for take
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.closed = true
		descriptors{k.spool, k.input}.close()
		_ = unix.Munmap(k.state)
	}
	return err
}

// mapState maps the first page of the notes.
func mapState(notes int) ([]byte, error) {
	return unix.Mmap(notes, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// taken is the position in the output up to which a server has taken the output
// from the socket. It is behind the truth for a moment after the server has
// taken more; the socket then shows that nothing is copied and not taken.
func taken(state []byte) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&state[0])) }

// canKeep reports whether this process may read an agent's output without the
// supervisor. Other processes must not be able to open its descriptors, because
// an agent could then write into the spool of another one. They can open those
// of a process that the system may dump.
func canKeep() bool {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable == 1 {
		return false
	}
	var limit unix.Rlimit // a spool only grows, and the system would end a process that exceeds the limit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil || limit.Cur != unix.RLIM_INFINITY {
		return false
	}
	return peeks()
}

// peeks reports whether the system can show what a socket holds, and says how
// much of that it has shown.
var peeks = sync.OnceValue(func() bool {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer descriptors(pair[:]).close()
	if countShown(pair[0]) != nil {
		return false
	}
	if _, err := unix.Write(pair[1], []byte("xyz")); err != nil {
		return false
	}
	n, err := rawio.Receive(uintptr(pair[0]), make([]byte, 2), unix.MSG_PEEK)
	return n == 2 && err == nil && shown(pair[0]) == 2
})

// countShown makes a socket count the bytes that it has shown and that are
// still in it. It begins at 0.
func countShown(socket int) error {
	return unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0)
}

// shown returns the number of bytes that a socket has shown and that are still
// in it.
func shown(socket int) int {
	n, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEEK_OFF)
	if err != nil {
		return 0 // unreachable: the socket counts
	}
	return max(n, 0)
}
