package supervisor

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The spool is a file of records. A record has a type, a position in the
// agent's output, a time (Unix nanoseconds), a length, and that many bytes.
const (
	recordSize = 1 + 8 + 8 + 4

	recordOut   = 'o' // output from that position on, split anywhere
	recordIn    = 'i' // a line to the agent; the server had processed the output up to that position
	recordBegin = 'b' // a Checkpoint, with the position as for recordIn
)

// maxSpool bounds a spool, in bytes. The spool drops a turn that is longer.
// While no server is connected, the supervisor stops reading the agent's output
// at this bound.
const maxSpool = 64 << 20

// maxPieces bounds the records and the lines of output in a spool in the same
// way. A server that takes over holds all of them in memory, where a short one
// takes far more than its bytes.
const maxPieces = 2 << 20

// relaySize is the maximum number of bytes that relay passes on at once.
const relaySize = 32 << 10

// file is the storage of a spool.
type file interface {
	io.WriterAt
	io.Closer
	Truncate(int64) error
}

// spool is the writing end of a spool. The caller of its methods holds the
// supervisor's lock.
type spool struct {
	f      file
	fresh  func() (file, error) // creates another such file
	shared bool                 // a server that has taken over may be reading f
	max    int64
	size   int64
	pieces int64 // records, and line ends in the output
	whole  bool  // contains everything since the last Begin, or since the start
	out    int64 // total bytes of output
	buf    []byte
}

func newSpool(f file, fresh func() (file, error), max int64) *spool {
	return &spool{f: f, fresh: fresh, max: max, whole: true}
}

// add appends a record. If the spool cannot be written or is full, add empties
// it and clears whole.
func (s *spool) add(what byte, place int64, at time.Time, p []byte) {
	if !s.whole {
		return
	}
	b := append(s.buf[:0], what)
	b = binary.BigEndian.AppendUint64(b, uint64(place))
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixNano()))
	b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
	b = append(b, p...)
	if cap(b) <= relaySize+recordSize {
		s.buf = b // the buffer of a larger line is freed
	}
	s.pieces++
	if what == recordOut {
		s.pieces += int64(bytes.Count(p, []byte{'\n'}))
	}
	if s.size+int64(len(b)) > s.max || s.pieces > maxPieces {
		s.discard()
		return
	}
	if _, err := s.f.WriteAt(b, s.size); err != nil {
		s.discard()
		return
	}
	s.size += int64(len(b))
}

func (s *spool) discard() {
	s.whole = false
	s.empty()
}

// empty removes all records. If another process may be reading the file, empty
// replaces the file instead. If no new file can be created, the records remain:
// those of the next turn follow them, and readBacklog ignores the earlier ones.
func (s *spool) empty() {
	if !s.shared {
		s.size, s.pieces = 0, 0
		_ = s.f.Truncate(0)
		return
	}
	f, err := s.fresh()
	if err != nil {
		return
	}
	_ = s.f.Close()
	s.f, s.shared, s.size, s.pieces = f, false, 0, 0
}

// room reports whether n more bytes of output fit.
func (s *spool) room(n int) bool {
	return s.whole && s.size+int64(n)+recordSize <= s.max && s.pieces+int64(n)+1 <= maxPieces
}

// output adds output of the agent.
func (s *spool) output(p []byte, at time.Time) {
	s.add(recordOut, s.out, at, p)
	s.out += int64(len(p))
}

// begin records the start of a turn. It first removes all earlier records if
// the server had processed all earlier output.
func (s *spool) begin(point []byte, after int64, at time.Time) {
	if after == s.out {
		s.whole = true
		s.empty()
	}
	s.add(recordBegin, after, at, point)
}

// Line is one line that was sent to or printed by the agent.
type Line struct {
	In   bool // sent to the agent
	At   time.Time
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
}

type record struct {
	what  byte
	place int64
	at    time.Time
	p     []byte
}

// readBacklog reads a spool.
func readBacklog(r io.Reader) (*Backlog, error) {
	records, err := readRecords(bufio.NewReaderSize(r, 1<<20))
	if err != nil {
		return nil, err
	}
	b := new(Backlog)
	first := 0
	for i, rec := range records {
		if rec.what == recordBegin {
			*b = Backlog{Known: true, From: rec.place}
			if err := json.Unmarshal(rec.p, &b.Checkpoint); err != nil {
				return nil, fmt.Errorf("supervisor: spool: %w", err)
			}
			first = i + 1
		}
	}
	if len(records) > 0 && !b.Known {
		b.From = records[0].place
	}
	in, out := divide(records, first, b.From)
	b.weave(in, out)
	return b, nil
}

// divide returns the lines to the agent, from the record with index first on,
// and the output from position from on.
func divide(records []record, first int, from int64) (in, out []record) {
	for i, rec := range records {
		switch {
		case rec.what == recordIn && i >= first:
			in = append(in, rec)
		case rec.what == recordOut && rec.place+int64(len(rec.p)) > from:
			if skip := from - rec.place; skip > 0 {
				rec.p, rec.place = rec.p[skip:], from
			}
			out = append(out, rec)
		}
	}
	return in, out
}

// weave sets b.Lines to the lines of both directions, in the order in which the
// server processed them.
func (b *Backlog) weave(in, out []record) {
	at := b.From
	upTo := func(place int64) {
		for len(in) > 0 && in[0].place <= place {
			b.Lines = append(b.Lines, Line{In: true, At: in[0].at, Text: in[0].p, End: at})
			in = in[1:]
		}
	}
	upTo(at)
	for _, rec := range out {
		for p := rec.p; len(p) > 0; {
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				b.Rest = append(b.Rest, p...)
				break
			}
			line := p[: i+1 : i+1]
			if len(b.Rest) > 0 {
				line = append(b.Rest, line...)
				b.Rest = nil
			}
			at += int64(len(line))
			b.Lines = append(b.Lines, Line{At: rec.at, Text: line, End: at})
			upTo(at)
			p = p[i+1:]
		}
	}
	for _, rec := range in { // unreachable unless the spool is inconsistent
		b.Lines = append(b.Lines, Line{In: true, At: rec.at, Text: rec.p, End: at})
	}
}

func readRecords(r io.Reader) ([]record, error) {
	var records []record
	var head [recordSize]byte
	for {
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) {
			return records, nil
		} else if err != nil {
			return nil, fmt.Errorf("supervisor: spool: %w", err)
		}
		size := binary.BigEndian.Uint32(head[17:])
		if size > maxSpool {
			return nil, errors.New("supervisor: spool: record is too long")
		}
		rec := record{
			what: head[0], place: int64(binary.BigEndian.Uint64(head[1:])),
			at: time.Unix(0, int64(binary.BigEndian.Uint64(head[9:]))), p: make([]byte, size),
		}
		if _, err := io.ReadFull(r, rec.p); err != nil {
			return nil, fmt.Errorf("supervisor: spool: %w", err)
		}
		records = append(records, rec)
	}
}
