package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/procinfo"
)

// ErrNone means that no supervisor to take over from is running.
var ErrNone = errors.New("supervisor: none is running")

// Attach takes over an agent from its supervisor. It returns the agent, and all
// input and output since its last turn began. redact is as in proc.Command. It
// returns ErrNone if no supervisor is running. After any other error the caller
// calls End.
func Attach(k Takeover, redact func([]byte) []byte) (Agent, *Backlog, error) {
	r, err := k.read()
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errDamaged):
		return nil, nil, ErrNone
	case err != nil:
		return nil, nil, err
	case !r.alive(), k.isCopy(r):
		return nil, nil, ErrNone
	case r.Version != version:
		return nil, nil, fmt.Errorf("supervisor: version %d, not %d", r.Version, version)
	case procinfo.Supervised(r.Supervisor.Pid):
		return nil, nil, errors.New("supervisor: started by an agent")
	case !procinfo.Supervises(r.Supervisor.Pid, k.Name):
		return nil, nil, errors.New("supervisor: of another conversation")
	}
	c, err := k.dial()
	if err != nil {
		return nil, nil, err
	}
	ch, b, err := takeOver(c, r, redact)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return ch, b, nil
}

func takeOver(c *net.UnixConn, r Record, redact func([]byte) []byte) (*child, *Backlog, error) {
	if err := checkListener(c, r.Supervisor.Pid); err != nil {
		return nil, nil, err
	}
	_ = c.SetDeadline(time.Now().Add(4 * takeoverTime))
	g := greeting{Version: version, Nonce: r.Nonce, Keeps: canKeep()}
	w, files, err := greet(c, g)
	if err != nil {
		return nil, nil, err
	}
	defer files.close()
	_ = c.SetDeadline(time.Time{})
	if !w.Whole {
		return nil, nil, errors.New("supervisor: the turn was too long to be kept")
	}
	notes := io.NewSectionReader(file(files[notesFile]), notesStart, w.Notes-notesStart)
	b, err := readBacklog(bufio.NewReader(notes), file(files[spoolFile]), w.End)
	if err != nil {
		return nil, nil, err
	}
	out, err := openOutput(files, g.Keeps, b.From, w.End)
	if err != nil {
		return nil, nil, err
	}
	b.Note = w.Note
	if w.Holds {
		b.Held = os.NewFile(uintptr(files.take(heldFile)), "")
	}
	ch := newChild(proc.Command{Redact: redact}, c, out)
	ch.supervisor, ch.pid, ch.mark, ch.fence, ch.kept = r.Supervisor, w.Pid, w.Mark, w.Fence, true
	ch.sent, ch.taken, ch.limits = w.Sent, w.Sent, w.Limits
	ch.run()
	return ch, b, nil
}

// endTime bounds how long a supervisor may take to end its agent after a
// SIGTERM.
const endTime = 8 * time.Second

// End ends the supervisor that k names with its agent and all descendants, or
// the processes that it left behind. It returns nil if none exist. It ends nothing
// because of a record that came into k.Dir with a copy of another directory.
func End(k Takeover) error {
	r, err := k.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, errDamaged) {
		k.remove("")
		return nil
	}
	if err != nil {
		return err
	}
	if k.isCopy(r) {
		k.remove(r.Nonce)
		return nil
	}
	if r.alive() && !procinfo.Supervised(r.Supervisor.Pid) {
		if err := r.endSupervisor(); err != nil {
			return err
		}
	}
	left, err := 0, error(nil)
	if r.Boot == procinfo.BootID() {
		left, err = proc.Leftovers{Mark: r.Mark, Fence: r.Fence}.End()
	}
	if left > 0 {
		err = fmt.Errorf("supervisor: %d processes could not be ended", left)
	}
	k.remove(r.Nonce)
	return err
}

// endSupervisor asks the supervisor to end, and kills it if it does not.
func (r Record) endSupervisor() error {
	fd, err := unix.PidfdOpen(r.Supervisor.Pid, 0)
	if err != nil {
		return nil // it has ended meanwhile
	}
	defer unix.Close(fd)
	if !r.alive() || !isSupervisor(r.Supervisor.Pid) { // checked after pidfd_open, so that the id cannot be reused
		return nil
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
			return nil
		}
		if ends(fd, endTime) {
			return nil
		}
		// Kill its descendants first; without the supervisor they could not be
		// found.
		left, err := proc.Leftovers{Mark: r.Mark, Fence: r.Fence, Under: r.Supervisor}.End()
		if left > 0 || err != nil {
			return errors.Join(err, fmt.Errorf("supervisor: %d processes below process %d could not be ended", left, r.Supervisor.Pid))
		}
	}
	return fmt.Errorf("supervisor: process %d does not end", r.Supervisor.Pid)
}

// ends waits for the end of a process and reports whether it ended in time.
func ends(pidfd int, within time.Duration) bool {
	deadline := time.Now().Add(within)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if n > 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return true
		}
	}
}
