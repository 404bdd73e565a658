package supervisor

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// spliced is an output that this process reads without the supervisor. It moves
// the output from the agent's socket through a pipe to the spool, and then
// reads it there. If this process is killed at any moment, each byte is in
// exactly one of the three, and the supervisor continues from there. The pipe
// is needed because splice does not move from a socket to a file.
type spliced struct {
	socket *net.UnixConn
	raw    syscall.RawConn // that of socket

	mu     sync.Mutex // guards the following fields
	closed bool       // the descriptors, including socket, are closed
	pipe   [2]int     // read end and write end; empty between two moves
	spool  int
	window window // a part of the spool
	rest   []byte // what Read still returns after closed is set

	begun   int64 // position in the output at which the last turn began
	read    int64 // position up to which Read has returned the output
	end     int64 // position up to which the output was moved to the spool
	removed int64 // position up to which this process has removed output from the spool
}

// maxMove is the maximum number of bytes that are moved at once.
const maxMove = 256 << 10

// Read implements io.Reader.
func (s *spliced) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if n, err := s.take(p); n > 0 || err != nil {
			return n, err
		}
		if !s.fill() {
			s.release()
		}
	}
}

// take copies output that was moved and not read yet. It returns io.EOF if none
// can follow.
func (s *spliced) take(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		n := copy(p, s.rest)
		s.rest = s.rest[n:]
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	n := s.unread(p)
	s.removeOld()
	return n, nil
}

// unread copies from the spool. The caller holds s.mu.
func (s *spliced) unread(p []byte) (n int) {
	for n < len(p) && s.read < s.end {
		some := copy(p[n:], s.window.from(s.spool, s.read, s.end))
		if some == 0 { // the system cannot map the file
			some, _ = unix.Pread(s.spool, p[n:min(int64(len(p)), int64(n)+s.end-s.read)], s.read)
		}
		if some <= 0 {
			break
		}
		n, s.read = n+some, s.read+int64(some)
	}
	return n
}

// fill waits for output and moves it. It returns false at the end of the output
// and if it is closed.
func (s *spliced) fill() (more bool) {
	err := s.raw.Read(func(socket uintptr) (ready bool) {
		n, err := s.move(int(socket))
		more = n > 0
		return !errors.Is(err, unix.EAGAIN)
	})
	return more && err == nil
}

// move moves what the socket has to the spool. It never waits: with nothing in
// the socket it returns EAGAIN, and 0 at the end of the output.
func (s *spliced) move(socket int) (n int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err = splice(socket, s.pipe[1], nil, maxMove)
	for left := n; left > 0; {
		some, err := splice(s.pipe[0], s.spool, &s.end, left)
		if err != nil || some == 0 {
			return 0, errors.Join(errors.New("supervisor: no room in the spool"), err)
		}
		left -= some
	}
	return n, err
}

func splice(from, to int, at *int64, max int64) (int64, error) {
	for {
		n, err := unix.Splice(from, nil, to, at, int(max), unix.SPLICE_F_NONBLOCK)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// removeOld removes output that was read, in large pieces, if the turn is
// longer than a spool may be. Such a turn cannot be taken over. The caller
// holds s.mu.
func (s *spliced) removeOld() {
	if s.end-s.begun <= maxSpool {
		return
	}
	page := int64(os.Getpagesize())
	from, to := max(s.removed, s.begun/page*page), s.read/page*page
	if to-from >= 4*maxMove && removePages(s.spool, from, to) == nil {
		s.removed = to
	}
}

// removePages gives back the memory of a part of a spool, whose size stays.
func removePages(spool int, from, to int64) error {
	return unix.Fallocate(spool, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
}

func (s *spliced) begin(after int64) (lost int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = after
	return s.removed
}

func (s *spliced) cut() { _ = s.socket.CloseRead() } // what the socket holds can still be read

func (s *spliced) release() {
	s.cut()
	_ = s.raw.Control(func(socket uintptr) { // fails if it is closed
		for {
			if n, _ := s.move(int(socket)); n == 0 {
				return
			}
		}
	})
	s.shut(true)
}

// Close implements io.Closer. It returns when this process no longer moves
// output.
func (s *spliced) Close() error {
	s.shut(false)
	return nil
}

// shut closes all descriptors. If keep is set, Read still returns what was
// moved.
func (s *spliced) shut(keep bool) {
	s.socket.Close() // waits for a move
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if keep {
		rest := make([]byte, s.end-s.read)
		s.rest = rest[:s.unread(rest)]
	}
	s.closed = true
	s.window.close()
	for _, fd := range []int{s.pipe[0], s.pipe[1], s.spool} {
		unix.Close(fd)
	}
}

// window is a part of a file that is mapped into memory.
type window struct {
	at int64 // position in the file
	b  []byte
}

// windowSize is the maximum size of a window in bytes, and divides its
// position.
const windowSize = 256 << 10

// from returns the content of a file between two positions, at least one byte,
// and as far as the window reaches. It returns nil if the system cannot map the
// file.
func (w *window) from(fd int, at, end int64) []byte {
	if at < w.at || at >= w.at+int64(len(w.b)) {
		w.close()
		b, err := unix.Mmap(fd, at/windowSize*windowSize, windowSize, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return nil
		}
		w.at, w.b = at/windowSize*windowSize, b
	}
	return w.b[at-w.at : min(end-w.at, int64(len(w.b)))]
}

func (w *window) close() {
	if w.b != nil {
		_ = unix.Munmap(w.b)
	}
	*w = window{}
}

// canReadDirectly reports whether this process may read an agent's output
// without the supervisor. Other processes must not be able to open its
// descriptors, because an agent could then write into the output of another
// one. They can open those of a process that the system may dump.
func canReadDirectly() bool {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable == 1 {
		return false
	}
	var limit unix.Rlimit // a spool only grows, and the system would end a process that exceeds the limit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil || limit.Cur != unix.RLIM_INFINITY {
		return false
	}
	return splices()
}

// splices reports whether the system can move output as spliced does.
var splices = sync.OnceValue(func() bool {
	spool, err := newSpool(maxSpool)
	if err != nil {
		return false
	}
	defer spool.close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	fds := descriptors(pair[:])
	defer func() { fds.close() }()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return false
	}
	fds = append(fds, pipe[:]...)
	if _, err := unix.Write(pair[1], []byte("x")); err != nil {
		return false
	}
	s := spliced{pipe: pipe, spool: int(spool.output.Fd())}
	n, err := s.move(pair[0])
	return n == 1 && err == nil && s.end == 1
})
