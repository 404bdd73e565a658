package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/wake"
)

// A journal is a file of events that are shown and not decided. One write of a
// batch takes a fraction of the time of a transaction, and the events survive
// the end of the process just as well.
//
// Every transaction first inserts the events of the journal into the database.
// The file is then written again from its start. If the process ends before
// that, the next one inserts the events when it opens the store.
//
// A file that is written again is not shortened, so behind its records there
// may be older ones. Records of one stretch have a generation in common, by
// which readers tell them from older ones.
type journal struct {
	file       journalFile
	id         string       // of the log; the records of another log are ignored
	generation uint64       // of the records written now
	size       int64        // of these records, in bytes
	buf        []byte       // of the next record
	pending    []pendingRow // the events in these records, in the order of the file
	spoiled    bool         // a failed write may have left a record that nobody was told of
	begun      wake.Signal  // holds a token after the first event became pending
}

// A journalFile is the file of a journal. Tests let its calls fail.
type journalFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

// A pendingRow is an event that is in the journal and not yet in the database.
type pendingRow struct {
	row
	log  int64 // logs.key
	turn any   // turns.key, or nil
}

// Bounds of the events that wait in the journal. They bound how long the
// transaction takes that inserts them, and the disk space that it needs.
const (
	journalEvents = 1000
	journalBytes  = 512 << 10
)

// keptBuffer is the largest buffer, in bytes, that a journal reuses.
const keptBuffer = 64 << 10

// A record is a batch of events:
//
//	sum         uint32  Castagnoli checksum of the log id and of all that follows
//	generation  uint64
//	size        uint32  of the events, in bytes
//	events
//
// An event has its position (uvarint), session, turn, seconds since 1970
// (varint) and nanoseconds (uvarint), and payload. The length of a text or a
// payload comes before it (uvarint).
const (
	sumBytes          = 4
	generationBytes   = 8
	sizeBytes         = 4
	recordHeaderBytes = sumBytes + generationBytes + sizeBytes
)

func journalPath(dir string) string { return filepath.Join(dir, "runnel.journal") }

// openJournal opens the journal in dir and inserts its events into the
// database.
func (s *Store) openJournal(ctx context.Context, dir string, open func(path string) (journalFile, error)) error {
	path := journalPath(dir)
	if err := createFile(path); err != nil {
		return err
	}
	file, err := open(path)
	if err != nil {
		return dirError(dir, err)
	}
	data, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<62))
	if err != nil {
		return errors.Join(fmt.Errorf("%w: read the journal: %w", errDisk, err), file.Close())
	}
	w := s.writer
	evs, rest := readJournal(w.id, data)
	if journalDamaged(w.id, data, rest) {
		s.log.Error("the journal is damaged; events that were shown shortly before the server ended are lost", slog.Int("kept", len(evs)))
	}
	j := &journal{file: file, id: w.id, begun: wake.New()}
	if len(evs) > 0 {
		err = s.submit(ctx, &job{strong: true, closing: true, do: func(w *writer) error { return w.restore(evs) }})
	}
	if err == nil {
		// Flushed, because a record that comes back after a power loss could
		// follow events that it does not belong to.
		err = j.wipe()
	}
	if err != nil { // the next Open tries again
		return errors.Join(err, file.Close())
	}
	w.journal = j // from here on the writer closes it
	return nil
}

func openFile(path string) (journalFile, error) { return os.OpenFile(path, os.O_RDWR, 0o600) }

// restore appends the events that the log lacks. Of events that do not follow
// the end of a log, nothing before them can be known any more: a power loss has
// taken the transaction that had them.
func (w *writer) restore(evs []event.Event) error {
	for _, ev := range evs {
		p, err := w.position(ev.Session)
		if err != nil {
			return err
		}
		if p.key == 0 || ev.Seq != p.head+1 {
			continue
		}
		r, err := encode(ev)
		if err != nil {
			return err
		}
		if err := w.append(ev.Session, p.head, []row{r}); err != nil {
			return err
		}
	}
	return nil
}

