package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A row is an event in its stored form.
type row struct {
	event.Event // the event as readers receive it
	payload     []byte
	sum         uint32
}

// maxPayload bounds the JSON of one event, in bytes.
const maxPayload = 64 << 20

// Append implements [runnel.Log].
func (s *Store) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	if err := runnel.CheckAppend(session, head, evs); err != nil {
		return err
	}
	a := appends.Get().(*appendJob)
	defer a.release()
	a.store, a.session, a.head = s, session, head
	for _, ev := range evs {
		r, err := encode(ev)
		if err != nil {
			return err
		}
		a.rows = append(a.rows, r)
		a.strong = a.strong || event.Decides(r.Body)
		a.bytes += len(r.payload)
		a.ends = a.ends || event.Ends(r.Body)
	}
	a.closing = len(evs) > 0 && a.bytes <= maxClosing && closes(evs)
	if err := s.submit(ctx, &a.job); err != nil {
		return err
	}
	s.tails.deliver(session)
	return nil
}

// An appendJob is the job of Append.
type appendJob struct {
	job
	store *Store
	ends  bool // a turn ends with the rows
}

// appends are appendJobs for reuse.
var appends = sync.Pool{New: func() any {
	a := new(appendJob)
	a.do, a.committed = a.write, a.shown
	return a
}}

// rowsKept is the largest number of rows for which an appendJob keeps memory.
const rowsKept = 64

// release makes a available for another Append.
func (a *appendJob) release() {
	rows := a.rows[:0]
	clear(a.rows)
	if cap(rows) > rowsKept {
		rows = nil
	}
	a.store, a.ends = nil, false
	a.job = job{do: a.do, committed: a.committed, rows: rows}
	appends.Put(a)
}

func (a *appendJob) write(w *writer) error { return w.append(a.session, a.head, a.rows) }

// shown makes the committed events visible.
func (a *appendJob) shown() {
	a.store.tails.add(a.session, a.rows, a.kept)
	if a.ends {
		a.store.keeper.ended.Send()
	}
}

// encode returns ev in its stored form. The returned body is the one that the
// payload decodes to, so a reader gets the same event from memory and from the
// disk.
func encode(ev event.Event) (row, error) {
	payload, err := event.MarshalBody(ev.Body)
	if err != nil {
		return row{}, runnel.Fail(runnel.InvalidStreamEvent, event.Type(ev.Body)+": cannot be encoded as JSON; report this", err)
	}
	if len(payload) > maxPayload {
		return row{}, runnel.Fail(runnel.PayloadTooLarge, event.Type(ev.Body)+": too large to be stored; send less at once")
	}
	if d, ok := ev.Body.(event.ItemDelta); ok && decodesToItself(d) {
		d.DeltaContent = strings.Clone(d.DeltaContent) // it may be a piece of a long text, which the tails would keep
		ev.Body = d
	} else {
		body, err := event.UnmarshalBody(payload)
		if err != nil {
			return row{}, runnel.Fail(runnel.InvalidStreamEvent, event.Type(ev.Body)+": cannot be decoded again; report this", err)
		}
		ev.Body = body
	}
	ev.At = storedTime(ev.At)
	return row{ev, payload, checksum(ev, payload)}, nil
}

