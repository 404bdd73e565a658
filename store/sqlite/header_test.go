package sqlite

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A checkpoint copies the first page from the write-ahead log into the
// database. If the power fails during the copy, the page in the database may
// have any content, but the page in the log is complete.
func TestDatabaseOpensWhenPowerFailsWhileItsFirstPageIsCopied(t *testing.T) {
	d := written(t, true)
	for name, from := range map[string]int{"name of the format": 0, "application id": 60} {
		t.Run(name, func(t *testing.T) {
			dir := ownDir(t)
			torn := slices.Clone(d.db)
			for i := from; i < 512; i++ {
				torn[i] = byte(i*7 + 1)
			}
			for file, data := range map[string][]byte{"runnel.db": torn, "runnel.db-wal": d.wal} {
				if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			store := openTest(t, dir, small)
			for session, said := range d.said {
				n := 0
				for _, err := range store.Read(t.Context(), session, 0) {
					if n++; err != nil {
						t.Fatal(err)
					}
				}
				if n != len(said) {
					t.Errorf("%s has %d events, want %d", session, n, len(said))
				}
			}
		})
	}
}

// A database of another program is rejected even if it has a write-ahead log,
// unless that log contains a valid first page.
func TestForeignDatabaseIsRefusedBesideALogWithoutItsFirstPage(t *testing.T) {
	dir := ownDir(t)
	theirs := append([]byte("SQLite format 3\x00"), make([]byte, 4080)...)
	copy(theirs[68:], "them")
	for file, data := range map[string][]byte{"runnel.db": theirs, "runnel.db-wal": make([]byte, 5000)} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, refused(t, dir), "not a runnel database")
}
