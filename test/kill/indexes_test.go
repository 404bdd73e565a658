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
	if testing.Short() {
		t.Skip("drives the built program")
	}
	e := &elsewhere{t: t}
	e.Home, e.Data = t.TempDir(), data
	e.token = e.Token(t, "read,send")
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
		file, ago := filepath.Join(dir, id+".jsonl"), time.Now().Add(-time.Hour) // a new file would count as in use
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, ago, ago)); err != nil {
			e.t.Fatal(err)
		}
	}
}

// get decodes the answer to a GET request.
func (e *elsewhere) get(path string, v any) {
	e.t.Helper()
	e.do("GET", path, v)
}

// do sends a request without a body and decodes the answer.
func (e *elsewhere) do(method, path string, v any) {
	e.t.Helper()
	var body io.Reader
	if method == "POST" {
		body = strings.NewReader("{}")
	}
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.API+path, body)
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.token)
	if method == "POST" {
		req.Header.Set("Content-Type", "application/json")
	}
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

// TestIndexesWaitForSpace fills the disk before there are conversations. The
// server lists them, and finds their text as soon as there is space.
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

// TestConversationOfDeletedSessionIsHidden deletes a session whose conversation
// stays in the agent's files. Neither the list nor the search shows the
// conversation again, also after a kill and in a restored backup, until somebody
// opens it.
func TestConversationOfDeletedSessionIsHidden(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, filepath.Join(t.TempDir(), "data"))
	e.converse()
	e.Start(t)
	e.findsAll()
	const native = "0192f0c1-7d5e-4c3a-9d0e-000000000007"
	var session struct{ SessionID string }
	e.do("POST", "/api/session/claude-code:"+native+"/load", &session)
	e.do("DELETE", "/api/session/"+session.SessionID, &struct{}{})
	hidden := func(e *elsewhere) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); len(e.found()) < storedConversations-1 && time.Now().Before(deadline); {
			pass(50 * time.Millisecond)
		}
		if found := e.found(); len(found) != storedConversations-1 || found[native] != 0 {
			t.Errorf("%d conversations are found, the deleted one %d times", len(found), found[native])
		}
		if n := e.listed(); n != storedConversations-1 {
			t.Errorf("%d conversations are listed", n)
		}
		var page struct {
			Conversations []struct {
				AgentSessionID string
				Hidden         bool
			}
		}
		e.get("/api/conversations?limit=100&hidden=true", &page)
		var names []string
		for _, c := range page.Conversations {
			if c.Hidden {
				names = append(names, c.AgentSessionID)
			}
		}
		if len(page.Conversations) != storedConversations || len(names) != 1 || names[0] != native {
			t.Errorf("%d conversations with the hidden ones, of which are hidden: %v", len(page.Conversations), names)
		}
		if out := e.Command(t, "sessions", "list", "--all"); strings.Contains(out, native) {
			t.Errorf("it is listed:\n%s", out)
		}
		if out := e.Command(t, "sessions", "list", "--all", "--hidden"); !strings.Contains(out, native) || strings.Count(out, "hidden") != 1 {
			t.Errorf("it is not listed as hidden:\n%s", out)
		}
	}
	hidden(e)
	e.Kill()
	e.Start(t)
	hidden(e)
	backup := filepath.Join(t.TempDir(), "b.tar")
	e.Command(t, "backup", backup)
	restored := &elsewhere{t: t, token: e.token}
	restored.Home, restored.Data = e.Home, filepath.Join(t.TempDir(), "restored")
	restored.Command(t, "restore", backup)
	if out := restored.Command(t, "sessions", "list", "--all"); strings.Contains(out, native) { // without a server
		t.Errorf("without a server it is listed:\n%s", out)
	}
	restored.Start(t)
	hidden(restored)

	e.do("POST", "/api/session/claude-code:"+native+"/load", &session)
	if n := e.listed(); n != storedConversations {
		t.Errorf("%d conversations are listed after it was opened", n)
	}
}
