package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// newHome sets the home directory to one with these files.
func newHome(t *testing.T, names ...string) (*Service, string) {
	t.Helper()
	p := newProject(t, names...)
	t.Setenv("HOME", p.dir)
	t.Setenv("USERPROFILE", p.dir)
	return New(Config{DataDir: filepath.Join(p.dir, "data", "runnel")}), p.dir
}

func namesOf(list []Folder) (out []string) {
	for _, f := range list {
		name := f.Name
		if f.Git {
			name += " git"
		}
		out = append(out, name)
	}
	return out
}

func TestFoldersListsDirectories(t *testing.T) {
	s, home := newHome(t, "code/app/.git/HEAD", "code/api/main.go", "code/a.txt", "code/.cache/x", "data/runnel/runnel.db", "data/other/x", ".ssh/id_rsa", ".config/x", "code/worktree/.git")
	if err := os.Symlink("code", filepath.Join(home, "linked")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"~":             {"code", "data"},
		"~/":            {"code", "data"},
		"~/.":           {".config"},
		"~/co":          {"code"},
		"~/code/":       {"api", "app git", "worktree git"},
		"~/code/ap":     {"api", "app git"},
		"~/code/.c":     {".cache"},
		"~/linked/":     {"api", "app git", "worktree git"},
		"~/data/":       {"other"},
		"~/data/runnel": nil,
		home + "/code/": {"api", "app git", "worktree git"},
		home + "/cde":   {"code"},
	} {
		got, err := s.Folders(t.Context(), path)
		if err != nil || !slices.Equal(namesOf(got.Folders), want) || got.Home != home || got.Repositories != nil {
			t.Errorf("%s: got %+v, %v, want %q", path, got, err, want)
		}
	}
	got, err := s.Folders(t.Context(), "~/linked/")
	if err != nil || got.Path != filepath.Join(home, "linked") || got.Folders[0].Path != filepath.Join(home, "linked", "api") {
		t.Errorf("got %+v, %v", got, err)
	}
	for path, want := range map[string]error{
		"code/": ErrNoHome, "~other/": ErrNoHome, "../": ErrNoHome, "a\x00/": ErrNoHome, "~/none/": ErrGone, "~/code/a.txt/": ErrGone, "~/data/runnel/": ErrGone, "~/data/runnel/x": ErrGone, "~/.ssh/": ErrGone,
	} {
		if got, err := s.Folders(t.Context(), path); !errors.Is(err, want) {
			t.Errorf("%q: got %+v, %v, want %v", path, got, err, want)
		}
	}
}

func TestFoldersFindsRepositories(t *testing.T) {
	s, home := newHome(t, "code/app/.git/index", "code/app/vendor/lib/.git/HEAD", "code/old/.git/index", "top/.git/HEAD", "a/b/c/d/deep/.git/HEAD", ".cache/x/.git/HEAD", "data/runnel/x/.git/HEAD", "node_modules/x/.git/HEAD")
	s.bounds.first = time.Hour
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(home, "code/old/.git/index"), long, long); err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(home, "code/app/.git/index"), soon, soon); err != nil {
		t.Fatal(err)
	}
	got, err := s.Folders(t.Context(), "")
	if want := []string{"app git", "top git", "old git"}; err != nil || !slices.Equal(namesOf(got.Repositories), want) {
		t.Errorf("got %q, %v, want %q", namesOf(got.Repositories), err, want)
	}
	if got.Repositories[0].Path != filepath.Join(home, "code", "app") {
		t.Errorf("got %+v", got.Repositories[0])
	}
}

