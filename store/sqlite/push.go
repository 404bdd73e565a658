package sqlite

import (
	"context"
	"encoding/json"

	"github.com/runnel-dev/runnel/store"
)

// PutPushKey implements [store.Pushes].
func (s *Store) PutPushKey(ctx context.Context, sealed string) error {
	do := func(w *writer) error {
		for _, q := range []struct {
			text string
			args []any
		}{
			{"DELETE FROM push_subscriptions", nil},
			{"INSERT OR REPLACE INTO push_key (id, data) VALUES (1, ?)", []any{sealed}},
		} {
			if _, err := w.conn.ExecContext(context.Background(), q.text, q.args...); err != nil {
				return err
			}
		}
		return nil
	}
	return s.submit(ctx, &job{strong: true, do: do})
}

// PushKey implements [store.Pushes].
func (s *Store) PushKey(ctx context.Context) (string, error) {
	scan := func(row scanner) (sealed string, err error) { return sealed, row.Scan(&sealed) }
	return one(ctx, s, scan, "SELECT data FROM push_key")
}

// PutPushSubscription implements [store.Pushes].
func (s *Store) PutPushSubscription(ctx context.Context, p store.PushSubscription) error {
	kinds, err := json.Marshal(p.Kinds)
	if err != nil {
		return err
	}
	do := func(w *writer) error {
		res, err := w.conn.ExecContext(context.Background(), `INSERT OR REPLACE INTO push_subscriptions (credential, endpoint, data, kinds, created_at)
			SELECT id, ?, ?, ?, ? FROM tokens WHERE id = ?`, p.Endpoint[:], p.Sealed, kinds, encodeTime(p.CreatedAt), p.Credential)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return store.ErrNotFound
	}
	return s.submit(ctx, &job{strong: true, do: do})
}

// PushSubscriptions implements [store.Pushes].
func (s *Store) PushSubscriptions(ctx context.Context) ([]store.PushSubscription, error) {
	scan := func(row scanner) (p store.PushSubscription, err error) {
		var endpoint, kinds []byte
		var created, expires any
		if err := row.Scan(&p.Credential, &endpoint, &p.Sealed, &kinds, &created, &p.Project, &expires); err != nil {
			return p, err
		}
		copy(p.Endpoint[:], endpoint)
		p.CreatedAt, p.ExpiresAt = decodeTime(created), decodeTime(expires)
		return p, json.Unmarshal(kinds, &p.Kinds)
	}
	return all(ctx, s, scan, `SELECT p.credential, p.endpoint, p.data, p.kinds, p.created_at, t.project, t.expires_at
		FROM push_subscriptions p JOIN tokens t ON t.id = p.credential ORDER BY p.created_at, p.credential`)
}

// DeletePushSubscription implements [store.Pushes].
func (s *Store) DeletePushSubscription(ctx context.Context, credential string) error {
	j := execJob("DELETE FROM push_subscriptions WHERE credential = ?", credential)
	j.closing = true
	return s.submit(ctx, j)
}
