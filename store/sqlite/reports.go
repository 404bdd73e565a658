package sqlite

import (
	"context"

	"github.com/runnel-dev/runnel/store"
)

// PutReport implements [store.Catalogue].
func (s *Store) PutReport(ctx context.Context, session string, r store.Report) error {
	return s.exec(ctx, "INSERT OR REPLACE INTO reports (session, config, files, commands) VALUES (?, ?, ?, ?)",
		session, bytesOrNull(r.Config), bytesOrNull(r.Files), bytesOrNull(r.Commands))
}

// Report implements [store.Catalogue].
func (s *Store) Report(ctx context.Context, session string) (store.Report, error) {
	scan := func(row scanner) (r store.Report, err error) {
		err = row.Scan((*[]byte)(&r.Config), (*[]byte)(&r.Files), (*[]byte)(&r.Commands))
		return r, err
	}
	return one(ctx, s, scan, "SELECT config, files, commands FROM reports WHERE session = ?", session)
}
