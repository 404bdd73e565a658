package sqlite

import (
	"context"
	"slices"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A finishedTurn is a turn with a terminal event that has not been compacted.
type finishedTurn struct {
	key, log      int64
	session, turn string
	after, end    int64 // its events have positions in (after, end]; end is the terminal event
}

// A run is a range of consecutive positions, first and last included.
type run struct{ first, last int64 }

// sliceEvents bounds how many events one transaction removes. It thereby bounds
// how long a concurrent append waits.
const sliceEvents = 64

// finished returns up to 100 turns that can be compacted, with keys above
// after.
func (s *Store) finished(ctx context.Context, after int64) ([]finishedTurn, error) {
	return all(ctx, s, func(r scanner) (t finishedTurn, err error) {
		err = r.Scan(&t.key, &t.log, &t.session, &t.turn, &t.after, &t.end)
		return t, err
	}, `SELECT t.key, t.session, l.session, t.turn, t.after_seq, t.end_seq FROM turns t JOIN logs l ON l.key = t.session
		WHERE t.end_seq IS NOT NULL AND t.compacted = 0 AND l.deleted = 0 AND t.key > ? ORDER BY t.key LIMIT 100`, after)
}

// compact removes the deltas of t whose items are done, since ItemDone repeats
// their content. It keeps the deltas of items that ended otherwise, because no
// other event holds their content.
func (s *Store) compact(ctx context.Context, t finishedTurn) error {
	seqs, err := s.removable(ctx, t)
	if err != nil {
		return err
	}
	s.tails.cut(t.session, t.end) // so that readers do not get removed deltas from memory
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

// removable returns the positions of the events of t that can be removed, in
// order. It reads every event of the turn, so that compact leaves a damaged
// turn unchanged.
func (s *Store) removable(ctx context.Context, t finishedTurn) ([]int64, error) {
	deltas := make(map[string][]int64) // by item, in order
	done := make(map[string]int64)     // position of ItemDone, by item
	broken := make(map[string]bool)    // items that also failed or were cancelled
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

// runsOf joins sorted positions into runs.
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

// remove deletes runs of t and records them as intended gaps. last means that
// no further runs follow; remove then marks the turn as compacted.
func (w *writer) remove(t finishedTurn, runs []run, last bool) error {
	ctx := context.Background()
	var same bool // SQLite may have reused the keys for another session
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
	if err := w.thinCheckpoints(ctx, t); err != nil {
		return err
	}
	_, err := w.conn.ExecContext(ctx, "UPDATE turns SET compacted = 1 WHERE key = ?", t.key)
	return err
}

// addGap records that r is missing. It merges r with adjacent gaps.
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