// keep writes the events of all jobs into the journal. It reports false, and
// has done nothing, if a transaction has to write them instead.
func (w *writer) keep(batch []*job) bool {
	j := w.journal
	if j == nil || w.failed != nil || j.spoiled || w.inPlace() != nil {
		return false
	}
	pending, bytes := len(j.pending), 0
	for i, job := range batch {
		if bytes += job.bytes + len(job.rows)*overhead; j.size+int64(bytes) > journalBytes || len(j.pending)+len(job.rows) > journalEvents || !w.stage(job) {
			w.unstage(batch[:i], pending)
			return false
		}
	}
	j.encode(j.pending[pending:])
	if n, err := j.file.WriteAt(j.buf, j.size); err != nil || n != len(j.buf) {
		j.spoiled = true
		w.unstage(batch, pending)
		return false
	}
	if j.size += int64(len(j.buf)); cap(j.buf) > keptBuffer {
		j.buf = nil
	}
	for _, job := range batch {
		job.kept = true
	}
	if pending == 0 {
		j.begun.Send()
	}
	return true
}

// stage adds the events of a job to the pending ones. It reports false if that
// takes more than inserting rows: a log, a turn, an end, a flush or a refusal.
func (w *writer) stage(j *job) bool {
	p := w.known[j.session]
	if j.strong || len(j.rows) == 0 || p == nil || p.key == 0 || p.head != j.head {
		return false
	}
	for _, r := range j.rows {
		if _, open := p.open[r.Turn]; r.Turn != "" && !open {
			return false
		}
	}
	for _, r := range j.rows {
		var turn any
		if r.Turn != "" {
			turn = p.open[r.Turn]
		}
		w.journal.pending = append(w.journal.pending, pendingRow{r, p.key, turn})
	}
	p.head += int64(len(j.rows))
	return true
}

// unstage undoes stage for these jobs.
func (w *writer) unstage(jobs []*job, pending int) {
	for _, j := range jobs {
		w.known[j.session].head -= int64(len(j.rows))
	}
	clear(w.journal.pending[pending:])
	w.journal.pending = w.journal.pending[:pending]
}

// fold inserts the pending events into the database, in the transaction that
// runs.
func (w *writer) fold() error {
	if w.journal == nil {
		return nil
	}
	for _, r := range w.journal.pending {
		if err := w.insert(r.log, r.turn, r.row); err != nil {
			return err
		}
	}
	return nil
}

// folded begins the journal again after the transaction that has its events.
func (w *writer) folded() error {
	j := w.journal
	if j == nil {
		return nil
	}
	if j.spoiled {
		if err := j.wipe(); err != nil {
			return err
		}
	}
	if len(j.pending) > 0 {
		clear(j.pending)
		j.pending, j.size, j.generation = j.pending[:0], 0, rand.Uint64()
		w.inserted()
	}
	return nil
}

// closeJournal inserts the pending events into the database and closes the
// journal.
func (w *writer) closeJournal() error {
	j := w.journal
	if j == nil {
		return nil
	}
	var errs []error
	if w.failed == nil && !j.empty() {
		if err := w.transact(nil); !isFull(err) {
			errs = append(errs, err)
		}
	}
	if w.failed == nil && j.empty() {
		errs = append(errs, j.wipe())
	}
	return errors.Join(append(errs, j.file.Close())...)
}

// empty reports whether all events are in the database.
func (j *journal) empty() bool { return j == nil || len(j.pending) == 0 }

// wipe removes the content of the file. No event may be pending.
func (j *journal) wipe() error {
	if err := errors.Join(j.file.Truncate(0), j.file.Sync()); err != nil {
		return fmt.Errorf("%w: empty the journal: %w", errDisk, err)
	}
	j.size, j.spoiled, j.generation = 0, false, rand.Uint64()
	return nil
}

