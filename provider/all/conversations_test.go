package all

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/conversations"
	"github.com/runnel-dev/runnel/internal/testload"
)

// multiply stores n conversations with two agents. Each is a copy of a recorded
// one with an id of its own.
func multiply(t testing.TB, n int) {
	t.Helper()
	home := t.TempDir()
	claude, codex := filepath.Join(home, "claude"), filepath.Join(home, "codex")
	t.Setenv("CLAUDE_CONFIG_DIR", claude)
	t.Setenv("CODEX_HOME", codex)
	recorded := func(path, part string) []byte {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			if strings.HasPrefix(f.Name, part) {
				return f.Data
			}
		}
		t.Fatalf("%s has no %s", path, part)
		return nil
	}
	one := recorded("../claude/testdata/text@2.1.330.txtar", "stored/")
	two := recorded("../codex/testdata/stored/text@0.169.0.txtar", "sessions/")
	oldOne, oldTwo := []byte("00000000-0000-4000-8000-000000000003"), two[bytes.Index(two, []byte(`"id":"`))+6:][:36]
	for i := range n {
		id := fmt.Sprintf("11111111-0000-4000-8000-%012d", i)
		path := filepath.Join(claude, "projects", fmt.Sprintf("-project-%d", i%50), id+".jsonl")
		data := bytes.ReplaceAll(one, oldOne, []byte(id))
		if i%2 == 1 {
			path = filepath.Join(codex, "sessions", "2026", "01", fmt.Sprintf("%02d", i%28+1), "rollout-2026-01-01T00-00-00-"+id+".jsonl")
			data = bytes.ReplaceAll(two, oldTwo, []byte(id))
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// list returns all conversations, and how long it took.
func list(t testing.TB, x *conversations.Index) (ids map[string]bool, took time.Duration) {
	t.Helper()
	begin := time.Now()
	ids = make(map[string]bool)
	for q := (conversations.Query{Limit: 500}); ; {
		page, err := x.List(t.Context(), q)
		if err != nil || len(page.Checking) > 0 {
			t.Fatalf("%v, still reading %q", err, page.Checking)
		}
		for _, c := range page.Conversations {
			ids[c.AgentSessionID] = true
		}
		if q.After = page.Next; q.After == "" {
			return ids, time.Since(begin)
		}
	}
}

// TestTenThousandConversationsAreListedWithinASecond lists them with an index
// that a new process has loaded, and again after one of them has changed.
func TestTenThousandConversationsAreListedWithinASecond(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 500
	}
	multiply(t, n)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "index")
	open := func() *conversations.Index {
		var files []runnel.Provider
		for _, p := range Providers() {
			if _, ok := p.(runnel.Summarizer); ok {
				files = append(files, p)
			}
		}
		return conversations.New(conversations.Config{Providers: files, File: file, MaxWait: 5 * time.Minute})
	}
	cold := open()
	ids, took := list(t, cold)
	t.Logf("built the index in %v", took)
	cold.Close()
	if len(ids) != n {
		t.Fatalf("%d conversations, want %d", len(ids), n)
	}
	if st, err := os.Stat(file); err == nil {
		t.Logf("the index has %d bytes", st.Size())
	}
	warm := open()
	defer warm.Close()
	for _, when := range []string{"in a new process", "again"} {
		began := time.Now()
		ids, took := list(t, warm)
		testload.Within(t, "the list", began, time.Second)
		t.Logf("listed %s in %v", when, took)
		if len(ids) != n {
			t.Errorf("%s: %d conversations, want %d", when, len(ids), n)
		}
	}
}

// A program that watches the places of an agent learns of every file, and
// describes each as a list of all files does.
func TestStoredFilesLieAtTheirPlaces(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_DATA_HOME", "")
	multiply(t, 20)
	seen := make(map[string]int)
	for _, p := range Providers() {
		files, lists := p.(runnel.Summarizer)
		if !lists {
			continue
		}
		at, ok := p.(runnel.Placer)
		if !ok {
			t.Errorf("%s stores conversations at unknown places", p.Name())
			continue
		}
		places := at.StoredPlaces()
		for _, place := range places {
			if !filepath.IsAbs(place.Dir) || place.Pattern == "" {
				t.Errorf("%s: %+v", p.Name(), place)
			}
		}
		for f, err := range files.StoredFiles(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			seen[p.Name()]++
			if got, ok := at.StoredFile(f.Path); !ok || got != f {
				t.Errorf("%s: %+v, %v, want %+v", p.Name(), got, ok, f)
			}
			if !slices.ContainsFunc(places, func(place runnel.StoredPlace) bool {
				rel, err := filepath.Rel(place.Dir, f.Path)
				matched, _ := path.Match(place.Pattern, filepath.ToSlash(rel))
				return err == nil && matched && !place.Shared
			}) {
				t.Errorf("%s: no place has %s", p.Name(), f.Path)
			}
		}
		if _, ok := at.StoredFile(filepath.Join(t.TempDir(), "11111111-0000-4000-8000-000000000000.jsonl")); ok {
			t.Errorf("%s: a file elsewhere is a conversation", p.Name())
		}
	}
	if seen["claude-code"] != 10 || seen["codex"] != 10 {
		t.Errorf("%v", seen)
	}
}
