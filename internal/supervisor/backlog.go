package supervisor

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Line is one line that was sent to or printed by the agent.
type Line struct {
	In bool // sent to the agent

	// At is the time at which the line was sent, or before which it was
	// printed.
	At time.Time

	Text []byte // with its line ending, if it had one
	End  int64  // the position in the output, in bytes from the start of the process, after this line was processed
}

// Backlog is everything that passed since the last turn began.
type Backlog struct {
	Known bool // Checkpoint is set; else no turn has begun, and the backlog is complete
	Checkpoint
	From  int64  // position in the output at which Lines begins
	Lines []Line // in the order in which they must be replayed
	Rest  []byte // the last output line, if it is incomplete

	Note string   // proc.Command.Note of the agent
	Held *os.File // proc.Command.Hold of the agent, which the caller closes; nil if there was none
}

// The notes are a file of records. A record has a type, a position in the
// agent's output, a time (Unix nanoseconds), a length, and that many bytes.
const (
	noteSize = 1 + 8 + 8 + 4

	noteLine  = 'i' // a line to the agent; the server had processed the output up to that position
	noteBegin = 'b' // a Checkpoint, with the position as for noteLine
	noteTime  = 't' // empty; the output up to that position was printed before that time
)

type note struct {
	what  byte
	place int64
	at    time.Time
	p     []byte
}

func appendNote(to []byte, n note) []byte {
	to = append(to, n.what)
	to = binary.BigEndian.AppendUint64(to, uint64(n.place))
	to = binary.BigEndian.AppendUint64(to, uint64(n.at.UnixNano()))
	to = binary.BigEndian.AppendUint32(to, uint32(len(n.p)))
	return append(to, n.p...)
}

// maxPieces bounds the notes of a turn and its lines of output. The server
// that takes over holds all of them in memory, where a short one takes far more
// than its bytes.
const maxPieces = 2 << 20

// readBacklog reads the notes, and the output up to position end. It fails if
// the turn is too long.
func readBacklog(notes io.Reader, output io.ReaderAt, end int64) (*Backlog, error) {
	b := new(Backlog)
	var lines, times []note
	for pieces := 0; ; pieces++ {
		if pieces > maxPieces {
			return nil, errors.New("supervisor: spool: the turn has too many notes")
		}
		n, err := readNote(notes)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("supervisor: notes: %w", err)
		}
		switch n.what {
		case noteBegin:
			*b, lines = Backlog{Known: true, From: n.place}, nil
			if err := json.Unmarshal(n.p, &b.Checkpoint); err != nil {
				return nil, fmt.Errorf("supervisor: notes: %w", err)
			}
		case noteLine:
			lines = append(lines, n)
		case noteTime:
			times = append(times, n)
		}
	}
	if b.From > end || end-b.From > 2*maxSpool {
		return nil, fmt.Errorf("supervisor: spool: a turn from %d to %d", b.From, end)
	}
	printed := make([]byte, end-b.From)
	if _, err := output.ReadAt(printed, b.From); err != nil && len(printed) > 0 {
		return nil, fmt.Errorf("supervisor: spool: %w", err)
	}
	if bytes.Count(printed, []byte{'\n'}) > maxPieces {
		return nil, errors.New("supervisor: spool: the turn has too many lines")
	}
	b.weave(lines, times, printed)
	return b, nil
}

// readNote returns one record, or io.EOF after the last.
func readNote(r io.Reader) (note, error) {
	var head [noteSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return note{}, err
	}
	size := binary.BigEndian.Uint32(head[17:])
	if size > maxSpool {
		return note{}, errors.New("record is too long")
	}
	n := note{
		what: head[0], place: int64(binary.BigEndian.Uint64(head[1:])),
		at: time.Unix(0, int64(binary.BigEndian.Uint64(head[9:]))), p: make([]byte, size),
	}
	if _, err := io.ReadFull(r, n.p); err != nil {
		return note{}, fmt.Errorf("record is incomplete: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	return n, nil
}

// weave sets b.Lines to the lines of both directions, in the order in which the
// server processed them.
func (b *Backlog) weave(in, times []note, printed []byte) {
	at := b.From
	sent := func(place int64) { // adds what was sent up to place
		for len(in) > 0 && in[0].place <= place {
			b.Lines = append(b.Lines, Line{In: true, At: in[0].at, Text: in[0].p, End: at})
			in = in[1:]
		}
	}
	sent(at)
	for {
		i := bytes.IndexByte(printed, '\n')
		if i < 0 {
			break
		}
		at += int64(i + 1)
		for len(times) > 1 && times[0].place < at {
			times = times[1:]
		}
		l := Line{Text: printed[: i+1 : i+1], End: at}
		if len(times) > 0 {
			l.At = times[0].at
		}
		b.Lines, printed = append(b.Lines, l), printed[i+1:]
		sent(at)
	}
	b.Rest = printed
	for _, n := range in { // unreachable unless the notes are inconsistent
		b.Lines = append(b.Lines, Line{In: true, At: n.at, Text: n.p, End: at})
	}
}
