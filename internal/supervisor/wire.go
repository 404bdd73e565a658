package supervisor

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/runnel-dev/runnel/internal/proc"
)

// version is that of everything that two programs of different age must agree
// on: frames, record and spool. A supervisor of another version is ended, not
// taken over.
const version = 1

// A frame is its kind, the length of its payload in four bytes, and that
// payload. Besides the frames there is, in the other direction of the agent's
// output, a second socket with nothing but that.
type kind byte

// The kinds of frames.
const (
	kindHello kind = 'H' // both ways, first: greeting or welcome, JSON
	kindLine  kind = 'L' // to the agent: after, in eight bytes, and the line
	kindBegin kind = 'B' // a turn begins: after, in eight bytes, and the Checkpoint, JSON
	kindClose kind = 'C' // close the agent's input after what was sent
	kindStop  kind = 'S' // a proc.Ladder, JSON
	kindQuit  kind = 'Q' // nobody needs the spool any more
	kindTaken kind = 'T' // from the supervisor: how many bytes of lines the agent has taken, in eight bytes
	kindExit  kind = 'X' // from the supervisor, last: exitReport, JSON
)

const (
	headSize = 5
	// maxFrame is the longest line that an agent is sent, and its offset.
	maxFrame = 64<<20 + 8
)

// greeting is the first frame of whoever connects.
type greeting struct {
	Version int      `json:"version"`
	Nonce   string   `json:"nonce"`
	Start   *toStart `json:"start,omitempty"` // of the first one: what to run
}

type toStart struct {
	Command proc.Command `json:"command"` // without Redact
	Dir     string       `json:"dir"`     // Keep
	Name    string       `json:"name"`
	Window  int64        `json:"window"` // nanoseconds
}

// welcome answers a greeting. After it, on a takeover, come the descriptors of
// the output and of the spool.
type welcome struct {
	Refused string        `json:"refused,omitempty"`
	Failed  *startFailure `json:"failed,omitempty"`
	Pid     int           `json:"pid,omitempty"` // the agent's
	Mark    string        `json:"mark,omitempty"`
	Fence   string        `json:"fence,omitempty"`
	Kept    bool          `json:"kept"`  // the supervisor can be found again
	Spool   int64         `json:"spool"` // bytes of it that precede the output
	Whole   bool          `json:"whole"` // the spool is: it holds what passed since the last Begin
	Sent    int64         `json:"sent"`  // bytes of lines so far
}

// startFailure is a proc.StartError on its way.
type startFailure struct {
	Program string        `json:"program"`
	Reason  proc.Reason   `json:"reason"`
	Errno   syscall.Errno `json:"errno"`
	Text    string        `json:"text"`
}

func packFailure(err error) *startFailure {
	start, ok := errors.AsType[*proc.StartError](err)
	if !ok {
		return &startFailure{Reason: proc.Failed, Text: err.Error()}
	}
	f := &startFailure{Program: start.Program, Reason: start.Reason}
	if !errors.As(start.Err, &f.Errno) && start.Err != nil {
		f.Text = start.Err.Error()
	}
	return f
}

func (f *startFailure) unpack() error {
	err := &proc.StartError{Program: f.Program, Reason: f.Reason}
	switch {
	case f.Errno != 0:
		err.Err = f.Errno
	case f.Text != "":
		err.Err = errors.New(f.Text)
	}
	return err
}

// An exitReport says how the agent ended.
type exitReport struct {
	Status proc.ExitStatus `json:"status"`
	Lost   string          `json:"lost,omitempty"` // why the status is not known
	Stderr string          `json:"stderr"`
}

func appendFrame(to []byte, k kind, payload ...[]byte) []byte {
	size := 0
	for _, p := range payload {
		size += len(p)
	}
	to = binary.BigEndian.AppendUint32(append(to, byte(k)), uint32(size))
	for _, p := range payload {
		to = append(to, p...)
	}
	return to
}

func appendJSON(to []byte, k kind, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		b = nil // our own types all have a form; the other side refuses a frame without one
	}
	return appendFrame(to, k, b)
}

func offset(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// cutOffset takes the offset off the front of a payload.
func cutOffset(p []byte) (n int64, rest []byte, err error) {
	if len(p) < 8 {
		return 0, nil, errors.New("supervisor: frame is too short")
	}
	return int64(binary.BigEndian.Uint64(p)), p[8:], nil
}

// readFrame reads one frame. The payload is the caller's.
func readFrame(r io.Reader) (kind, []byte, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxFrame {
		return 0, nil, fmt.Errorf("supervisor: frame of %d bytes is too long", size)
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, err
	}
	return kind(head[0]), payload, nil
}