// decodesToItself reports whether a delta is known to equal the result of
// encoding and decoding it. Deltas are the most common bodies; all others are
// decoded again.
func decodesToItself(d event.ItemDelta) bool {
	return utf8.ValidString(d.ItemID) && utf8.ValidString(d.DeltaContent)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers all fields of an event. The lengths separate the
// variable-length parts.
func checksum(ev event.Event, payload []byte) uint32 {
	buf := sums.Get().(*[]byte)
	b := binary.BigEndian.AppendUint64((*buf)[:0], uint64(ev.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(ev.At.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(ev.At.Nanosecond()))
	b = binary.BigEndian.AppendUint64(b, uint64(len(ev.Session)))
	b = binary.BigEndian.AppendUint64(b, uint64(len(ev.Turn)))
	b = append(append(b, ev.Session...), ev.Turn...)
	sum := crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, payload)
	*buf = b
	sums.Put(buf)
	return sum
}

// sums are buffers for checksum.
var sums = sync.Pool{New: func() any { return new([]byte) }}

// encodeTime returns t as nanoseconds since 1970. It encodes the zero time as
// NULL and a time outside the range of int64 nanoseconds as text.
func encodeTime(t time.Time) any {
	switch t = t.UTC(); {
	case t.IsZero():
		return nil
	case t.Year() > 1678 && t.Year() < 2262:
		return t.UnixNano()
	}
	return t.Format(time.RFC3339Nano)
}

// storedTime returns the time that a reader gets for t.
func storedTime(t time.Time) time.Time {
	if y := t.UTC().Year(); !t.IsZero() && y > 1678 && y < 2262 {
		return time.Unix(0, t.UnixNano()).UTC() // as below, without allocation
	}
	return decodeTime(encodeTime(t))
}

func decodeTime(v any) time.Time {
	switch v := v.(type) {
	case int64:
		return time.Unix(0, v).UTC()
	case string:
		t, _ := time.Parse(time.RFC3339Nano, v) // the checksum detects a text that does not parse
		return t
	}
	return time.Time{}
}

// A position is the end of a session's log.
type position struct {
	key  int64 // in logs; 0 if the session has no row yet
	log  any   // key as a parameter of a statement
	head int64
	open map[string]any // turns.key of the turns without a terminal event, by turn id
}

// append adds rows after head. It returns ErrConflict if head is not the end of
// the log.
func (w *writer) append(session string, head int64, rows []row) error {
	p, err := w.position(session)
	if err != nil {
		return err
	}
	if p.head != head {
		return runnel.ErrConflict
	}
	if len(rows) > 0 && p.key == 0 {
		res, err := w.addLog.Exec(session)
		if err != nil {
			return err
		}
		if p.key, err = res.LastInsertId(); err != nil {
			return err
		}
		p.log = p.key
	}
	for _, r := range rows {
		turn, err := w.turn(p, r)
		if err != nil {
			return err
		}
		if err := w.insertAll([]pendingRow{{r, p.log, turn}}); err != nil {
			return err
		}
		p.head = r.Seq
	}
	return nil
}

// position returns the end of the session's log. The caller updates the
// returned value as it writes. If the transaction is rolled back, transact
// clears all cached positions.
func (w *writer) position(session string) (*position, error) {
	if p := w.known[session]; p != nil {
		return p, nil
	}
	p := &position{open: make(map[string]any)}
	switch err := w.findLog.QueryRow(session).Scan(&p.key, &p.head); {
	case err == nil:
		p.log = p.key
		if err := w.readOpen(p); err != nil {
			return nil, err
		}
	case !errors.Is(err, sql.ErrNoRows):
		return nil, err
	}
	if len(w.known) >= maxKnown {
		clear(w.known)
	}
	w.known[session] = p
	return p, nil
}

func (w *writer) readOpen(p *position) error {
	open, err := w.findOpen.Query(p.key)
	if err != nil {
		return err
	}
	defer open.Close()
	for open.Next() {
		var turn string
		var key int64
		if err := open.Scan(&turn, &key); err != nil {
			return err
		}
		p.open[turn] = key
	}
	return open.Err()
}

// turn returns the key of the turn that r belongs to, or nil if r belongs to no
// turn. It updates p.open. A turn whose terminal event is in the log never
// opens again.
func (w *writer) turn(p *position, r row) (any, error) {
	if r.Turn == "" {
		return nil, nil
	}
	known, open := p.open[r.Turn]
	var key int64
	switch ends := event.Ends(r.Body); {
	case open && ends:
		delete(p.open, r.Turn)
		_, err := w.overTurn.Exec(r.Seq, len(p.open) == 0, known)
		return known, err
	case open:
		return known, nil
	case ends: // the log has no open turn with this id
		err := w.addOver.QueryRow(p.key, r.Turn, r.Seq-1, r.Seq, len(p.open) == 0).Scan(&key)
		return key, err
	}
	var end sql.NullInt64
	if err := w.addTurn.QueryRow(p.key, r.Turn, r.Seq-1).Scan(&key, &end); err != nil {
		return nil, err
	}
	if !end.Valid {
		p.open[r.Turn] = key
	}
	return key, nil
}
