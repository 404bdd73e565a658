package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

const sessionColumns = `id, cli_type, project_id, project_dir, title, agent_session_id, model_id, permission_mode,
	options, state, last_turn, last_line, created_at, last_active_at, booted_at, boot_fingerprint, seen_seq, queue_held`

// PutSession implements [store.Catalogue].
func (s *Store) PutSession(ctx context.Context, r store.Session) error {
	return s.exec(ctx, "INSERT OR REPLACE INTO sessions ("+sessionColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		r.ID, r.CLIType, r.ProjectID, r.ProjectDir, r.Title, r.AgentSessionID, r.ModelID, r.PermissionMode,
		bytesOrNull(r.Options), string(r.State), string(r.LastTurn), r.LastLine, encodeTime(r.CreatedAt), encodeTime(r.LastActiveAt),
		encodeTime(r.BootedAt), r.BootFingerprint, r.SeenSeq, r.QueueHeld)
}

func scanSession(row scanner) (r store.Session, err error) {
	var created, active, booted any
	err = row.Scan(&r.ID, &r.CLIType, &r.ProjectID, &r.ProjectDir, &r.Title, &r.AgentSessionID, &r.ModelID, &r.PermissionMode,
		(*[]byte)(&r.Options), &r.State, &r.LastTurn, &r.LastLine, &created, &active, &booted, &r.BootFingerprint,
		&r.SeenSeq, &r.QueueHeld)
	r.CreatedAt, r.LastActiveAt, r.BootedAt = decodeTime(created), decodeTime(active), decodeTime(booted)
	return r, err
}

// Session implements [store.Catalogue].
func (s *Store) Session(ctx context.Context, id string) (store.Session, error) {
	return one(ctx, s, scanSession, "SELECT "+sessionColumns+" FROM sessions WHERE id = ?", id)
}

// SessionsByAgent implements [store.Catalogue].
func (s *Store) SessionsByAgent(ctx context.Context, cliType string, agentSessionIDs ...string) ([]store.Session, error) {
	if len(agentSessionIDs) == 0 {
		return nil, nil
	}
	args := []any{cliType}
	for _, id := range agentSessionIDs {
		args = append(args, id)
	}
	return all(ctx, s, scanSession, "SELECT "+sessionColumns+` FROM sessions
		WHERE cli_type = ? AND agent_session_id IN (?`+strings.Repeat(", ?", len(agentSessionIDs)-1)+`) AND agent_session_id <> ''
		ORDER BY created_at DESC, last_active_at DESC`, args...)
}

// Sessions implements [store.Catalogue].
func (s *Store) Sessions(ctx context.Context, f store.SessionFilter) ([]store.Session, error) {
	where, args := []string{"TRUE"}, []any{}
	for _, c := range []struct {
		wanted bool
		text   string
		arg    string
	}{
		{f.ProjectID != "", "project_id = ?", f.ProjectID},
		{f.ProjectDir != "", "project_dir = ?", f.ProjectDir},
		{!f.Dead, "state <> ?", string(event.StateDead)},
		{f.State != "", "state = ?", string(f.State)},
	} {
		if c.wanted {
			where, args = append(where, c.text), append(args, c.arg)
		}
	}
	limit := -1 // no limit
	if f.Limit > 0 {
		limit = f.Limit
	}
	scan := func(row scanner) (store.Session, error) {
		r, err := scanSession(row)
		if f.Trim != nil {
			r.Options = f.Trim(r.Options)
		}
		return r, err
	}
	return all(ctx, s, scan, "SELECT "+sessionColumns+" FROM sessions WHERE "+strings.Join(where, " AND ")+
		" ORDER BY last_active_at DESC, id LIMIT ?", append(args, limit)...)
}

// DeleteSession implements [store.Catalogue]. A background goroutine removes
// the rows of the session's log later, in small steps, since there may be a
// million.
func (s *Store) DeleteSession(ctx context.Context, id string) error {
	do := func(w *writer) error {
		delete(w.known, id)
		w.deleted.Store(true)
		w.journal.spoiled = true // the session's events in the journal must not be restored
		for _, text := range []string{
			// A session without events may have left copies of its record in
			// the database file. Its row in logs makes sweep scrub them too.
			`INSERT INTO logs (session) SELECT id FROM sessions WHERE id = ? ON CONFLICT DO NOTHING`,
			"UPDATE logs SET session = 'deleted ' || hex(randomblob(16)), deleted = 1 WHERE session = ?",
			"DELETE FROM queue WHERE session = ?",
			"DELETE FROM reports WHERE session = ?",
			"DELETE FROM requests WHERE session = ? AND turn <> ''",
			"DELETE FROM sessions WHERE id = ?",
		} {
			if _, err := w.conn.ExecContext(context.Background(), text, id); err != nil {
				return err
			}
		}
		return nil
	}
	committed := func() {
		s.tails.forget(id)
		s.keeper.deleted.Send()
	}
	return s.submit(ctx, &job{strong: true, closing: true, do: do, committed: committed})
}

