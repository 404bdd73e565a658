package sqlite

import (
	"context"
	"slices"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A finishedTurn is a turn that is over and whose deltas are still there.
type finishedTurn struct {
	key, log      int64
	session, turn string
	after, end    int64 // its events lie behind after; end is the terminal one
}

// A run is a stretch of positions, first and last included.
type run struct{ first, last int64 }

// sliceEvents bounds how many events one transaction removes, and with that how
// long an append that comes meanwhile has to wait.
const sliceEvents = 64

// finished returns some turns that can be compacted, with keys above after.
func (s *Store) finished(ctx context.Context, after int64) ([]finishedTurn, error) {
	return all(ctx, s, func(r scanner) (t finishedTurn, err error) {
		err = r.Scan(&t.key, &t.log, &t.session, &t.turn, &t.after, &t.end)
		return t, err
	}, `SELECT t.key, t.session, l.session, t.turn, t.after_seq, t.end_seq FROM turns t JOIN logs l ON l.key = t.session
		WHERE t.end_seq IS NOT NULL AND t.compacted = 0 AND l.deleted = 0 AND t.key > ? ORDER BY t.key LIMIT 100`, after)
}

// compact removes the deltas of t whose items are done: ItemDone repeats what
// they said. Those of an item that ended otherwise are all there is of it.
func (s *Store) compact(ctx context.Context, t finishedTurn) error {
	seqs, err := s.removable(ctx, t)
	if err != nil {
		return err
	}
	s.tails.cut(t.session, t.end) // what is removed is in no memory either
	for first := true; first || len(seqs) > 0; first = false {
		n := min(len(seqs), sliceEvents)
		part, last := runsOf(seqs[:n]), n == len(seqs)
		if err := s.chore(ctx, func(w *writer) error { return w.remove(t, part, last) }); err != nil {
			return err
		}
		seqs = seqs[n:]
	}
	return nil
}

// removable returns the positions of what can be removed of t, in order. It
// reads everything, so that a turn with damage in it is left as it is.
func (s *Store) removable(ctx context.Context, t finishedTurn) ([]int64, error) {
	deltas := make(map[string][]int64) // by item, in order
	done := make(map[string]int64)     // where the item was done
	broken := make(map[string]bool)    // it ended otherwise too
	for after := t.after; after < t.end; {
		page, err := s.stored(ctx, t.session, after, t.end, pageBytes)
		if err != nil || len(page) == 0 {
			return nil, s.readError(ctx, err)
		}
		for _, ev := range page {
			after = ev.Seq
			if ev.Turn != t.turn {
				continue
			}
			switch b := ev.Body.(type) {
			case event.ItemDelta:
				deltas[b.ItemID] = append(deltas[b.ItemID], ev.Seq)
			case event.ItemDone:
				if done[b.ItemID] == 0 {
					done[b.ItemID] = ev.Seq
				}
			case event.ItemError:
				broken[b.ItemID] = true
			case event.ItemCancelled:
				broken[b.ItemID] = true
			}
		}
	}
	var seqs []int64
	for item, at := range done {
		if broken[item] {
			continue
		}
		for _, seq := range deltas[item] {
			if seq < at {
				seqs = append(seqs, seq)
			}
		}
	}
	slices.Sort(seqs)
	return seqs, nil
}

// runsOf joins positions, which are in order, to runs.
func runsOf(seqs []int64) []run {
	var runs []run
	for _, seq := range seqs {
		if n := len(runs); n > 0 && runs[n-1].last == seq-1 {
			runs[n-1].last = seq
			continue
		}
		runs = append(runs, run{seq, seq})
	}
	return runs
}

// remove removes runs of t and notes that they are missing on purpose; last
// says that there are no others.
func (w *writer) remove(t finishedTurn, runs []run, last bool) error {
	ctx := context.Background()
	var same bool // keys may have been given to another session
	if err := w.conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM turns t JOIN logs l ON l.key = t.session
		WHERE t.key = ? AND t.turn = ? AND l.key = ? AND l.session = ? AND l.deleted = 0)`,
		t.key, t.turn, t.log, t.session).Scan(&same); err != nil {
		return err
	}
	if !same {
		return store.ErrNotFound
	}
	for _, r := range runs {
		if _, err := w.conn.ExecContext(ctx, "DELETE FROM events WHERE session = ? AND seq BETWEEN ? AND ?", t.log, r.first, r.last); err != nil {
			return err
		}
		if err := w.addGap(ctx, t.log, r); err != nil {
			return err
		}
	}
	if !last {
		return nil
	}
	_, err := w.conn.ExecContext(ctx, "UPDATE turns SET compacted = 1 WHERE key = ?", t.key)
	return err
}

// addGap notes that r is missing, as one gap with those that touch it.
func (w *writer) addGap(ctx context.Context, log int64, r run) error {
	rows, err := w.conn.QueryContext(ctx, `DELETE FROM gaps WHERE session = ? AND (last = ? OR
		last = (SELECT min(last) FROM gaps WHERE session = ? AND last > ?) AND first = ?) RETURNING first, last`,
		log, r.first-1, log, r.last, r.last+1)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var g run
		if err := rows.Scan(&g.first, &g.last); err != nil {
			return err
		}
		r.first, r.last = min(r.first, g.first), max(r.last, g.last)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_, err = w.conn.ExecContext(ctx, "INSERT INTO gaps (session, last, first) VALUES (?, ?, ?)", log, r.last, r.first)
	return err
}