// encode writes a record with these events into the buffer.
func (j *journal) encode(rows []pendingRow) {
	b := binary.LittleEndian.AppendUint64(append(j.buf[:0], 0, 0, 0, 0), j.generation)
	b = append(b, 0, 0, 0, 0)
	for _, r := range rows {
		b = binary.AppendUvarint(b, uint64(r.Seq))
		b = appendText(b, r.Session)
		b = appendText(b, r.Turn)
		b = binary.AppendVarint(b, r.At.Unix()) // of the zero time, too
		b = binary.AppendUvarint(b, uint64(r.At.Nanosecond()))
		b = appendText(b, r.payload)
	}
	binary.LittleEndian.PutUint32(b[sumBytes+generationBytes:], uint32(len(b)-recordHeaderBytes))
	binary.LittleEndian.PutUint32(b, recordSum(j.id, b[sumBytes:]))
	j.buf = b
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func recordSum(id string, rest []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(id), castagnoli), castagnoli, rest)
}

// readJournal returns the events in the data of a journal, and what follows the
// last whole record of the newest generation.
func readJournal(id string, data []byte) (evs []event.Event, rest []byte) {
	var generation []byte
	for {
		r, n := firstRecord(id, data)
		if n == 0 || generation != nil && !bytes.Equal(r[:generationBytes], generation) {
			return evs, data
		}
		generation = r[:generationBytes]
		batch, err := decodeRecord(r[generationBytes+sizeBytes:])
		if err != nil { // impossible for a record that we wrote
			return evs, data
		}
		evs, data = append(evs, batch...), data[n:]
	}
}

// firstRecord returns the record at the start of data without its checksum, and
// its length with the checksum. The length is 0 if there is no whole record.
func firstRecord(id string, data []byte) (record []byte, n int) {
	if len(data) < recordHeaderBytes {
		return nil, 0
	}
	size := binary.LittleEndian.Uint32(data[sumBytes+generationBytes:])
	if int64(size) > int64(len(data)-recordHeaderBytes) {
		return nil, 0
	}
	n = recordHeaderBytes + int(size)
	if record = data[sumBytes:n]; recordSum(id, record) != binary.LittleEndian.Uint32(data) {
		return nil, 0
	}
	return record, n
}

// journalDamaged reports whether a record that was written whole follows the last one
// that can be read. A record that was being written when the process ended is
// the last of its generation.
func journalDamaged(id string, data, rest []byte) bool {
	if len(data) < recordHeaderBytes {
		return false
	}
	generation := data[sumBytes : sumBytes+generationBytes]
	for len(rest) > recordHeaderBytes {
		rest = rest[1:]
		at := bytes.Index(rest[sumBytes:], generation)
		if at < 0 {
			return false
		}
		rest = rest[at:]
		if _, n := firstRecord(id, rest); n > 0 {
			return true
		}
	}
	return false
}

func decodeRecord(data []byte) (evs []event.Event, err error) {
	d := recordDecoder{data: data}
	for len(d.data) > 0 && d.err == nil {
		ev := event.Event{Seq: int64(d.uvarint()), Session: string(d.bytes()), Turn: string(d.bytes())}
		if at := time.Unix(d.varint(), int64(d.uvarint())).UTC(); !at.IsZero() {
			ev.At = at
		}
		payload := d.bytes()
		if d.err == nil {
			ev.Body, d.err = event.UnmarshalBody(payload)
		}
		evs = append(evs, ev)
	}
	return evs, d.err
}

// A recordDecoder reads the fields of events. After the first error it returns
// zero values.
type recordDecoder struct {
	data []byte
	err  error
}

var errRecord = errors.New("sqlite: an invalid record in the journal")

func (d *recordDecoder) skip(n int) {
	if n <= 0 {
		d.data, d.err = nil, errRecord
		return
	}
	d.data = d.data[n:]
}

func (d *recordDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.data)
	d.skip(n)
	return v
}

func (d *recordDecoder) varint() int64 {
	v, n := binary.Varint(d.data)
	d.skip(n)
	return v
}

func (d *recordDecoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.data)) {
		d.data, d.err = nil, errRecord
		return nil
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}
