package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/internal/testload"
)

// On a terminal, 'sessions worktree --merge' shows the state, merges only after
// the word yes, and only that state.
func TestMergeOfWorktreeAsksAtATerminal(t *testing.T) {
	testload.TakesLong(t)
	n := newNewcomer(t)
	n.serve(t)
	if seen, code := n.run(t, `sh -c "cd ~/work && git init -q -b main && git config user.name Ada && git config user.email ada@example.com && git commit -q --allow-empty -m first"`); code != exitOK {
		t.Fatal(seen)
	}
	seen, code := n.run(t, `curl --fail --silent --unix-socket ~/.local/share/runnel/api.sock --json '{"cliType":"script","projectDir":"`+n.home+`/work","options":{"worktree":true}}' http://localhost/api/session/create`)
	_, rest, _ := strings.Cut(seen, `"sessionId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if code != exitOK || len(id) != 36 {
		t.Fatalf("exit %d:\n%s", code, seen)
	}
	seen, _ = n.run(t, "runnel sessions worktree --json "+id)
	var st changes.WorktreeStatus
	if err := json.Unmarshal([]byte(seen), &st); err != nil {
		t.Fatalf("%v: %s", err, seen)
	}
	file := filepath.Join(st.Root, "new.txt")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	for _, tt := range []struct {
		typed, change, want string
		code                int
	}{
		{"no\n", "", "Nothing was merged.", exitOK},
		{"yes\n", "two\n", "has changed since you looked at it", exitFailed},
		{"yes\n", "", "Merged 1 commit into main", exitOK},
	} {
		tm := newTerminal(t, 200)
		cmd := n.command(t, "runnel sessions worktree --merge -m add "+id)
		tm.begin(t, cmd)
		tm.await(t, "Type yes to merge: ", 1)
		if tt.change != "" {
			write(tt.change)
		}
		tm.typeIn(t, tt.typed)
		if code := tm.rest(t, cmd); code != tt.code || !strings.Contains(tm.seen.String(), tt.want) || !strings.Contains(tm.seen.String(), "new.txt") {
			t.Errorf("%q: exit %d:\n%s", tt.typed, code, tm.seen.String())
		}
	}
	if text, err := os.ReadFile(filepath.Join(n.home, "work", "new.txt")); err != nil || string(text) != "two\n" {
		t.Errorf("merged %q, %v", text, err)
	}
}
