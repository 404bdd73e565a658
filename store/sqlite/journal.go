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
	"github.com/runnel-dev/runnel/internal/rawio"
	"github.com/runnel-dev/runnel/internal/wake"
)

// A journal is a file of events that need not survive a power loss: those for
// which [event.Decides] is false. To write a batch into the journal takes a
// fraction of the time of a transaction. The events survive the end of the
// process in both cases.
//
// Every transaction first inserts the events of the journal into the database.
// After the commit, the writer overwrites the file from its start. If the
// process ends before the commit, the next process inserts the events when it
// opens the store.
//
// The writer overwrites the file without truncating it, so older records may
// follow the current ones. Each time the writer starts again at the start of
// the file, it chooses a new random generation and stores it in every record. A
// record with another generation than the first record is an older one.
type journal struct {
	file       journalFile
	id         string // of the log; the records of another log are ignored
	summed     string // the id of which idSum is the checksum
	idSum      uint32
	generation uint64       // of the records written now
	size       int64        // size of these records in bytes, which is also the offset of the next record
	buf        []byte       // buffer for one record; reused
	pending    []pendingRow // the events in these records, in the order of the file
	spoiled    bool         // the next transaction must wipe the file: it may have a record that was not acknowledged, or a deleted session
	wiped      bool         // the file is empty, also after a power loss
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
	log  any // logs.key
	turn any // turns.key, or nil
}

// Bounds of the events in the journal. They limit the time and the disk space
// that the transaction needs to insert these events.
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
// The fields of an event are: position (uvarint), session, turn, seconds since
// 1970 (varint), nanoseconds (uvarint), payload. Session, turn and payload are
// preceded by their length (uvarint).
const (
	sumBytes          = 4
	generationBytes   = 8
	sizeBytes         = 4
	recordHeaderBytes = sumBytes + generationBytes + sizeBytes
)

func journalPath(dir string) string { return filepath.Join(dir, "runnel.journal") }

// openJournal opens the journal in dir, inserts its events into the database,
// and claims the store for this boot of the system.
func (s *Store) openJournal(ctx context.Context, dir string, open func(path string) (journalFile, error), boot string) error {
	path := journalPath(dir)
	if err := createFile(path); err != nil {
		return err
	}
	if err := s.writer.files.add(path); err != nil {
		return dirError(dir, err)
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
	damaged := journalDamaged(w.id, data, rest)
	if damaged {
		s.log.Error("the journal is damaged; events that were shown shortly before the server ended are lost", slog.Int("kept", len(evs)))
	}
	j := &journal{file: file, id: w.id, begun: wake.New()}
	if len(evs) > 0 {
		err = s.submit(ctx, &job{strong: true, closing: true, do: func(w *writer) error { return w.restore(evs) }})
	}
	if err == nil {
		// Before wipe, which removes the evidence of damage.
		err = s.claim(ctx, boot, damaged)
	}
	if err == nil {
		j.id = w.id
		// wipe flushes the empty file. Otherwise a power loss could bring old
		// records back, and the next Open could append their events to a log
		// that has continued with other events.
		err = j.wipe()
	}
	if err != nil { // the next Open tries again
		return errors.Join(err, file.Close())
	}
	w.journal = j // from now on the writer closes the file
	return nil
}

func openFile(path string) (journalFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return rawio.NewFile(f), nil
}

// restore appends the events that the database lacks. It skips an event that
// does not directly follow the end of its log: the log already has the event,
// the session was deleted, or a power loss removed the events before it.
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

// keep writes the events of all jobs into the journal. It returns false, and
// leaves the pending events unchanged, if the caller must write the events in a
// transaction instead.
func (w *writer) keep(batch []*job) bool {
	j := w.journal
	if j == nil || w.failed != nil || j.spoiled || w.files.check() != nil {
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
	j.wiped = false
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

// stage adds the events of a job to the pending ones. A job needs a transaction
// instead if it creates a log, starts or ends a turn, must be flushed or has
// the wrong head, or if the position of its log is not cached. stage then
// returns false and adds nothing.
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
		w.journal.pending = append(w.journal.pending, pendingRow{r, p.log, turn})
	}
	p.head += int64(len(j.rows))
	return true
}

// unstage undoes stage for these jobs. pending is the number of pending events
// before them.
func (w *writer) unstage(jobs []*job, pending int) {
	for _, j := range jobs {
		w.known[j.session].head -= int64(len(j.rows))
	}
	clear(w.journal.pending[pending:])
	w.journal.pending = w.journal.pending[:pending]
}

// fold inserts the pending events into the database, as part of the current
// transaction.
func (w *writer) fold() error {
	if w.journal == nil {
		return nil
	}
	return w.insertAll(w.journal.pending)
}

// folded is called after the commit of a transaction that ran fold. It resets
// the journal, so that the next record is written to the start of the file.
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
// journal. If the disk is full, the events stay in the journal for the next
// process.
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

// empty reports whether no event is only in the journal.
func (j *journal) empty() bool { return j == nil || len(j.pending) == 0 }

// wipe removes the content of the file. No event may be pending.
func (j *journal) wipe() error {
	if !j.wiped {
		if err := errors.Join(j.file.Truncate(0), j.file.Sync()); err != nil {
			return fmt.Errorf("%w: empty the journal: %w", errDisk, err)
		}
	}
	j.size, j.spoiled, j.wiped, j.generation = 0, false, true, rand.Uint64()
	return nil
}

// encode sets j.buf to a record with these events.
func (j *journal) encode(rows []pendingRow) {
	b := binary.LittleEndian.AppendUint64(append(j.buf[:0], 0, 0, 0, 0), j.generation)
	b = append(b, 0, 0, 0, 0)
	for _, r := range rows {
		b = binary.AppendUvarint(b, uint64(r.Seq))
		b = appendText(b, r.Session)
		b = appendText(b, r.Turn)
		b = binary.AppendVarint(b, r.At.Unix()) // also valid for the zero time
		b = binary.AppendUvarint(b, uint64(r.At.Nanosecond()))
		b = appendText(b, r.payload)
	}
	binary.LittleEndian.PutUint32(b[sumBytes+generationBytes:], uint32(len(b)-recordHeaderBytes))
	if j.summed != j.id {
		j.summed, j.idSum = j.id, idSum(j.id)
	}
	binary.LittleEndian.PutUint32(b, crc32.Update(j.idSum, castagnoli, b[sumBytes:]))
	j.buf = b
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func recordSum(id string, rest []byte) uint32 {
	return crc32.Update(idSum(id), castagnoli, rest)
}

func idSum(id string) uint32 { return crc32.Checksum([]byte(id), castagnoli) }

// readJournal returns the events in the data of a journal, and the data after
// the last whole record of the newest generation.
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

// journalDamaged reports whether rest, the data after the last readable record,
// contains another whole record of the same generation. If it does, the data
// between them is damaged. If it does not, the process ended while it wrote the
// last record, whose events were not acknowledged. If not even the first record
// is readable, its generation is unknown, and any whole record counts.
func journalDamaged(id string, data, rest []byte) bool {
	var generation []byte
	if len(rest) < len(data) {
		generation = data[sumBytes : sumBytes+generationBytes]
	}
	for len(rest) > recordHeaderBytes {
		rest = rest[1:]
		if r, n := firstRecord(id, rest); n > 0 && (generation == nil || bytes.Equal(r[:generationBytes], generation)) {
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
