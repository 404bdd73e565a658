package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// CompactDir makes the store in dir as small as possible, while no server uses
// it. It removes everything that a server removes in the background: deltas of
// finished items, and the rest of deleted sessions. It then rewrites the
// database without free space, which needs as much free disk space as the
// database has content. It returns the size of the files before and after.
//
// A crash or a full disk leaves the store complete.
func CompactDir(ctx context.Context, cfg Config) (before, after int64, err error) {
	if before, err = sizeOf(cfg.Dir); err != nil {
		return 0, 0, openError(ctx, cfg.Dir, err)
	}
	cfg.CompactAfter = -1
	s, err := Open(ctx, cfg)
	if err != nil {
		return before, before, err
	}
	s.keeper.stop()
	s.keeper.pauseFactor = 0 // no other job runs
	err = errors.Join(s.compactAll(ctx), s.sweep(ctx), s.Close())
	if err == nil {
		err = vacuum(ctx, cfg.Dir)
	}
	if err == nil {
		err = vacuumSearch(ctx, cfg.Dir)
	}
	if after, e := sizeOf(cfg.Dir); e == nil {
		return before, after, unavailable(err)
	}
	return before, before, unavailable(err)
}

// vacuum rewrites the database in dir, which no store has open.
func vacuum(ctx context.Context, dir string) error {
	l, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	path, err := filepath.Abs(filepath.Join(dir, "runnel.db"))
	if err != nil {
		return err
	}
	db, err := openDB(path, "", writerPragmas)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, "VACUUM")
	if err == nil {
		_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return errors.Join(err, db.Close())
}

// vacuumSearch rewrites the search index in dir, which no SearchIndex has open.
// It leaves an index unchanged that the next server makes again, because it is
// missing, damaged or of another version.
func vacuumSearch(ctx context.Context, dir string) error {
	l, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	path, err := filepath.Abs(filepath.Join(dir, searchFile))
	if err != nil {
		return err
	}
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() {
		return nil //nolint:nilerr // there is nothing to rewrite
	}
	db, err := openDB(path, "", searchWriterPragmas)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	var version int
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	if err == nil && version == searchVersion {
		for _, text := range []string{"INSERT INTO texts (texts) VALUES ('optimize')", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"} {
			if err == nil {
				_, err = db.ExecContext(ctx, text)
			}
		}
	}
	if corrupt(err) {
		err = nil
	}
	return errors.Join(err, db.Close())
}

// sizeOf returns the size of the database in dir, of the search index and of
// their write-ahead logs.
func sizeOf(dir string) (size int64, err error) {
	for _, name := range []string{"runnel.db", "runnel.db-wal", searchFile, searchFile + "-wal"} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err == nil {
			size += st.Size()
		} else if name == "runnel.db" {
			return 0, err
		}
	}
	return size, nil
}
