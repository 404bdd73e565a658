//go:build linux

package hostile

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPipesAmongConversationsHoldNothing puts named pipes where agents store
// their conversations. Every agent can do that. Loading a pipe must fail at
// once: a server that waited for the other end of the pipe would lose a thread.
func TestPipesAmongConversationsHoldNothing(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	for ref, path := range map[string]string{
		"codex:00000000-0000-4000-8000-000000000001":       ".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-00000000-0000-4000-8000-000000000001.jsonl",
		"codex:00000000-0000-4000-8000-000000000002":       ".codex/archived_sessions/rollout-2026-01-02T03-04-05-00000000-0000-4000-8000-000000000002.jsonl",
		"claude-code:00000000-0000-4000-8000-000000000003": ".claude/projects/-pipe/00000000-0000-4000-8000-000000000003.jsonl",
	} {
		path = filepath.Join(w.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		var out struct {
			Error struct{ Type, Message string }
		}
		if code, ok := w.Call("POST", "/api/session/"+ref+"/load", object{}, &out); !ok || code == http.StatusOK {
			t.Errorf("%s: %d %+v %t", ref, code, out.Error, ok)
		}
	}
	list := func(when string) {
		t.Helper()
		if code, ok := w.Call("GET", "/api/conversations", nil, nil); !ok || code != http.StatusOK {
			t.Errorf("%s: %d %t", when, code, ok)
		}
	}
	list("with pipes among the files")
	for _, folder := range []string{".codex/sessions", ".claude/projects", ".gemini/tmp", ".qwen/projects"} {
		path := filepath.Join(w.dir, folder)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list("with pipes in place of folders")
	w.stop()
}

// TestEndlessFilesAmongConversationsHoldNothing puts files with holes, which are
// terabytes long and take no space, where agents store their conversations.
// Loading one must fail at once, however the request names it, and the server
// must be able to stop.
func TestEndlessFilesAmongConversationsHoldNothing(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	for ref, path := range map[string]string{
		"codex:00000000-0000-4000-8000-000000000001":       ".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-00000000-0000-4000-8000-000000000001.jsonl",
		"claude-code:00000000-0000-4000-8000-000000000003": ".claude/projects/-endless/00000000-0000-4000-8000-000000000003.jsonl",
	} {
		path = filepath.Join(w.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			err = errors.Join(f.Truncate(8<<40), f.Close())
		}
		if err != nil {
			t.Skip("no file with holes: ", err)
		}
		for _, body := range []object{{}, {"viewFilePath": path}} {
			var out struct {
				Error struct{ Type, Message string }
			}
			if code, ok := w.Call("POST", "/api/session/"+ref+"/load", body, &out); !ok || code == http.StatusOK {
				t.Errorf("%s %v: %d %+v %t", ref, body, code, out.Error, ok)
			}
		}
	}
	if code, ok := w.Call("GET", "/api/conversations", nil, nil); !ok || code != http.StatusOK {
		t.Errorf("list: %d %t", code, ok)
	}
	w.stop()
}