func TestFoldersIsBounded(t *testing.T) {
	s, home := newHome(t)
	for i := range maxFolders + 1 {
		if err := os.Mkdir(filepath.Join(home, fmt.Sprintf("d%03d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Folders(t.Context(), "~/"); err != nil || !got.More || len(got.Folders) != maxFolders {
		t.Errorf("got %d folders, more %v, %v", len(got.Folders), got.More, err)
	}
}

func TestFoldersSaysWhereNoSessionCanStart(t *testing.T) {
	_, home := newHome(t, "data/runnel/runnel.db", "code/app/.git/HEAD", "locked/x")
	s := New(Config{DataDir: filepath.Join(home, "data", "runnel"), Refuse: func(dir string) string {
		if dir == home || dir == filepath.Join(home, "data") || dir == filepath.Join(home, "locked") {
			return "not here"
		}
		return ""
	}})
	got, err := s.Folders(t.Context(), "")
	if err != nil || got.Refused != "not here" {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, f := range append(got.Folders, got.Repositories...) {
		if want := f.Name == "data" || f.Name == "locked"; (f.Refused == "not here") != want {
			t.Errorf("got %+v", f)
		}
	}
}

func TestCreateMakesOneFolder(t *testing.T) {
	s, home := newHome(t, "code/app/.git/HEAD", "code/a.txt", "data/runnel/runnel.db", ".ssh/id_rsa")
	if err := os.Symlink("code", filepath.Join(home, "linked")); err != nil {
		t.Fatal(err)
	}
	for _, parent := range []string{home, "~/code", "~/linked/"} {
		var recorded string
		got, err := s.Create(t.Context(), parent, "new project", func(path string) error { recorded = path; return nil })
		if err != nil || got.Path != recorded || got.Name != "new project" || !filepath.IsAbs(got.Path) {
			t.Fatalf("%s: got %+v, %v", parent, got, err)
		}
		info, err := os.Stat(got.Path)
		if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
			t.Errorf("%s: %v, %v", parent, info, err)
		}
		if err := os.Remove(got.Path); err != nil {
			t.Fatal(err)
		}
	}
	before := treeOf(t, home)
	for _, c := range []struct {
		parent, name string
		want         error
	}{
		{"~/code", "app", ErrExists}, {"~/code", "a.txt", ErrExists}, {"~", "linked", ErrExists},
		{"~/code", "", ErrBadName}, {"~/code", ".", ErrBadName}, {"~/code", "..", ErrBadName}, {"~/code", ".hidden", ErrBadName},
		{"~/code", "a/b", ErrBadName}, {"~/code", "../b", ErrBadName}, {"~/code", "/b", ErrBadName}, {"~/code", `a\b`, ErrBadName},
		{"~/code", "a\x00b", ErrBadName}, {"~/code", "a\nb", ErrBadName}, {"~/code", "\xff", ErrBadName}, {"~/code", " a", ErrBadName}, {"~/code", "a ", ErrBadName}, {"~/code", "a.", ErrBadName},
		{"~/code", "a\u202eb", ErrBadName}, {"~/code", strings.Repeat("a", 256), ErrBadName}, {"~/code", "id_rsa", ErrBadName},
		{"~/none", "a", ErrGone}, {"~/code/a.txt", "a", ErrGone}, {"~/data/runnel", "a", ErrGone}, {"~/.ssh", "a", ErrGone},
		{"code", "a", ErrNoHome}, {"", "a", ErrNoHome}, {"~other", "a", ErrNoHome}, {"~/" + strings.Repeat("a", 5000), "a", ErrNoHome},
	} {
		if got, err := s.Create(t.Context(), c.parent, c.name, silent); !errors.Is(err, c.want) {
			t.Errorf("%q in %q: got %+v, %v, want %v", c.name, c.parent, got, err, c.want)
		}
	}
	failed := errors.New("no entry")
	if got, err := s.Create(t.Context(), "~/code", "a", func(string) error { return failed }); err != failed {
		t.Errorf("without a record: got %+v, %v", got, err)
	}
	if after := treeOf(t, home); !slices.Equal(before, after) {
		t.Errorf("got %q, want %q", after, before)
	}
}

func TestCreateFailsWhereNothingCanBeWritten(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	s, home := newHome(t, "locked/x")
	locked := filepath.Join(home, "locked")
	if err := os.Chmod(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(locked, 0o700) })
	if got, err := s.Create(t.Context(), locked, "a", silent); !errors.Is(err, ErrNotMade) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func silent(string) error { return nil }

// treeOf returns the paths below dir.
func treeOf(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		out = append(out, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
