package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
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
	rows := make([]row, len(evs))
	j := &job{session: session, head: head, rows: rows}
	for i, ev := range evs {
		r, err := encode(ev)
		if err != nil {
			return err
		}
		rows[i] = r
		j.strong = j.strong || event.Decides(r.Body)
		j.bytes += len(r.payload)
	}
	j.closing = len(evs) > 0 && j.bytes <= maxClosing && closes(evs)
	j.do = func(w *writer) error { return w.append(session, head, rows) }
	j.committed = func() {
		s.tails.add(session, rows, j.kept)
		if slices.ContainsFunc(evs, func(ev event.Event) bool { return event.Ends(ev.Body) }) {
			s.keeper.ended.Send()
		}
	}
	return s.submit(ctx, j)
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
	if !decodesToItself(ev.Body) {
		body, err := event.UnmarshalBody(payload)
		if err != nil {
			return row{}, runnel.Fail(runnel.InvalidStreamEvent, event.Type(ev.Body)+": cannot be decoded again; report this", err)
		}
		ev.Body = body
	}
	ev.At = decodeTime(encodeTime(ev.At))
	return row{ev, payload, checksum(ev, payload)}, nil
}

// decodesToItself reports whether b is known to equal the result of encoding
// and decoding it. It checks only ItemDelta, the most common body, and returns
// false for every other type.
func decodesToItself(b event.Body) bool {
	d, ok := b.(event.ItemDelta)
	return ok && utf8.ValidString(d.ItemID) && utf8.ValidString(d.DeltaContent)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers all fields of an event. The lengths separate the
// variable-length parts.
func checksum(ev event.Event, payload []byte) uint32 {
	var fixed [36]byte
	binary.BigEndian.PutUint64(fixed[0:], uint64(ev.Seq))
	binary.BigEndian.PutUint64(fixed[8:], uint64(ev.At.Unix()))
	binary.BigEndian.PutUint32(fixed[16:], uint32(ev.At.Nanosecond()))
	binary.BigEndian.PutUint64(fixed[20:], uint64(len(ev.Session)))
	binary.BigEndian.PutUint64(fixed[28:], uint64(len(ev.Turn)))
	sum := crc32.Update(0, castagnoli, fixed[:])
	sum = crc32.Update(sum, castagnoli, []byte(ev.Session))
	sum = crc32.Update(sum, castagnoli, []byte(ev.Turn))
	return crc32.Update(sum, castagnoli, payload)
}

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
	head int64
	open map[string]int64 // turns.key of the turns without a terminal event, by turn id
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
	}
	for _, r := range rows {
		turn, err := w.turn(p, r)
		if err != nil {
			return err
		}
		if err := w.insert(p.key, turn, r); err != nil {
			return err
		}
		p.head = r.Seq
	}
	return nil
}

// insert adds the row of an event, and the usage that the event reports. log is
// logs.key; turn is turns.key or nil.
func (w *writer) insert(log int64, turn any, r row) error {
	if _, err := w.addEvent.Exec(log, r.Seq, turn, event.Type(r.Body), encodeTime(r.At), r.payload, int64(r.sum)); err != nil {
		return err
	}
	return w.noteUsage(log, turn, r)
}

// position returns the end of the session's log. The caller updates the
// returned value as it writes. If the transaction is rolled back, transact
// clears all cached positions.
func (w *writer) position(session string) (*position, error) {
	if p := w.known[session]; p != nil {
		return p, nil
	}
	p := &position{open: make(map[string]int64)}
	switch err := w.findLog.QueryRow(session).Scan(&p.key, &p.head); {
	case err == nil:
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
	key, open := p.open[r.Turn]
	switch ends := event.Ends(r.Body); {
	case open && ends:
		delete(p.open, r.Turn)
		_, err := w.overTurn.Exec(r.Seq, len(p.open) == 0, key)
		return key, err
	case open:
		return key, nil
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
