package proc

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// maxPipe exceeds the capacity of any pipe. Everything that the child wrote
// before its exit is within that.
const maxPipe = 1 << 20

var errNothingThere = errors.New("nothing to read now")

// output is our end of a child's stdout.
type output interface {
	io.Reader

	// takeOver is called after the child's exit. From then on the end of the
	// output is detected without a reader.
	takeOver()

	// ended returns a channel that is closed at the end of the output.
	ended() <-chan struct{}

	// detach ends the output after what was written so far. It reports whether
	// a process still held the other end open.
	detach() (held bool)
}

func newOutput(f *os.File, share bool) output {
	if share {
		return newShared(f)
	}
	return newStdout(f)
}

// stdout is the read end of the child's output. Its reader may be slow or
// absent, and an unknown process may hold the other end open. Therefore, after
// the exit, the contents of the pipe are moved to memory and the pipe is
// closed. The reader then reads from memory.
type stdout struct {
	end      chan struct{} // closed when the pipe is: at EOF, or by detach
	detached chan struct{} // closed by detach at its end

	mu   sync.Mutex // held while reading the pipe
	f    *os.File
	rest []byte // moved from the pipe; precedes the contents of the pipe
	shut bool   // f is closed
}

func newStdout(f *os.File) *stdout {
	return &stdout{f: f, end: make(chan struct{}), detached: make(chan struct{})}
}

func (s *stdout) ended() <-chan struct{} { return s.end }

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
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) { // detach is taking the pipe
		s.mu.Unlock()
		<-s.detached
		s.mu.Lock()
		return s.fromRest(p)
	}
	s.close() // after any error there is no more output
	return 0, io.EOF
}

func (s *stdout) fromRest(p []byte) (int, error) {
	if len(s.rest) == 0 {
		s.rest = nil
		if s.shut {
			return 0, io.EOF
		}
		return 0, nil
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// takeOver empties the pipe if no read is in progress, so that the end of the
// pipe is detected without a reader.
func (s *stdout) takeOver() {
	if s.mu.TryLock() {
		defer s.mu.Unlock()
		s.drain()
	}
}

// detach moves the contents of the pipe to memory and closes it. It reports
// whether the other end was still open.
func (s *stdout) detach() (held bool) {
	defer close(s.detached)
	if !s.mu.TryLock() { // a read is in progress and may block forever
		if err := s.f.SetReadDeadline(time.Unix(1, 0)); err != nil {
			s.f.Close() // on a system whose pipes have no deadlines
		}
		s.mu.Lock()
		s.f.SetReadDeadline(time.Time{})
	}
	defer s.mu.Unlock()
	s.drain()
	held = !s.shut
	s.close()
	return held
}

// drain moves the contents of the pipe to rest without waiting. It stops after
// maxPipe bytes, so that it returns even if a process keeps writing.
func (s *stdout) drain() {
	var buf [16 << 10]byte
	for got := 0; !s.shut && got < maxPipe; {
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
	if !s.shut {
		s.shut = true
		s.f.Close()
		close(s.end)
	}
}
