package acp

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/sqliteread"
	"github.com/runnel-dev/runnel/internal/text"
)

// kept lists the conversations in an agent's database, which has a row for each,
// and reads their text.
type kept struct{ of *provider }

// databaseTime limits how long a query of an agent's database may take.
const databaseTime = 5 * time.Second

// opencodeDatabase returns the path of opencode's database (1.18.33).
func opencodeDatabase(env []string) string {
	data, name := inHome(".local", "share")(env), "opencode.db"
	for _, e := range env {
		if v, ok := variable(e, "XDG_DATA_HOME"); ok && filepath.IsAbs(v) {
			data = v
		}
		if v, ok := variable(e, "OPENCODE_DB"); ok && v != "" {
			name = v // ":memory:" names no file
		}
	}
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(data, "opencode", name)
}

func (k kept) path() string {
	return k.of.agent.quirks().stored.database(slices.Concat(os.Environ(), k.of.env))
}

// read calls f with the agent's database. It does nothing if there is none.
func (k kept) read(ctx context.Context, f func(context.Context, *sql.DB) error) error {
	return k.readFor(ctx, databaseTime, f)
}

// readFor is read with another limit than databaseTime.
func (k kept) readFor(ctx context.Context, most time.Duration, f func(context.Context, *sql.DB) error) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	db, err := sqliteread.Open(limited, k.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the agent was never used
	}
	if err == nil {
		if err = hasTables(limited, db); err == nil {
			err = f(limited, db)
		}
		err = errors.Join(err, db.Close())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return runnel.Fail(runnel.AgentError, k.of.DisplayName()+"'s database cannot be read", err)
	}
	return nil
}

// hasTables returns an error if the tables are missing that kept reads.
func hasTables(ctx context.Context, db *sql.DB) error {
	for _, name := range []string{"session", "message", "part"} {
		if ok, err := sqliteread.IsTable(ctx, db, name); err != nil || !ok {
			return cmp.Or(err, errNoTable)
		}
	}
	return nil
}

var errNoTable = errors.New("acp: the database has no table of conversations")

// maxKept bounds the conversations that are listed. Of newestKept, also the
// times of their messages are read.
const (
	maxKept    = 100_000
	newestKept = 20
)

// StoredFiles implements [runnel.Summarizer]. It yields a row of the database
// in place of a file.
func (k kept) StoredFiles(ctx context.Context) iter.Seq2[runnel.StoredFile, error] {
	return func(yield func(runnel.StoredFile, error) bool) {
		var found []runnel.StoredFile
		path := k.path()
		err := k.read(ctx, func(ctx context.Context, db *sql.DB) error {
			// The agent changes the row of a session less often than its messages.
			rows, err := db.QueryContext(ctx, `WITH listed AS (SELECT id, time_updated FROM session WHERE parent_id IS NULL AND octet_length(id) <= 200 ORDER BY time_updated DESC LIMIT ?1),
				newest AS (SELECT id FROM listed ORDER BY time_updated DESC LIMIT ?2)
				SELECT id, CASE WHEN id IN newest THEN max(time_updated, coalesce((SELECT max(time_updated) FROM message WHERE session_id = listed.id), 0)) ELSE time_updated END
				FROM listed`, maxKept, newestKept)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id string
				var updated int64
				if err := rows.Scan(&id, &updated); err != nil {
					return err
				}
				found = append(found, runnel.StoredFile{Path: path + rowMark + id, ModTime: time.UnixMilli(updated)})
			}
			return rows.Err()
		})
		for _, f := range found {
			if !yield(f, nil) {
				return
			}
		}
		if err != nil {
			yield(runnel.StoredFile{}, err)
		}
	}
}

// StoredPlaces implements [runnel.Placer]. A change of the database appears in
// its write-ahead log first.
func (k kept) StoredPlaces() []runnel.StoredPlace {
	dir, name := filepath.Split(k.path())
	return []runnel.StoredPlace{{Dir: filepath.Clean(dir), Pattern: name, Shared: true}, {Dir: filepath.Clean(dir), Pattern: name + "-wal", Shared: true}}
}

// StoredFile implements [runnel.Placer]. All conversations are in one file.
func (kept) StoredFile(string) (f runnel.StoredFile, ok bool) { return f, false }

// rowMark separates the path of a database from the id of a row.
const rowMark = "#"

// Summarize implements [runnel.Summarizer].
func (k kept) Summarize(ctx context.Context, f runnel.StoredFile) (runnel.Conversation, error) {
	return k.Find(ctx, f.Path[min(len(k.path()+rowMark), len(f.Path)):])
}

// Find implements [runnel.Finder]. It starts no process.
func (k kept) Find(ctx context.Context, id string) (c runnel.Conversation, err error) {
	none := runnel.Fail(runnel.SessionNotFound, k.of.DisplayName()+" has no such conversation")
	if id == "" || len(id) > event.MaxAgentSessionID {
		return c, none
	}
	err = k.read(ctx, func(ctx context.Context, db *sql.DB) error {
		var created, updated int64
		var dir, title string
		err := db.QueryRowContext(ctx, "SELECT substr(directory, 1, 4097), substr(title, 1, 1000), time_created, time_updated FROM session WHERE id = ?", id).Scan(&dir, &title, &created, &updated)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		var size int64
		var last sql.NullString
		err = errors.Join(
			db.QueryRowContext(ctx, `SELECT coalesce((SELECT sum(octet_length(data)) FROM message WHERE session_id = ?1), 0)
				+ coalesce((SELECT sum(octet_length(data)) FROM part WHERE session_id = ?1), 0)`, id).Scan(&size),
			db.QueryRowContext(ctx, `SELECT (SELECT substr(json_extract(data, '$.text'), 1, 1000) FROM part WHERE session_id = ? AND json_valid(data)
				AND json_extract(data, '$.type') = 'text' AND json_extract(data, '$.synthetic') IS NOT 1 ORDER BY time_created DESC, id DESC LIMIT 1)`, id).Scan(&last),
		)
		if err != nil {
			return err
		}
		if !last.Valid || !filepath.IsAbs(dir) {
			return nil // a conversation without a prompt
		}
		c = runnel.Conversation{
			AgentSessionID: id, Dir: dir, Title: text.OneLine(runnel.TitleOf(title), 200), LastMessage: text.OneLine(last.String, 200),
			Size: size, CreatedAt: time.UnixMilli(created), UpdatedAt: time.UnixMilli(updated),
		}
		return nil
	})
	if err == nil && c.AgentSessionID == "" {
		err = none
	}
	return c, err
}

// Writers implements [runnel.WriterFinder]. The agent does not tell which
// processes have a conversation open.
func (kept) Writers(context.Context) (list []runnel.Writer, known bool) { return nil, false }

// Written implements [runnel.WriterFinder].
func (k kept) Written(ctx context.Context, ref runnel.Conversation) (at time.Time) {
	_ = k.read(ctx, func(ctx context.Context, db *sql.DB) error {
		var updated int64
		err := db.QueryRowContext(ctx, `SELECT max(time_updated, coalesce((SELECT max(time_updated) FROM message WHERE session_id = ?1), 0),
			coalesce((SELECT max(time_updated) FROM part WHERE session_id = ?1), 0)) FROM session WHERE id = ?1`, ref.AgentSessionID).Scan(&updated)
		if err == nil {
			at = time.UnixMilli(updated)
		}
		return err
	}) // without a database, nobody writes
	return k.of.own.others(ref.AgentSessionID, at)
}
