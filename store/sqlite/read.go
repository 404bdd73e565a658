package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"iter"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A reader runs queries on its own connections.
type reader struct {
	db    *sql.DB
	page  *sql.Stmt
	head  *sql.Stmt
	state *sql.Stmt
	size  *sql.Stmt

	cut, checkpoint *sql.Stmt
}

func (r *reader) close() error {
	return errors.Join(r.page.Close(), r.head.Close(), r.state.Close(), r.size.Close(), r.cut.Close(), r.checkpoint.Close(), r.db.Close())
}

// readers is the maximum number of concurrent reading connections. Each
// connection has a page cache.
const readers = 3

func openReader(ctx context.Context, path, vfs string) (*reader, error) {
	db, err := openDB(path, vfs, readerPragmas)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	r := &reader{db: db}
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&r.page, `SELECT e.seq, e.at, coalesce(t.turn, ''), e.payload, e.crc, g.first
			FROM logs l JOIN events e ON e.session = l.key LEFT JOIN turns t ON t.key = e.turn
			LEFT JOIN gaps g ON g.session = l.key AND g.last = e.seq - 1
			WHERE l.session = ? AND e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?`},
		{&r.head, "SELECT coalesce(max(seq), 0) FROM events WHERE session = (SELECT key FROM logs WHERE session = ?)"},
		{&r.state, `SELECT coalesce((SELECT max(seq) FROM events WHERE session = l.key), 0), t.turn, t.after_seq
			FROM logs l LEFT JOIN turns t ON t.session = l.key AND t.end_seq IS NULL
			WHERE l.session = ? ORDER BY t.after_seq`},
		{&r.size, "SELECT coalesce(sum(length(payload)), 0) FROM events WHERE session = (SELECT key FROM logs WHERE session = ?)"},
		{&r.cut, "SELECT coalesce(max(end_seq), 0) FROM turns WHERE session = (SELECT key FROM logs WHERE session = ?) AND clean = 1 AND end_seq <= ?"},
		{&r.checkpoint, `SELECT c.session, c.seq, c.events, c.crc FROM logs l JOIN checkpoints c ON c.session = l.key
			WHERE l.session = ? AND c.seq <= ? AND c.seq > ? ORDER BY c.seq DESC LIMIT 1`},
	} {
		if *p.stmt, err = db.PrepareContext(ctx, p.text); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return r, nil
}

// Size implements [store.Sizer].
func (s *Store) Size(ctx context.Context, session string) (n int64, err error) {
	if s.closed() {
		return 0, errClosed()
	}
	unstored := s.tails.unstored(session)
	if err = s.reader.size.QueryRowContext(ctx, session).Scan(&n); err != nil {
		return 0, s.readError(ctx, err)
	}
	return n + unstored, nil
}

// Sizes implements [store.SizeLister].
func (s *Store) Sizes(ctx context.Context) (map[string]int64, error) {
	if s.closed() {
		return nil, errClosed()
	}
	type sized struct {
		session string
		bytes   int64
	}
	list, err := all(ctx, s, func(r scanner) (x sized, err error) { err = r.Scan(&x.session, &x.bytes); return x, err },
		"SELECT l.session, sum(length(e.payload)) FROM logs l JOIN events e ON e.session = l.key WHERE l.deleted = 0 GROUP BY l.key")
	sizes := make(map[string]int64, len(list))
	for _, x := range list {
		sizes[x.session] = x.bytes
	}
	return sizes, err
}

// Read implements [runnel.Log]. It holds no connection and no read transaction
// while the caller handles an event, so a slow caller blocks neither other
// readers nor checkpoints.
func (s *Store) Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		after := max(after, 0)
		end, err := s.head(ctx, session)
		room := firstBytes
		for ; err == nil && after < end; room = min(2*room, pageBytes) {
			var page []event.Event
			if page, err = s.page(ctx, session, after, end, room); len(page) == 0 {
				if err == nil {
					err = s.vanished(ctx, session, after)
				}
				break
			}
			for _, ev := range page {
				if err = ctx.Err(); err != nil {
					break
				}
				if !yield(ev, nil) {
					return
				}
				after = ev.Seq
			}
		}
		if err != nil {
			yield(event.Event{}, s.readError(ctx, err))
		}
	}
}

// Tail implements [store.TailReader].
func (s *Store) Tail(session string, after int64, buf []event.Event, most, size int) ([]event.Event, bool) {
	return s.tails.tailAfter(session, after, buf, most, size)
}

// head returns the position of the last event of the log.
func (s *Store) head(ctx context.Context, session string) (int64, error) {
	if s.closed() {
		return 0, errClosed()
	}
	if head, ok := s.tails.head(session); ok {
		return head, nil
	}
	var head int64
	err := s.reader.head.QueryRowContext(ctx, session).Scan(&head)
	return head, err
}

