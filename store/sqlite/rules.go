package sqlite

import (
	"context"
	"time"

	"github.com/runnel-dev/runnel/store"
)

const ruleColumns = "effect, kind, cli_type, project_dir, session, tool, pattern, note, made_by, made_by_name, created_at, uses, last_used_at"

// AddRule implements [store.Rules].
func (s *Store) AddRule(ctx context.Context, r store.Rule) (id int64, err error) {
	do := func(w *writer) error {
		res, err := w.conn.ExecContext(context.Background(), "INSERT INTO rules ("+ruleColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			string(r.Effect), string(r.Kind), r.CLIType, r.ProjectDir, r.SessionID, r.Tool, r.Pattern, r.Note, r.By, r.ByName,
			encodeTime(r.CreatedAt), r.Uses, encodeTime(r.LastUsedAt))
		if err != nil {
			return err
		}
		id, err = res.LastInsertId()
		return err
	}
	err = s.submit(ctx, &job{strong: true, do: do})
	return id, err
}

// Rules implements [store.Rules].
func (s *Store) Rules(ctx context.Context) ([]store.Rule, error) {
	return all(ctx, s, scanRule, "SELECT id, "+ruleColumns+" FROM rules ORDER BY id")
}

func scanRule(row scanner) (r store.Rule, err error) {
	var created, used any
	err = row.Scan(&r.ID, &r.Effect, &r.Kind, &r.CLIType, &r.ProjectDir, &r.SessionID, &r.Tool, &r.Pattern, &r.Note, &r.By, &r.ByName, &created, &r.Uses, &used)
	r.CreatedAt, r.LastUsedAt = decodeTime(created), decodeTime(used)
	return r, err
}

// UseRule implements [store.Rules].
func (s *Store) UseRule(ctx context.Context, id int64, at time.Time) error {
	return s.exec(ctx, "UPDATE rules SET uses = uses + 1, last_used_at = ? WHERE id = ?", encodeTime(at), id)
}

// DeleteRule implements [store.Rules].
func (s *Store) DeleteRule(ctx context.Context, id int64) error {
	do := func(w *writer) error {
		res, err := w.conn.ExecContext(context.Background(), "DELETE FROM rules WHERE id = ?", id)
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
