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

// version is the version of frames, record and spool. A server ends a
// supervisor of another version instead of taking it over.
const version = 3

// maxSpool bounds the output of a turn and, separately, its notes, in bytes. A
// longer turn cannot be taken over. While no server is connected, the
// supervisor stops reading the agent's output at this bound.
const maxSpool = 64 << 20

// A frame consists of its kind, the length of its payload in four bytes, and
// the payload. The agent's output has a separate socket and no frames.
type kind byte

// The kinds of frames.
const (
	kindHello kind = 'H' // first frame in both directions: a greeting or a welcome, in JSON
	kindLine  kind = 'L' // to the agent: after, in eight bytes, and the line
	kindBegin kind = 'B' // a turn begins: after and lost (see spool.begin), in eight bytes each, and the Checkpoint, JSON
	kindClose kind = 'C' // close the agent's input after what was sent
	kindStop  kind = 'S' // a proc.Ladder, JSON
	kindQuit  kind = 'Q' // the spool is no longer needed
	kindTaken kind = 'T' // from the supervisor: the number of bytes of lines that the agent has read, in eight bytes
	kindExit  kind = 'X' // from the supervisor, last: exitReport, JSON
)

const (
	headSize = 5
	// maxFrame is the maximum length of a line to the agent plus its offset.
	maxFrame = 64<<20 + 8
)

// greeting is the first frame that a connecting server sends.
type greeting struct {
	Version int      `json:"version"`
	Nonce   string   `json:"nonce"`
	Keeps   bool     `json:"keeps"`           // the server keeps the output itself; else the supervisor relays it
	Start   *toStart `json:"start,omitempty"` // set only by the server that starts the agent
}

type toStart struct {
	Command proc.Command `json:"command"` // its field Redact is not sent
	Dir     string       `json:"dir"`     // Dir, Name and Window are those of Takeover
	Name    string       `json:"name"`
	Window  int64        `json:"window"`         // nanoseconds
	Holds   bool         `json:"holds,omitzero"` // the supervisor has inherited heldFD
}

// welcome answers a greeting. Unless it reports a failure, it comes with
// descriptors.
type welcome struct {
	Refused string        `json:"refused,omitempty"`
	Failed  *startFailure `json:"failed,omitempty"`
	Pid     int           `json:"pid,omitempty"` // process id of the agent
	Mark    string        `json:"mark,omitempty"`
	Fence   string        `json:"fence,omitempty"`
	Limits  proc.Limits   `json:"limits,omitzero"`
	Kept    bool          `json:"kept"`           // the supervisor can be found again
	Whole   bool          `json:"whole"`          // the spool has everything since the last Begin
	Notes   int64         `json:"notes"`          // position at which the notes end in their file
	End     int64         `json:"end"`            // position in the output up to which the spool has it, and at which the output continues
	Sent    int64         `json:"sent"`           // bytes of lines sent to the agent so far
	Holds   bool          `json:"holds,omitzero"` // the last descriptor is heldFile
	Note    string        `json:"note,omitzero"`  // proc.Command.Note, only for a server that takes over
}

// The descriptors of a welcome. It has only the first one if the server that
// starts the agent does not keep the output itself.
const (
	outputFile = iota // socket with the agent's output
	spoolFile         // the output by position; see spool
	notesFile         // the notes
	inputFile         // our end of the agent's input; see kept.input
	allFiles

	heldFile = allFiles // proc.Command.Hold, only for a server that takes over, if there is one
)

// startFailure is the wire form of a proc.StartError.
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

// An exitReport describes how the agent ended.
type exitReport struct {
	Status proc.ExitStatus `json:"status"`
	Lost   string          `json:"lost,omitempty"` // why the status is unknown
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
		b = nil // our own types always marshal; the other side rejects an empty frame
	}
	return appendFrame(to, k, b)
}

func offset(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// cutOffset splits the offset from the start of a payload.
func cutOffset(p []byte) (n int64, rest []byte, err error) {
	if len(p) < 8 {
		return 0, nil, errors.New("supervisor: frame is too short")
	}
	return int64(binary.BigEndian.Uint64(p)), p[8:], nil
}

// readFrame reads one frame. The caller owns the payload.
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