// page returns some of the events in (after, end]. If the first of them is in
// memory, page returns events from memory, and otherwise about room bytes of
// events from the database. Memory holds only acknowledged events, so both
// sources agree. Events that are only in the journal stay in memory.
func (s *Store) page(ctx context.Context, session string, after, end int64, room int) ([]event.Event, error) {
	if page := s.tails.page(session, after, end); page != nil {
		return page, nil
	}
	return s.stored(ctx, session, after, end, room)
}

// stored returns what page returns, but always from the database. If it returns
// an error, the events before the error are still valid.
func (s *Store) stored(ctx context.Context, session string, after, end int64, room int) (page []event.Event, err error) {
	rows, err := s.reader.page.QueryContext(ctx, session, after, end, pageSize)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	bytes := 0
	for bytes < room && rows.Next() {
		ev, n, err := scanEvent(rows, session, after)
		if err != nil {
			return page, err
		}
		bytes += n
		page = append(page, ev)
		after = ev.Seq
	}
	// Close rows before calling Err. Scanning into RawBytes holds a lock until
	// the next call, and rows.Err would wait for it if ctx ended meanwhile.
	if err := rows.Close(); err != nil {
		return page, err
	}
	return page, rows.Err()
}

// scanEvent returns the event of a row and the size of its payload. It returns
// a DamageError if the checksum does not match, or if events after position
// after are missing without a recorded gap.
func scanEvent(rows *sql.Rows, session string, after int64) (event.Event, int, error) {
	ev := event.Event{Session: session}
	var at any
	var payload sql.RawBytes
	var sum int64
	var gap sql.NullInt64
	if err := rows.Scan(&ev.Seq, &at, &ev.Turn, &payload, &sum, &gap); err != nil {
		return ev, 0, err
	}
	if ev.Seq != after+1 && !(gap.Valid && gap.Int64 <= after+1) {
		return ev, 0, &DamageError{session, after + 1, "is missing"}
	}
	ev.At = decodeTime(at)
	if int64(checksum(ev, payload)) != sum {
		return ev, 0, &DamageError{session, ev.Seq, "does not match its checksum"}
	}
	var err error
	ev.Body, err = event.UnmarshalBody(payload)
	return ev, len(payload), err
}

// vanished returns the reason why no events follow position after although the
// log was longer before. It returns nil if the session was deleted.
func (s *Store) vanished(ctx context.Context, session string, after int64) error {
	var head int64
	err := s.reader.head.QueryRowContext(ctx, session).Scan(&head)
	if err == nil && head > 0 {
		err = &DamageError{session, after + 1, "is missing"}
	}
	return err
}

// Heads implements [store.HeadLister].
func (s *Store) Heads(ctx context.Context) (map[string]int64, error) {
	if s.closed() {
		return nil, errClosed()
	}
	heads := s.tails.heads() // read before the query, see State
	type end struct {
		session string
		head    int64
	}
	stored, err := all(ctx, s, func(r scanner) (e end, err error) { err = r.Scan(&e.session, &e.head); return e, err },
		"SELECT session, (SELECT max(seq) FROM events WHERE session = key) AS head FROM logs WHERE deleted = 0 AND head IS NOT NULL")
	for _, e := range stored {
		heads[e.session] = max(heads[e.session], e.head)
	}
	return heads, err
}

// Grown implements [runnel.Log].
func (s *Store) Grown(session string, after int64) <-chan struct{} {
	for {
		grown, lookUp := s.tails.grown(session, after)
		if lookUp == nil {
			return grown
		}
		head, err := s.head(context.Background(), session)
		if err != nil {
			s.tails.learn(lookUp, unknown)
			return closed // Read will return the error
		}
		if s.tails.learn(lookUp, head) && head <= after {
			return grown
		}
	}
}

// State implements [runnel.Log].
func (s *Store) State(ctx context.Context, session string) (runnel.LogState, error) {
	head, _ := s.tails.head(session) // read before the query: an event that is only in the journal now may soon be only in the database
	st, err := s.state(ctx, session)
	st.Head = max(st.Head, head)
	return st, s.readError(ctx, err)
}

func (s *Store) state(ctx context.Context, session string) (runnel.LogState, error) {
	var st runnel.LogState
	if s.closed() {
		return st, errClosed()
	}
	rows, err := s.reader.state.QueryContext(ctx, session)
	if err != nil {
		return st, err
	}
	defer rows.Close()
	for rows.Next() {
		var turn sql.NullString
		var after sql.NullInt64
		if err := rows.Scan(&st.Head, &turn, &after); err != nil {
			return st, err
		}
		if turn.Valid {
			st.Open = append(st.Open, runnel.OpenTurn{Turn: turn.String, After: after.Int64})
		}
	}
	return st, rows.Err()
}
