package sqlite

import (
	"context"
	"encoding/json"

	"github.com/runnel-dev/runnel/store"
)

const tokenColumns = "id, kind, name, hash, scopes, project, parent, created_at, last_used_at, expires_at"

// PutToken implements [store.Catalogue].
func (s *Store) PutToken(ctx context.Context, t store.Token) error {
	scopes, err := json.Marshal(t.Scopes)
	if err != nil {
		return err
	}
	return s.exec(ctx, "INSERT INTO tokens ("+tokenColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, name = excluded.name, hash = excluded.hash, scopes = excluded.scopes,
			project = excluded.project, parent = excluded.parent, created_at = excluded.created_at, last_used_at = excluded.last_used_at, expires_at = excluded.expires_at`,
		t.ID, string(t.Kind), t.Name, t.Hash[:], scopes, t.Project, t.Parent, encodeTime(t.CreatedAt), encodeTime(t.LastUsedAt), encodeTime(t.ExpiresAt))
}

func scanToken(row scanner) (t store.Token, err error) {
	var hash, scopes []byte
	var created, used, expires any
	if err := row.Scan(&t.ID, &t.Kind, &t.Name, &hash, &scopes, &t.Project, &t.Parent, &created, &used, &expires); err != nil {
		return t, err
	}
	copy(t.Hash[:], hash)
	t.CreatedAt, t.LastUsedAt, t.ExpiresAt = decodeTime(created), decodeTime(used), decodeTime(expires)
	return t, json.Unmarshal(scopes, &t.Scopes)
}

// TokenByHash implements [store.Catalogue].
func (s *Store) TokenByHash(ctx context.Context, hash [32]byte) (store.Token, error) {
	return one(ctx, s, scanToken, "SELECT "+tokenColumns+" FROM tokens WHERE hash = ?", hash[:])
}

// Tokens implements [store.Catalogue].
func (s *Store) Tokens(ctx context.Context, kind store.TokenKind) ([]store.Token, error) {
	return all(ctx, s, scanToken, "SELECT "+tokenColumns+" FROM tokens WHERE kind = ? ORDER BY created_at, rowid", string(kind))
}

// DeleteToken implements [store.Catalogue].
func (s *Store) DeleteToken(ctx context.Context, id string) error {
	do := func(w *writer) error {
		res, err := w.conn.ExecContext(context.Background(), `WITH RECURSIVE doomed(id) AS (
			VALUES (?) UNION SELECT t.id FROM tokens t JOIN doomed ON t.parent = doomed.id
		) DELETE FROM tokens WHERE id IN doomed`, id)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return store.ErrNotFound
	}
	return s.submit(ctx, &job{strong: true, closing: true, do: do})
}
