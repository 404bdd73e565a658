//go:build linux

package kill

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/testprogram"
)

// elsewhere is a server on a machine with stored conversations that are no
// sessions.
type elsewhere struct {
	testprogram.Server
	t     *testing.T
	token string
}

const storedConversations = 60

// newElsewhere returns a server that has not been started.
func newElsewhere(t *testing.T, data string) *elsewhere {
	t.Helper()
	e := &elsewhere{t: t}
	e.Home, e.Data = t.TempDir(), data
	e.token = e.Token(t, "read")
	return e
}

// converse stores conversations, as Claude Code does.
func (e *elsewhere) converse() {
	e.t.Helper()
	dir := filepath.Join(e.Home, ".claude", "projects", "-p")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		e.t.Fatal(err)
	}
	for i := range storedConversations {
		id := fmt.Sprintf("0192f0c1-7d5e-4c3a-9d0e-%012d", i)
		text := fmt.Sprintf(`{"type":"user","uuid":"u","sessionId":%q,"cwd":"/p","timestamp":"2026-11-01T00:00:00Z","message":{"role":"user","content":"zebra number %d"}}`+"\n", id, i) +
			fmt.Sprintf(`{"type":"assistant","uuid":"a","parentUuid":"u","sessionId":%q,"timestamp":"2026-11-01T00:00:01Z","message":{"id":"m","role":"assistant","model":"x","content":[{"type":"text","text":"seen %d"}]}}`+"\n", id, i)
		if err := os.WriteFile(filepath.Join(dir, id+".jsonl"), []byte(text), 0o600); err != nil {
			e.t.Fatal(err)
		}
	}
}

// get decodes the answer to a request.
func (e *elsewhere) get(path string, v any) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), "GET", e.API+path, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err = errors.Join(err, json.Unmarshal(data, v)); err != nil || res.StatusCode != http.StatusOK {
		e.t.Fatalf("%s: %d %s %v", path, res.StatusCode, data, err)
	}
}

// found returns how often the search finds the prompt of each conversation.
func (e *elsewhere) found() map[string]int {
	e.t.Helper()
	var page struct {
		Hits []struct {
			AgentSessionID string
		}
	}
	e.get("/api/search?kind=prompt&limit=100&q=zebra", &page)
	times := make(map[string]int)
	for _, h := range page.Hits {
		times[h.AgentSessionID]++
	}
	return times
}

// listed returns the number of conversations in the list.
func (e *elsewhere) listed() int {
	e.t.Helper()
	var page struct{ Conversations []json.RawMessage }
	e.get("/api/conversations?limit=100", &page)
	return len(page.Conversations)
}

// findsAll waits until each conversation is found, and fails if one is found
// twice.
func (e *elsewhere) findsAll() {
	e.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for len(e.found()) < storedConversations {
		if time.Now().After(deadline) {
			e.t.Fatalf("%d of %d conversations are found", len(e.found()), storedConversations)
		}
		pass(50 * time.Millisecond)
	}
	for id, n := range e.found() {
		if n != 1 {
			e.t.Errorf("%s is found %d times", id, n)
		}
	}
	if n := e.listed(); n != storedConversations {
		e.t.Errorf("%d conversations are listed", n)
	}
}

// unfinished returns the unfinished indexes of conversations.
func (e *elsewhere) unfinished() []string {
	e.t.Helper()
	list, err := filepath.Glob(filepath.Join(e.Data, "conversations.index.*.tmp"))
	if err != nil {
		e.t.Fatal(err)
	}
	return list
}

// TestIndexesSurviveKillsAndAreMadeAgainFromABackup kills the server while it
// indexes stored conversations. A backup contains neither index, and a restored
// server makes both again.
func TestIndexesSurviveKillsAndAreMadeAgainFromABackup(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, filepath.Join(t.TempDir(), "data"))
	e.converse()
	for i := range rounds(20, 5) {
		e.Start(t)
		e.listed()
		for deadline := time.Now().Add(10 * time.Second); len(e.found()) < 8*i && time.Now().Before(deadline); {
			pass(time.Millisecond)
		}
		e.Kill()
	}
	e.Start(t)
	e.findsAll()

	backup := filepath.Join(t.TempDir(), "b.tar")
	e.Command(t, "backup", backup)
	f, err := os.Open(backup)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(h.Name, "index") || strings.Contains(h.Name, "search") {
			t.Errorf("the backup contains %s", h.Name)
		}
	}
	restored := &elsewhere{t: t, token: e.token}
	restored.Home, restored.Data = e.Home, filepath.Join(t.TempDir(), "restored")
	restored.Command(t, "restore", backup)
	restored.Start(t)
	restored.findsAll()
}

// TestIndexesWaitForSpace fills the disk before there are conversations. They
// are listed all the same, and found as soon as there is space.
func TestIndexesWaitForSpace(t *testing.T) {
	disk := t.TempDir()
	// The indexer leaves 64 MiB of the disk to the event log.
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=256m,mode=0700"); err != nil {
		t.Skipf("a disk that can be filled needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	e := newElsewhere(t, filepath.Join(disk, "data"))
	e.Start(t)
	free := fill(t, disk)
	e.converse()
	deadline := time.Now().Add(time.Minute)
	for e.listed() < storedConversations {
		if time.Now().After(deadline) {
			t.Fatalf("on a full disk, %d conversations are listed", e.listed())
		}
		pass(50 * time.Millisecond)
	}
	if n := len(e.found()); n != 0 {
		t.Errorf("on a full disk, %d conversations are found", n)
	}
	e.Stop() // stores the index of conversations, if it can
	if list := e.unfinished(); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}
	free()
	e.Start(t)
	e.findsAll()
}
