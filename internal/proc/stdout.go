package proc

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// maxPipe is more than any pipe holds: what the child wrote before it exited is
// within that.
const maxPipe = 1 << 20

var errNothingThere = errors.New("nothing to read now")

// stdout is the read end of the child's output. Its reader may be slow or gone,
// and the other end may be held open by a process that we cannot find: so,
// after the exit, what the pipe holds is taken over into memory, to be read
// from there at leisure, and the pipe is closed.
type stdout struct {
	end      chan struct{} // closed when the pipe is: at EOF, or by detach
	detached chan struct{} // closed by detach at its end

	mu    sync.Mutex // held while reading the pipe
	f     *os.File
	rest  []byte // taken over; comes before what the pipe holds
	ended bool   // f is closed
}

func newStdout(f *os.File) *stdout {
	return &stdout{f: f, end: make(chan struct{}), detached: make(chan struct{})}
}

func (s *stdout) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, err := s.fromRest(p); n > 0 || err != nil {
		return n, err
	}
	n, err := s.f.Read(p)
	if n > 0 {
		return n, nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) { // detach wants the pipe
		s.mu.Unlock()
		<-s.detached
		s.mu.Lock()
		return s.fromRest(p)
	}
	s.close() // whatever the error: there will be no more
	return 0, io.EOF
}

func (s *stdout) fromRest(p []byte) (int, error) {
	if len(s.rest) == 0 {
		s.rest = nil
		if s.ended {
			return 0, io.EOF
		}
		return 0, nil
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// takeOver empties the pipe if nobody is reading it, so that its end is seen
// without a reader.
func (s *stdout) takeOver() {
	if s.mu.TryLock() {
		defer s.mu.Unlock()
		s.drain()
	}
}

// detach takes over what the pipe holds and closes it. It reports whether the
// pipe had not ended.
func (s *stdout) detach() (held bool) {
	defer close(s.detached)
	if !s.mu.TryLock() { // someone reads, perhaps for ever
		if err := s.f.SetReadDeadline(time.Unix(1, 0)); err != nil {
			s.f.Close() // on a system whose pipes have no deadlines
		}
		s.mu.Lock()
		s.f.SetReadDeadline(time.Time{})
	}
	defer s.mu.Unlock()
	s.drain()
	held = !s.ended
	s.close()
	return held
}

// drain moves what the pipe holds to rest without waiting. A child still
// writing does not keep it here.
func (s *stdout) drain() {
	var buf [16 << 10]byte
	for got := 0; !s.ended && got < maxPipe; {
		n, err := readNow(s.f, buf[:])
		got += n
		s.rest = append(s.rest, buf[:n]...)
		switch {
		case errors.Is(err, errNothingThere):
			return
		case err != nil || n == 0:
			s.close()
		}
	}
}

func (s *stdout) close() {
	if !s.ended {
		s.ended = true
		s.f.Close()
		close(s.end)
	}
}
