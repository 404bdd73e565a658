package acp

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// TestRecordDatabase records the tables of opencode's conversations.
func TestRecordDatabase(t *testing.T) {
	if !*record {
		t.Skip("records only with -record")
	}
	recordtest.Home(t, fixtureDir("opencode"))
	r, _ := converse(t, "opencode", fixtureDir("opencode"))
	var out strings.Builder
	err := r.Provider.(keptForkingProvider).kept.read(t.Context(), func(ctx context.Context, db *sql.DB) error {
		for _, table := range []string{"session", "message", "part"} {
			if err := dumpTable(ctx, db, table, &out); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	dump := portRE.ReplaceAllString(timeRE.ReplaceAllString(out.String(), "2026-01-01T00:00:00Z"), "127.0.0.1:1")
	path := filepath.Join("testdata", "opencode", "stored", "turns@"+r.Agent.Version+".sql")
	if err := os.WriteFile(path, []byte(dump), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dumpDatabase returns the statements that create the rows of a conversation, with
// only those columns that kept reads. It replaces ids, times and ports and keeps
// the order of ids and of times.
func dumpDatabase(t *testing.T, k kept, conversation string) []byte {
	t.Helper()
	var out strings.Builder
	err := k.read(t.Context(), func(ctx context.Context, db *sql.DB) error {
		for _, table := range storedTables {
			key := "session_id"
			if table[0] == "session" {
				key = "id"
			}
			rows, err := db.QueryContext(ctx, "SELECT 'INSERT INTO "+table[0]+" VALUES (' || quote("+strings.Join(table[1:], ") || ',' || quote(")+") || ');' FROM "+table[0]+" WHERE "+key+" = ? ORDER BY id", conversation)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var row string
				if err := rows.Scan(&row); err != nil {
					return err
				}
				out.WriteString(row + "\n")
			}
			if err := rows.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	dump := portRE.ReplaceAllString(timeRE.ReplaceAllString(out.String(), "2026-01-01T00:00:00Z"), "127.0.0.1:1")
	for _, re := range []*regexp.Regexp{idRE, stampRE} {
		number := make(map[string]int)
		for _, s := range slices.Compact(slices.Sorted(slices.Values(re.FindAllString(dump, -1)))) {
			number[s] = len(number) + 1
		}
		dump = re.ReplaceAllStringFunc(dump, func(s string) string {
			if prefix, _, named := strings.Cut(s, "_"); named {
				return fmt.Sprintf("%s_%012d", prefix, number[s])
			}
			return itoa(number[s])
		})
	}
	return []byte(dump)
}

// storedTables has the tables that dumpDatabase records, each with its columns.
var storedTables = [][]string{
	{"session", "id", "parent_id", "directory", "title", "time_created", "time_updated"},
	{"message", "id", "session_id", "time_created", "time_updated", "data"},
	{"part", "id", "message_id", "session_id", "time_created", "time_updated", "data"},
}

// dumpTable writes the statements that create a table with its rows.
func dumpTable(ctx context.Context, db *sql.DB, table string, out *strings.Builder) error {
	var create, values string
	err := db.QueryRowContext(ctx, `SELECT sql, (SELECT group_concat('quote("' || name || '")', ' || '','' || ') FROM pragma_table_info(?1)) FROM sqlite_schema WHERE name = ?1`, table).Scan(&create, &values)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s;\n", create)
	rows, err := db.QueryContext(ctx, "SELECT "+values+" FROM "+table+" ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			return err
		}
		fmt.Fprintf(out, "INSERT INTO %s VALUES (%s);\n", table, row)
	}
	return rows.Err()
}

// writeDatabase writes a database with the tables of a recording, changed by
// further statements.
func writeDatabase(t *testing.T, path string, further ...string) {
	t.Helper()
	recordings, err := filepath.Glob("testdata/opencode/stored/*.sql")
	if err != nil || len(recordings) == 0 {
		t.Fatalf("%q, %v", recordings, err)
	}
	dump, err := os.ReadFile(recordings[len(recordings)-1])
	if err != nil {
		t.Fatal(err)
	}
	runStatements(t, path, append([]string{string(dump)}, further...)...)
}

// fillDatabase writes a database with the rows that dumpDatabase has returned.
func fillDatabase(t *testing.T, path, rows string) {
	t.Helper()
	var statements []string
	for _, table := range storedTables {
		statements = append(statements, "CREATE TABLE "+table[0]+" ("+strings.Join(table[1:], ", ")+")")
	}
	runStatements(t, path, append(statements, rows)...)
}

func runStatements(t *testing.T, path string, statements ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func withEnv(t *testing.T, env ...string) runnel.Provider {
	t.Helper()
	return New(known(t, "opencode")).(runnel.Programmable).WithProgram(nil, append([]string{"XDG_DATA_HOME="}, env...))
}

func TestSummaryOfARecordedDatabase(t *testing.T) {
	data := t.TempDir()
	writeDatabase(t, filepath.Join(data, "opencode", "opencode.db"))
	other := filepath.Join(t.TempDir(), "other.db")
	writeDatabase(t, other)
	writeDatabase(t, filepath.Join(data, "opencode", "beside.db"))
	for name, env := range map[string][]string{
		"default": {"HOME=" + t.TempDir(), "XDG_DATA_HOME=" + data},
		"another": {"OPENCODE_DB=" + other},
		"beside":  {"XDG_DATA_HOME=" + data, "OPENCODE_DB=beside.db"},
	} {
		t.Run(name, func(t *testing.T) {
			p := withEnv(t, env...)
			got := summaries(t, p)
			if len(got) != 1 {
				t.Fatalf("%+v", got)
			}
			c := got[0]
			if c.Dir != filepath.Join(fixtureDir("opencode"), "project") || c.LastMessage != "The last message." || c.Title != "A title" || c.Size == 0 || c.CreatedAt.IsZero() || c.UpdatedAt.Before(c.CreatedAt) {
				t.Errorf("%+v", c)
			}
			if found, err := p.(runnel.Finder).Find(t.Context(), c.AgentSessionID); err != nil || found.AgentSessionID != c.AgentSessionID {
				t.Errorf("%+v, %v", found, err)
			}
			at := p.(runnel.WriterFinder).Written(t.Context(), c)
			if want := newestRow(t, p); !at.Equal(want) || at.Before(c.UpdatedAt) {
				t.Errorf("written at %v, changed at %v; the newest row is of %v", at, c.UpdatedAt, want)
			}
			underlying(p).own.add(c.AgentSessionID, at.Add(time.Second)) // as an agent of Runnel that ends
			if at := p.(runnel.WriterFinder).Written(t.Context(), c); !at.IsZero() {
				t.Errorf("written by another program at %v", at)
			}
			for _, id := range []string{"", "ses_0", "' OR 1 --", strings.Repeat("x", 1<<20)} {
				if _, err := p.(runnel.Finder).Find(t.Context(), id); runnel.CodeOf(err) != runnel.SessionNotFound {
					t.Errorf("find %.20q: %v", id, err)
				}
			}
		})
	}
}

// newestRow returns when the agent last changed a row of its only conversation.
// It may change parts of a message long after the row of the conversation.
func newestRow(t *testing.T, p runnel.Provider) time.Time {
	t.Helper()
	var at int64
	err := p.(keptForkingProvider).kept.read(t.Context(), func(ctx context.Context, db *sql.DB) error {
		return db.QueryRowContext(ctx, "SELECT max(time_updated) FROM (SELECT time_updated FROM session UNION ALL SELECT time_updated FROM message UNION ALL SELECT time_updated FROM part)").Scan(&at)
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMilli(at)
}

// opencode may change a message without changing the row of its conversation.
func TestChangedMessageChangesItsConversationInTheList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	writeDatabase(t, path)
	p := withEnv(t, "OPENCODE_DB="+path)
	changedAt := func() (at time.Time) {
		t.Helper()
		for f, err := range p.(runnel.Summarizer).StoredFiles(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			at = f.ModTime
		}
		return at
	}
	later := changedAt().Add(time.Second)
	runStatements(t, path, fmt.Sprintf("UPDATE message SET time_updated = %d", later.UnixMilli()))
	if at := changedAt(); !at.Equal(later) {
		t.Errorf("changed at %v, want %v", at, later)
	}
}

func TestOnlyConversationsWithAPromptAreListedFromADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	p := withEnv(t, "OPENCODE_DB="+path)
	if got := summaries(t, p); len(got) != 0 {
		t.Errorf("without a database: %+v", got)
	}
	writeDatabase(t, path, "DELETE FROM part", "UPDATE message SET data = 'no JSON'")
	if got := summaries(t, p); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestDatabaseWithLongValuesIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	writeDatabase(t, path, "UPDATE session SET title = replace(hex(zeroblob(1000000)), '0', 'x')",
		`UPDATE part SET data = json_object('type', 'text', 'text', replace(hex(zeroblob(1000000)), '0', 'y'))`)
	got := summaries(t, withEnv(t, "OPENCODE_DB="+path))
	if len(got) != 1 || len(got[0].Title) > 200 || len(got[0].LastMessage) > 200 || got[0].Size < 2_000_000 {
		t.Errorf("%.300s", fmt.Sprint(got))
	}
}

func TestUnreadableDatabaseIsReported(t *testing.T) {
	dir := t.TempDir()
	garbage, empty, view := filepath.Join(dir, "garbage.db"), filepath.Join(dir, "empty.db"), filepath.Join(dir, "view.db")
	for path, data := range map[string]string{garbage: strings.Repeat("no database ", 1000), empty: ""} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeDatabase(t, view, "ALTER TABLE session RENAME TO s",
		"CREATE VIEW session AS WITH RECURSIVE r(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM r) SELECT id, 0 AS time_updated, NULL AS parent_id FROM r")
	for _, path := range []string{garbage, empty, view, dir} {
		p := withEnv(t, "OPENCODE_DB="+path)
		var err error
		for _, err = range p.(runnel.Summarizer).StoredFiles(t.Context()) {
			if err == nil {
				t.Errorf("%s has a conversation", path)
			}
		}
		if runnel.CodeOf(err) != runnel.AgentError {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := p.(runnel.Finder).Find(t.Context(), "ses_0"); runnel.CodeOf(err) != runnel.AgentError {
			t.Errorf("%s: %v", path, err)
		}
	}
}
