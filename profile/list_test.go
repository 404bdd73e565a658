//go:build unix

package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testload"
)

// put writes files below dir, which only the current user may change.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const small = "---\nmodel: m\n---\ntext\n"

func listed(t *testing.T, f Folders) (out []string) {
	t.Helper()
	list, err := List(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		line := e.Name
		if e.Project {
			line += " project"
		}
		if e.Err != nil {
			line += " " + e.Err.Error()
		} else if e.Model == "" {
			line += " empty"
		}
		out = append(out, line)
	}
	return out
}

func TestListShowsProfilesByNameAndTheProjectsFirst(t *testing.T) {
	config, project := t.TempDir(), t.TempDir()
	put(t, config, map[string]string{"b.md": small, "a.md": small, "both.md": small, "notes.txt": "x", ".hidden.md": small, "sub/c.md": small, "shadowed.md": small})
	put(t, filepath.Join(project, ProjectDir), map[string]string{"both.md": "---\nmodel: mine\n---\n", "own.md": small, "shadowed.md": "no front matter"})
	want := []string{"a", "b", "both project", "own project",
		"shadowed project shadowed.md:1: does not begin with front matter; write a line --- before and after the settings"}
	if got := listed(t, Folders{config, project}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q", got)
	}
	if got := listed(t, Folders{Config: config}); len(got) != 4 {
		t.Errorf("without the project: %q", got)
	}
	if got := listed(t, Folders{Config: filepath.Join(config, "none"), Project: config}); len(got) != 0 {
		t.Errorf("no folders: %q", got)
	}
	if p, err := Find(Folders{config, project}, "both"); err != nil || p.Model != "mine" || !p.Project || p.Path != filepath.Join(project, ProjectDir, "both.md") {
		t.Errorf("both: %+v, %v", p, err)
	}
}

func TestFindSaysWhyAProfileCannotBeUsed(t *testing.T) {
	config, project := t.TempDir(), t.TempDir()
	put(t, config, map[string]string{"bad.md": "---\ntols: [x]\n---\n", "shadowed.md": small})
	put(t, filepath.Join(project, ProjectDir), map[string]string{"shadowed.md": "---\nmodel: 1\n---\n"})
	for name, want := range map[string]string{
		"none":      `there is no profile "none"`,
		"../bad":    `"../bad" is not the name of a profile`,
		"Bad":       `"Bad" is not the name of a profile`,
		"bad":       `the profile "bad" cannot be used: bad.md:2: unknown key "tols"; did you mean tools?`,
		"shadowed":  `the profile "shadowed" cannot be used: shadowed.md:2: model: must be text, not "1"`,
		"a\x1b[31m": `is not the name of a profile`,
	} {
		_, err := Find(Folders{config, project}, name)
		if runnel.CodeOf(err) != runnel.PersonaNotFound || !strings.Contains(err.Error(), want) || strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// List never opens an entry that is not a plain file, such as a pipe or a link.
// It lists the entry with an error.
func TestListReadsPlainFilesOnly(t *testing.T) {
	config, project, secret := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "secret.md")
	put(t, filepath.Dir(secret), map[string]string{"secret.md": small})
	put(t, config, map[string]string{"large.md": small + strings.Repeat("x", MaxFile), "Upper.md": small, "open.md": small, "folder.md/x": ""})
	if err := os.Chmod(filepath.Join(config, "open.md"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(config, "link.md")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(config, "pipe.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := listed(t, Folders{Config: config})
	for i, want := range []string{
		"Upper Upper.md: its name is not the name of a profile; name it with a to z, 0 to 9, _ and -, at most 64 of them, and begin with a letter or digit", "folder folder.md: is not a file", "large large.md: has more than 262144 bytes",
		"link link.md: is a link; put the file itself here", "open open.md: ", "pipe pipe.md: is not a file",
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("entry %d: want %q of %q", i, want, got)
		}
	}
	// If the project's folder of profiles is a link to another place, List
	// fails and does not follow it.
	if err := os.Mkdir(filepath.Join(project, ".runnel"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(project, ProjectDir)); err != nil {
		t.Fatal(err)
	}
	if list, err := List(Folders{Project: project}); err == nil || len(list) != 0 {
		t.Errorf("a folder elsewhere: %v, %v", list, err)
	}
}

func TestListIsBounded(t *testing.T) {
	config := t.TempDir()
	for i := range maxFiles + 5 {
		put(t, config, map[string]string{fmt.Sprintf("p%d.md", i): small})
	}
	if got := listed(t, Folders{Config: config}); len(got) != maxFiles {
		t.Errorf("%d are listed", len(got))
	}
}

// Opening a pipe blocks until another process opens its other end. An agent can
// put one in place of a folder.
func TestPipesInPlaceOfFoldersOfProfilesDoNotBlock(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".runnel"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, ProjectDir), filepath.Join(dir, "pipe")} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, f := range []Folders{{Project: dir}, {Config: filepath.Join(dir, "pipe")}} {
			if list, err := List(f); err == nil || len(list) != 0 {
				t.Errorf("%+v: %v, %v", f, list, err)
			}
		}
		if _, ok, err := Project(filepath.Join(dir, "pipe")); ok || err == nil {
			t.Errorf("settings in a pipe: %v, %v", ok, err)
		}
	}()
	select {
	case <-done:
	case <-time.After(testload.Room(5 * time.Second)):
		t.Fatal("it waits for the other end of the pipe")
	}
}
