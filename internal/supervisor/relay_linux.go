package supervisor

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/rawio"
)

// recoverOutput brings the spool up to date after a server that kept the output
// itself has disconnected. If that server was killed between the two steps of
// kept.take, the spool and the socket have the same bytes. The caller holds
// s.mu.
func (s *server) recoverOutput() {
	s.spool.resume(time.Now())
	socket := int(s.socket.Fd())
	for twice := min(int64(shown(socket)), s.spool.end-s.spool.taken()); twice > 0; {
		n, err := rawio.Receive(uintptr(socket), make([]byte, min(twice, relaySize)), 0)
		if n == 0 || err != nil {
			break // unreachable: it was shown, and only this process reads
		}
		twice -= int64(n)
	}
	_ = countShown(socket) // what was shown and not copied is shown again
}

// openSocket returns the agent's output for a reader in this process.
func (s *server) openSocket() (*os.File, error) {
	fd, err := unix.FcntlInt(s.socket.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "output"), nil
}

// startRelay starts relay unless it is running or the output has ended. The
// caller holds s.mu.
func (s *server) startRelay() {
	if s.relaying != nil || s.drained {
		return
	}
	f, err := s.openSocket()
	if err != nil {
		go s.abandon(proc.Now) // the output cannot be read
		return
	}
	s.relaying = f
	go s.relay(f)
}

// stopRelay returns when relay has ended. The caller holds s.mu, which
// stopRelay releases while it waits.
func (s *server) stopRelay() {
	if s.relaying != nil {
		s.relaying.Close()
		s.halted = true
		s.changed.Broadcast()
	}
	for s.relaying != nil {
		s.changed.Wait()
	}
	s.halted = false
}

// relay adds the agent's output to the spool and passes it to the connected
// server, until the output ends or f is closed.
func (s *server) relay(f *os.File) {
	buf := make([]byte, relaySize)
	var err error
	for err == nil {
		s.await(len(buf))
		var n int
		n, err = f.Read(buf)
		if n > 0 {
			if to := s.addOutput(buf[:n]); to != nil {
				_, _ = to.Write(buf[:n]) // after an error readLoop detects the disconnect, and the spool has the output
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Close()
	s.relaying = nil
	s.changed.Broadcast()
	if errors.Is(err, os.ErrClosed) {
		return
	}
	s.drained = true
	if s.output != nil {
		s.output.Close()
	}
	s.finish()
}

// await returns when n bytes of output can be spooled or passed on, or when
// relay must end.
func (s *server) await(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.output == nil && !s.over && !s.halted && !s.spool.room(n) {
		s.changed.Wait()
	}
}

// addOutput adds output to the spool and returns the connection to which it
// must be written, or nil.
func (s *server) addOutput(p []byte) *net.UnixConn {
	s.trim.note()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spool.add(p, time.Now())
	return s.output
}
