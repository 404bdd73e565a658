package supervisor

import (
	"encoding/binary"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// notesStart is the position of the first note in its file.
var notesStart = int64(os.Getpagesize())

// relaySize is the maximum number of bytes that relay passes on at once.
const relaySize = 32 << 10

// spool is what a server that takes over reads: all that passed since the last
// turn began. It consists of two files in memory.
//
// One file is the agent's output. A position in the file is the position in the
// output, so its size says how much of the output it has. The file never
// shrinks; the pages of earlier turns are given back. The notes are the other
// file: lines to the agent, times and checkpoints. They follow a page that the
// server which keeps the output writes; see taken.
//
// The caller of its methods holds the supervisor's lock.
type spool struct {
	output *os.File
	notes  *os.File
	max    int64 // maximum size of the notes, and of the output of a turn

	begun int64 // position in the output at which the last turn began
	end   int64 // position up to which the output is here
	lost  int64 // output before this position may be missing
	noted int64 // position at which the notes end
	gaps  bool  // notes of the turn are missing
}

// newSpool returns an empty spool whose turns may have max bytes.
func newSpool(max int64) (*spool, error) {
	output, err := memoryFile(unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	_, err = unix.FcntlInt(output.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK)
	if err != nil {
		output.Close()
		return nil, err
	}
	notes, err := memoryFile(0)
	if err != nil {
		output.Close()
		return nil, err
	}
	s := &spool{output: output, notes: notes, max: max, noted: notesStart}
	if err := notes.Truncate(notesStart); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// memoryFile returns a new file in memory.
func memoryFile(flags int) (*os.File, error) {
	flags |= unix.MFD_CLOEXEC
	fd, err := unix.MemfdCreate("spool", flags|unix.MFD_NOEXEC_SEAL) // some systems require this flag
	if errors.Is(err, unix.EINVAL) {                                 // Linux before 6.3
		fd, err = unix.MemfdCreate("spool", flags)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "spool"), nil
}

func (s *spool) close() {
	s.output.Close()
	s.notes.Close()
}

// whole reports whether the spool has everything since the last turn began.
func (s *spool) whole() bool { return !s.gaps && s.lost <= s.begun && s.end-s.begun <= s.max }

// room reports whether n more bytes of output fit.
func (s *spool) room(n int) bool {
	return s.whole() && s.end-s.begun+int64(n) <= s.max && s.noted+noteSize <= notesStart+s.max
}

// add adds output of the agent. If the turn does not fit, the
// spool no longer has the whole turn, and keeps nothing until the next begins.
func (s *spool) add(p []byte, at time.Time) {
	kept := s.room(len(p))
	if kept {
		_, err := s.output.WriteAt(p, s.end)
		kept = err == nil
	}
	s.end += int64(len(p))
	if !kept {
		s.lost = s.end
		return
	}
	s.note(note{what: noteTime, place: s.end, at: at})
}

// taken returns the position in the output up to which a server has taken the
// output from the socket; see the function of this name.
func (s *spool) taken() int64 {
	var b [8]byte
	if _, err := s.notes.ReadAt(b[:], 0); err != nil {
		return s.end // unreachable: the file has a page
	}
	return int64(binary.NativeEndian.Uint64(b[:]))
}

// resume continues where a server stopped that kept the output itself.
func (s *spool) resume(at time.Time) {
	if info, err := s.output.Stat(); err == nil {
		s.end = max(s.end, info.Size())
	} else {
		s.lost = s.end + s.max // unreachable; the spool would repeat output
	}
	s.note(note{what: noteTime, place: s.end, at: at})
}

// note adds a record to the notes.
func (s *spool) note(n note) {
	if s.gaps {
		return
	}
	b := appendNote(nil, n)
	if s.noted+int64(len(b)) > notesStart+s.max {
		s.gaps = true
		return
	}
	if _, err := s.notes.WriteAt(b, s.noted); err != nil {
		s.gaps = true
		return
	}
	s.noted += int64(len(b))
}

// begin notes the start of a turn and gives back the memory of earlier turns.
// The server has removed output before the position lost.
func (s *spool) begin(point []byte, after, lost int64, at time.Time) {
	page := int64(os.Getpagesize())
	if from, to := s.begun/page*page, after/page*page; from < to { // else the memory stays until a later turn
		_ = removePages(int(s.output.Fd()), from, to)
	}
	s.begun, s.lost = after, max(s.lost, lost)
	s.noted, s.gaps = notesStart, s.notes.Truncate(notesStart) != nil
	s.note(note{what: noteBegin, place: after, at: at, p: point})
}
