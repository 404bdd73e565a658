package all

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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
