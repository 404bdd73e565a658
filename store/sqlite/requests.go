package sqlite

import (
	"context"
	"time"

	"github.com/runnel-dev/runnel/store"
)

const requestColumns = "credential, key, digest, session, turn, answer, at"

// PutRequests implements [store.Requests].
func (s *Store) PutRequests(ctx context.Context, rs ...store.Request) error {
	do := func(w *writer) error {
		for _, r := range rs {
			_, err := w.conn.ExecContext(context.Background(), "INSERT OR REPLACE INTO requests ("+requestColumns+") VALUES (?, ?, ?, ?, ?, ?, ?)",
				r.Credential, r.Key, r.Digest[:], r.Session, r.Turn, bytesOrNull(r.Answer), encodeTime(r.At))
			if err != nil {
				return err
			}
		}
		return nil
	}
	return s.submit(ctx, &job{strong: true, do: do})
}

// Request implements [store.Requests].
func (s *Store) Request(ctx context.Context, credential, key string) (store.Request, error) {
	return one(ctx, s, scanRequest, "SELECT "+requestColumns+" FROM requests WHERE credential = ? AND key = ?", credential, key)
}

func scanRequest(row scanner) (r store.Request, err error) {
	var digest []byte
	var at any
	err = row.Scan(&r.Credential, &r.Key, &digest, &r.Session, &r.Turn, (*[]byte)(&r.Answer), &at)
	copy(r.Digest[:], digest)
	r.At = decodeTime(at)
	return r, err
}

// DeleteRequest implements [store.Requests].
func (s *Store) DeleteRequest(ctx context.Context, credential, key string) error {
	j := execJob("DELETE FROM requests WHERE credential = ? AND key = ?", credential, key)
	j.closing = true
	return s.submit(ctx, j)
}

// PruneRequests implements [store.Requests].
func (s *Store) PruneRequests(ctx context.Context, before time.Time) error {
	j := execJob("DELETE FROM requests WHERE credential <> '' AND at < ?", encodeTime(before))
	j.closing = true
	return s.submit(ctx, j)
}

// TurnLocations implements [store.Requests].
func (s *Store) TurnLocations(ctx context.Context, turn string) ([]store.TurnLocation, error) {
	return all(ctx, s, scanLocation, `SELECT session, max(waiting), max(after_seq) FROM (
			SELECT l.session AS session, 0 AS waiting, t.after_seq AS after_seq FROM turns t JOIN logs l ON l.key = t.session
			WHERE t.turn = ?1 AND l.deleted = 0
			UNION ALL SELECT session, 1, 0 FROM queue WHERE turn = ?1
		) GROUP BY session`, turn)
}

func scanLocation(row scanner) (p store.TurnLocation, err error) {
	err = row.Scan(&p.Session, &p.Waiting, &p.After)
	return p, err
}
