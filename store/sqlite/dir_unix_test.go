//go:build !windows

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

func TestDirectoryIsMadePrivate(t *testing.T) {
	dir := filepath.Join(ownDir(t), "a", "b")
	s := openTest(t, dir, small)
	if err := s.Append(t.Context(), "s", 0, delta("s", 1)); err != nil {
		t.Fatal(err)
	}
	checkModes(t, dir)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, %v, want 0700", d, info.Mode(), err)
		}
	}
}

// checkModes checks that only this user can access the files in dir, including
// the write-ahead log.
func checkModes(t *testing.T, dir string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		info, err := d.Info()
		if err == nil && info.Mode().Perm() != 0o600 {
			err = fmt.Errorf("%s has mode %v, want 0600", path, info.Mode())
		}
		return err
	})
	if err != nil || n < 3 {
		t.Errorf("%d files: %v", n, err)
	}
}

func TestLooseFileModesAreRepaired(t *testing.T) {
	dir := ownDir(t)
	openTest(t, dir, small).Close()
	if err := os.Chmod(filepath.Join(dir, "runnel.db"), 0o666); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, dir, small)
	if err := s.Append(t.Context(), "s", 0, delta("s", 1)); err != nil {
		t.Fatal(err)
	}
	checkModes(t, dir)
}

func TestUnusableDirectoryIsRefusedUnchanged(t *testing.T) {
	base := ownDir(t)
	path := func(name string) string { return filepath.Join(base, name) }
	mkdir := func(name string, mode fs.FileMode) string {
		if err := os.Mkdir(path(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path(name), mode); err != nil { // Mkdir applies the umask to the mode
			t.Fatal(err)
		}
		return path(name)
	}
	wants(t, refused(t, ""), "no data directory")

	if err := os.Symlink(mkdir("target", 0o700), path("link")); err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, path("link")), path("link"), "symbolic link")

	if err := os.WriteFile(path("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, path("file")), path("file"), "not a directory")
	wants(t, refused(t, filepath.Join(path("file"), "below")), "not a directory")
	wants(t, refused(t, mkdir("group", 0o720)), path("group"), "used by others", "0720", "chmod 700")
	wants(t, refused(t, mkdir("readable", 0o755)), path("readable"), "used by others", "0755", "chmod 700")
	wants(t, refused(t, mkdir("world", 0o1702)), path("world"), "used by others")

	dir := mkdir("notdb", 0o700)
	for _, content := range []string{"hello", strings.Repeat("SQLite format 3 not", 100)} {
		if err := os.WriteFile(filepath.Join(dir, "runnel.db"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		wants(t, refused(t, dir), "not a runnel database")
		if got, err := os.ReadFile(filepath.Join(dir, "runnel.db")); err != nil || string(got) != content {
			t.Errorf("the refused file was changed: %d bytes, %v", len(got), err)
		}
	}
}

func TestAppendFailsWhenTheDirectoryIsRemoved(t *testing.T) {
	appendFailsWhenRemoved(t, func(*Store) {})
}

// appendFailsWhenRemoved removes or replaces files of a store after before has
// run. Further appends must fail.
func appendFailsWhenRemoved(t *testing.T, before func(*Store)) {
	for name, remove := range map[string]func(dir string) error{
		"removed":     os.RemoveAll,
		"log removed": func(dir string) error { return os.Remove(filepath.Join(dir, "runnel.db-wal")) },
		"log moved": func(dir string) error {
			wal := filepath.Join(dir, "runnel.db-wal")
			return errors.Join(os.Rename(wal, wal+"2"), os.WriteFile(wal, nil, 0o600))
		},
		"journal removed": func(dir string) error { return os.Remove(filepath.Join(dir, "runnel.journal")) },
		"moved":           func(dir string) error { return os.Rename(dir, dir+"2") },
		"parent moved":    func(dir string) error { return os.Rename(filepath.Dir(dir), filepath.Dir(dir)+"2") },
		"replaced": func(dir string) error {
			db := filepath.Join(dir, "runnel.db")
			content, err := os.ReadFile(db)
			if err != nil {
				return err
			}
			if err := os.Remove(db); err != nil {
				return err
			}
			return os.WriteFile(db, content, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(ownDir(t), "data")
			s, err := Open(t.Context(), Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.Append(t.Context(), "s", 0, delta("s", 1)); err != nil {
				t.Fatal(err)
			}
			before(s)
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
			head, _ := s.tails.head("s")
			for range 2 {
				err := s.Append(t.Context(), "s", head, delta("s", head+1))
				if runnel.CodeOf(err) != runnel.StoreUnavailable {
					t.Fatalf("Append without the data directory: %v", err)
				}
				wants(t, runnel.Safe(err).Message, "removed or replaced")
			}
			if n := count(t, s, "s"); n != int(head) {
				t.Errorf("%d events can be read, want %d", n, head)
			}
		})
	}
}
