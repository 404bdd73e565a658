package proc

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// shared is a child's stdout that other processes read. This process only
// detects its end, and ends it.
type shared struct {
	f   *os.File // a socket
	end chan struct{}
}

func newShared(f *os.File) output { return &shared{f: f, end: make(chan struct{})} }

func (s *shared) Read([]byte) (int, error) { return 0, io.EOF }

func (s *shared) file() *os.File { return s.f }

func (s *shared) ended() <-chan struct{} { return s.end }

func (s *shared) takeOver() { go s.await() }

func (s *shared) await() {
	s.hungUp(-1)
	close(s.end)
}

// detach makes the socket end after what it holds. Its reader still receives
// that. A write by a process that still holds the other end fails.
func (s *shared) detach() (held bool) {
	held = !s.hungUp(0)
	_ = unix.Shutdown(int(s.f.Fd()), unix.SHUT_RD) // it fails if the other end is closed
	<-s.end
	return held
}

// hungUp reports whether nothing more can be written to the other end. It waits
// for that at most timeout milliseconds, or without bound if timeout is
// negative.
func (s *shared) hungUp(timeout int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.f.Fd()), Events: unix.POLLRDHUP}}, timeout)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}