// Unfinished implements [store.Catalogue].
func (s *Store) Unfinished(ctx context.Context) ([]string, error) {
	return all(ctx, s, func(row scanner) (id string, err error) { err = row.Scan(&id); return id, err },
		"SELECT session FROM logs WHERE deleted = 0 AND key IN (SELECT session FROM turns WHERE end_seq IS NULL) ORDER BY key")
}

// Enqueue implements [store.Catalogue]. A turn that is already queued keeps its
// position.
func (s *Store) Enqueue(ctx context.Context, q store.Queued) error {
	return s.exec(ctx, `INSERT INTO queue (session, turn, input, about, at, place)
		VALUES (?, ?, ?, ?, ?, (SELECT coalesce(max(place), 0) + 1 FROM queue))
		ON CONFLICT (session, turn) DO UPDATE SET input = excluded.input, about = excluded.about, at = excluded.at`,
		q.Session, q.Turn, bytesOrNull(q.Input), bytesOrNull(q.About), encodeTime(q.At))
}

// Requeue implements [store.Catalogue].
func (s *Store) Requeue(ctx context.Context, q store.Queued) error {
	found := false
	do := func(w *writer) error {
		res, err := w.conn.ExecContext(context.Background(), "UPDATE queue SET input = ?, about = ? WHERE session = ? AND turn = ?",
			bytesOrNull(q.Input), bytesOrNull(q.About), q.Session, q.Turn)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		found = n > 0
		return err
	}
	if err := s.submit(ctx, &job{strong: true, do: do}); err != nil {
		return err
	}
	if !found {
		return store.ErrNotFound
	}
	return nil
}

// OrderQueue implements [store.Catalogue]. It distributes the places that the
// session's prompts have among them, so the order of all prompts changes only
// within the session.
func (s *Store) OrderQueue(ctx context.Context, session string, turns []string) error {
	do := func(w *writer) error {
		places, was, err := w.queueOf(session)
		if err != nil {
			return err
		}
		for i, turn := range store.Ordered(was, turns) {
			if turn == was[i] {
				continue
			}
			if _, err := w.conn.ExecContext(context.Background(), "UPDATE queue SET place = ? WHERE session = ? AND turn = ?", places[i], session, turn); err != nil {
				return err
			}
		}
		return nil
	}
	return s.submit(ctx, &job{strong: true, do: do})
}

// queueOf returns the places of a session's queued prompts, in order, and the
// prompt at each place.
func (w *writer) queueOf(session string) (places []int64, turns []string, err error) {
	rows, err := w.conn.QueryContext(context.Background(), "SELECT place, turn FROM queue WHERE session = ? ORDER BY place", session)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var place int64
		var turn string
		if err := rows.Scan(&place, &turn); err != nil {
			return nil, nil, err
		}
		places, turns = append(places, place), append(turns, turn)
	}
	return places, turns, rows.Err()
}

// Queue implements [store.Catalogue].
func (s *Store) Queue(ctx context.Context, session string) ([]store.Queued, error) {
	return all(ctx, s, scanQueued, "SELECT session, turn, about, at FROM queue WHERE ? IN (session, '') ORDER BY place", session)
}

func scanQueued(row scanner) (q store.Queued, err error) {
	var at any
	err = row.Scan(&q.Session, &q.Turn, (*[]byte)(&q.About), &at)
	q.At = decodeTime(at)
	return q, err
}

// QueuedInput implements [store.Catalogue].
func (s *Store) QueuedInput(ctx context.Context, session, turn string) (json.RawMessage, error) {
	return one(ctx, s, func(row scanner) (input json.RawMessage, err error) {
		err = row.Scan((*[]byte)(&input))
		return input, err
	}, "SELECT input FROM queue WHERE session = ? AND turn = ?", session, turn)
}

// Dequeue implements [store.Catalogue].
func (s *Store) Dequeue(ctx context.Context, session, turn string) error {
	j := execJob("DELETE FROM queue WHERE session = ? AND turn = ?", session, turn)
	j.closing = true
	return s.submit(ctx, j)
}

// exec runs one statement that writes, in a durable transaction.
func (s *Store) exec(ctx context.Context, text string, args ...any) error {
	return s.submit(ctx, execJob(text, args...))
}

func execJob(text string, args ...any) *job {
	do := func(w *writer) error {
		_, err := w.conn.ExecContext(context.Background(), text, args...)
		return err
	}
	return &job{strong: true, do: do}
}

// A scanner is a row to scan.
type scanner interface{ Scan(dest ...any) error }

// one returns the row that the query selects, or store.ErrNotFound.
func one[T any](ctx context.Context, s *Store, scan func(scanner) (T, error), text string, args ...any) (T, error) {
	v, err := scan(s.reader.db.QueryRowContext(ctx, text, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return v, store.ErrNotFound
	}
	return v, s.readError(ctx, err)
}

// all returns the rows that the query selects, in the order of the query.
func all[T any](ctx context.Context, s *Store, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	rows, err := s.reader.db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, s.readError(ctx, err)
	}
	defer rows.Close()
	var list []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, s.readError(ctx, err)
		}
		list = append(list, v)
	}
	return list, s.readError(ctx, rows.Err())
}

// bytesOrNull stores a nil slice as NULL and an empty slice as an empty blob.
func bytesOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
