package claude

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
)

// storeIn writes a file of a conversation that began in dir, with its time of
// the last change, into the folder of another directory.
func storeIn(t *testing.T, projects, folder, dir, id string, at time.Time) string {
	t.Helper()
	file := filepath.Join(projects, slug(folder), id+".jsonl")
	line := `{"type":"user","uuid":"u1","timestamp":"2026-01-02T03:04:05Z","cwd":"` + filepath.ToSlash(dir) + `","message":{"role":"user","content":"a prompt"}}` + "\n"
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
	return file
}

// A conversation is found by the name of its files, in the folders of all
// directories in which it was continued. Files with other names are not read.
func TestFindFindsConversationByFileName(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CLAUDE_CONFIG_DIR", home)
	projects := filepath.Join(home, "projects")
	const id, other, linked = "0192f0c1-7d5e-7c3a-9d0e-300000000001", "0192f0c1-7d5e-7c3a-9d0e-300000000002", "0192f0c1-7d5e-7c3a-9d0e-300000000003"
	f, ok := any(New()).(runnel.Finder)
	if !ok {
		t.Fatal("the provider is no Finder")
	}
	absent := func(id string) {
		t.Helper()
		if c, err := f.Find(t.Context(), id); runnel.CodeOf(err) != runnel.SessionNotFound {
			t.Errorf("%q: found %+v, %v", id, c, err)
		}
	}
	absent(id) // there is no folder yet
	now := time.Now()
	first := storeIn(t, projects, "/tmp/a", "/tmp/a", id, now.Add(-time.Hour))
	second := storeIn(t, projects, "/tmp/b", "/tmp/b", id, now)
	storeIn(t, projects, "/tmp/c", "/tmp/c", other, now)
	c, err := f.Find(t.Context(), id)
	if err != nil || c.AgentSessionID != id || c.Dir != "/tmp/b" || c.File != second || c.Title == "" || !slices.Equal(c.Older, []string{first}) {
		t.Errorf("found %+v, %v", c, err)
	}
	if c.StoredFor == nil || !c.StoredFor("/tmp/a") || !c.StoredFor("/tmp/b") || c.StoredFor("/tmp/c") {
		t.Error("the folders of the conversation's files differ")
	}
	// The entries of a resumed conversation may name another directory than the
	// one to whose folder the file belongs.
	storeIn(t, projects, "/tmp/c", "/tmp/a", id, now.Add(-2*time.Hour))
	if c, err := f.Find(t.Context(), id); err != nil || !c.StoredFor("/tmp/c") {
		t.Errorf("found %+v, %v", c, err)
	}
	outside := filepath.Join(home, "outside.jsonl")
	if err := os.WriteFile(outside, []byte(`{"type":"user","message":{"content":"text"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(projects, slug("/tmp/a"), linked+".jsonl")); err != nil {
		t.Skip(err)
	}
	for _, id := range []string{"", "*", "../outside", linked, strings.Repeat("a", 36), "0192f0c1-7d5e-7c3a-9d0e-300000000009"} {
		absent(id)
	}
}
