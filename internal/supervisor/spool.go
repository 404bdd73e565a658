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

// The spool is a file of records: what it is, where in the agent's output it
// belongs, when it passed (Unix nanoseconds), how long it is, and that many
// bytes.
const (
	recordSize = 1 + 8 + 8 + 4

	recordOut   = 'o' // output from that place on, cut anywhere
	recordIn    = 'i' // a line to the agent, made when its output up to that place had been taken account of
	recordBegin = 'b' // a Checkpoint, made as a line is
)

// maxSpool bounds a spool: a turn that is longer than that is not kept, and
// while nobody is there the agent is not read beyond it.
const maxSpool = 64 << 20

// relaySize is how much output is passed on at once.
const relaySize = 32 << 10

// file is what a spool is kept in.
type file interface {
	io.WriterAt
	io.Closer
	Truncate(int64) error
}

// spool is the writing end. It belongs to whoever holds the supervisor's lock.
type spool struct {
	f      file
	fresh  func() (file, error) // another such file
	shared bool                 // whoever takes over may be reading f
	max    int64
	size   int64
	whole  bool  // it holds everything since the last Begin, or since the start
	out    int64 // how much output there was
	buf    []byte
}

func newSpool(f file, fresh func() (file, error), max int64) *spool {
	return &spool{f: f, fresh: fresh, max: max, whole: true}
}

// add appends a record. A spool that cannot be written, or is full, is no
// longer whole, and empty.
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
		s.buf = b // a large line's memory is given back
	}
	if s.size+int64(len(b)) > s.max {
		s.lose()
		return
	}
	if _, err := s.f.WriteAt(b, s.size); err != nil {
		s.lose()
		return
	}
	s.size += int64(len(b))
}

func (s *spool) lose() {
	s.whole = false
	s.empty()
}

// empty forgets what the spool holds. Who may be reading it keeps the file.
func (s *spool) empty() {
	s.size = 0
	if s.shared {
		if f, err := s.fresh(); err == nil {
			_ = s.f.Close()
			s.f, s.shared = f, false
			return
		}
	}
	_ = s.f.Truncate(0)
}

// room reports whether n more bytes of output fit.
func (s *spool) room(n int) bool { return s.whole && s.size+int64(n)+recordSize <= s.max }

// output adds what the agent printed.
func (s *spool) output(p []byte, at time.Time) {
	s.add(recordOut, s.out, at, p)
	s.out += int64(len(p))
}

// begin notes the begin of a turn. What came before is forgotten if all of it
// had been taken account of.
func (s *spool) begin(point []byte, after int64, at time.Time) {
	if after == s.out {
		s.whole = true
		s.empty()
	}
	s.add(recordBegin, after, at, point)
}

// Line is one line that passed between us and the agent.
type Line struct {
	In   bool // to the agent
	At   time.Time
	Text []byte // with its line ending, if that was printed
	End  int64  // how much output had been taken account of when it had, in bytes from the start of the process
}

// Backlog is what passed since the last turn began.
type Backlog struct {
	Known bool // Checkpoint is; else nobody has begun a turn, and the backlog is all that ever passed
	Checkpoint
	From  int64  // place in the output at which Lines begin
	Lines []Line // in the order in which they are to be fed
	Rest  []byte // the line that the agent had not yet ended
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

// divide returns the lines to the agent from the first record on, and the
// output from a place on.
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

// weave puts the lines of both directions in the order in which they were taken
// account of.
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
	for _, rec := range in { // made of what we have as half a line: it cannot be
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
