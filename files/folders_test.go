package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
