package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/runnel-dev/runnel"
)

// migrations holds one script per schema version. Script n upgrades version n-1
// to n. A released script is never changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

// applicationID ("rnnl") marks runnel databases in the application_id field of
// SQLite's header.
const applicationID = 0x726e6e6c

func scripts() ([]string, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	list := make([]string, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			return nil, err
		}
		list[i] = string(text)
	}
	return list, nil
}

func checkVersion(path string, version int, id uint32, list []string) error {
	switch {
	case id != applicationID && (id != 0 || version != 0):
		return foreignFile(path)
	case version > len(list):
		return runnel.Fail(runnel.StoreUnavailable, fmt.Sprintf(
			"the database %s has schema version %d and this runnel knows versions up to %d; use the newer runnel that wrote it",
			path, version, len(list)))
	}
	return nil
}

func foreignFile(path string) error {
	return runnel.Fail(runnel.StoreUnavailable, path+" is not a runnel database; move it away or choose another data directory")
}

// migrate upgrades the database to the newest version in list, in one
// transaction.
func migrate(ctx context.Context, conn *sql.Conn, path string, list []string) error {
	var version int
	var id uint32
	if err := conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if err := checkVersion(path, version, id, list); err != nil || version == len(list) {
		return err
	}
	var tables int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return err
	}
	if version == 0 && tables > 0 {
		return foreignFile(path)
	}
	if version == 0 { // auto_vacuum must be set before the first table exists
		if _, err := conn.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
			return err
		}
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, script := range list[version:] {
		if _, err := tx.ExecContext(ctx, script); err != nil {
			return err
		}
	}
	mark := fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", len(list), applicationID)
	if _, err := tx.ExecContext(ctx, mark); err != nil {
		return err
	}
	return tx.Commit()
}

// shrinkable enables incremental vacuum in a database that schema version 1
// created. That rewrites the file once. If the disk is too full for it,
// shrinkable leaves the database unchanged and returns nil.
func shrinkable(ctx context.Context, conn *sql.Conn) error {
	const incremental = 2
	var mode int
	if err := conn.QueryRowContext(ctx, "PRAGMA auto_vacuum").Scan(&mode); err != nil || mode == incremental {
		return err
	}
	_, err := conn.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
	if code(err) == sqlite3.SQLITE_FULL {
		return nil
	}
	return err
}
