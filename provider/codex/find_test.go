package codex

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// TestFindByFileName compares the conversation that Find returns with the
// agent's own list.
func TestFindByFileName(t *testing.T) {
	r := newRig(t)
	r.Play(fakemodel.Step{Text: "Done."})
	r.FinishTurn("")
	r.Conn.Close()
	var want runnel.Conversation
	for c, err := range r.provider().(runnel.Discoverer).Discover(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		want = c
	}
	got, err := r.provider().(runnel.Finder).Find(t.Context(), want.AgentSessionID)
	if err != nil || got.AgentSessionID == "" || got.Dir != want.Dir || got.File != want.File {
		t.Errorf("Find: %+v, %v; Discover: %+v", got, err, want)
	}
	for _, id := range []string{"", "*", "../x", "00000000-0000-4000-8000-000000000000", strings.Repeat("a", 1<<16)} {
		if _, err := r.provider().(runnel.Finder).Find(t.Context(), id); runnel.CodeOf(err) != runnel.SessionNotFound {
			t.Errorf("%.40q: %v", id, err)
		}
	}
}

// TestNativeProgramReplacesLauncher checks that native finds the program in
// npm's layout and returns every other path unchanged.
func TestNativeProgramReplacesLauncher(t *testing.T) {
	launcher := realagents.Codex(t).Path
	program, env := native(launcher)
	if program == launcher || len(env) != 2 {
		t.Fatalf("%s, %v", program, env)
	}
	head := make([]byte, 4)
	f, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Read(head); err != nil || runtime.GOOS == "linux" && string(head) != "\x7fELF" {
		t.Errorf("the program begins with %q, %v", head, err)
	}
	elsewhere := filepath.Join(t.TempDir(), "codex.js")
	if err := testexec.Write(elsewhere, "#!/usr/bin/env node\n"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{program, elsewhere, "/nonexistent"} {
		if same, env := native(path); same != path || env != nil {
			t.Errorf("%s became %s, %v", path, same, env)
		}
	}
}

// TestEndlessFileIsNoConversation reads a file with holes that is too long to
// be read to its end.
func TestEndlessFileIsNoConversation(t *testing.T) {
	const id = "00000000-0000-4000-8000-000000000001"
	file := filepath.Join(t.TempDir(), "rollout-2026-01-02T03-04-05-"+id+".jsonl")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 8<<40); err != nil {
		t.Skip("no file with holes: ", err)
	}
	if c, ok := meta(file, id); ok {
		t.Errorf("found %+v", c)
	}
	if _, _, err := threadOf(file); runnel.CodeOf(err) != runnel.InvalidRequest {
		t.Error(err)
	}
}
