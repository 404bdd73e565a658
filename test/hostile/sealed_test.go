//go:build linux

package hostile

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecretsOfSessionsAreEncrypted gives a session an MCP server with a
// credential. Neither the data directory nor a backup may contain the
// credential. After a restart, the agent must get it again if the server has
// the encryption key.
func TestSecretsOfSessionsAreEncrypted(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	const secret = "c0ffee5ec2e7ab1e"
	var made struct {
		SessionID string  `json:"sessionId"`
		Error     problem `json:"error"`
	}
	servers := object{"tickets": object{"type": "http", "url": "http://127.0.0.1:9/", "headers": object{"Authorization": "Bearer " + secret}}}
	body := object{"cliType": "claude", "projectDir": w.project, "options": object{"mcpServers": servers}}
	if code, _ := w.Call("POST", "/api/session/create", body, &made); code != http.StatusCreated {
		t.Fatalf("create: %d %+v", code, made.Error)
	}
	w.knows(made.SessionID)
	c := w.Follow(made.SessionID)
	c.End(c.Send(plan{Deltas: 1}.prompt()))
	given := func() bool {
		content, err := os.ReadFile(filepath.Join(w.project, "servers"))
		if err == nil {
			err = os.Remove(filepath.Join(w.project, "servers"))
		}
		return err == nil && bytes.Contains(content, []byte(secret))
	}
	if !given() {
		t.Fatal("the agent was not given its server")
	}
	backup := filepath.Join(w.dir, "backup.db")
	w.runnel("backup", backup, "--data", w.data)
	unreadable := func(when string) {
		t.Helper()
		if found := w.holders(secret); found != nil {
			t.Errorf("%s: the secret is in %v", when, found)
		}
	}
	unreadable("while the agent runs")
	if content, err := os.ReadFile(backup); err != nil || bytes.Contains(content, []byte(secret)) {
		t.Errorf("the backup holds the secret, %v", err)
	}

	// A changed setting makes the server write the session's options again.
	if code, _ := w.Call("POST", "/api/session/"+made.SessionID+"/options", object{"model": "sonnet"}, nil); code != http.StatusOK {
		t.Errorf("options: %d", code)
	}
	c.Leave()
	w.stop()
	unreadable("after the server")

	key := filepath.Join(w.dir, ".config", "runnel", "secrets.key")
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key: %v, %v", info, err)
	}
	if text, err := os.ReadFile(key); err != nil || w.holders(strings.TrimSpace(string(text))) != nil {
		t.Errorf("the data directory holds the key, %v", err)
	}
	w.start()
	c = w.Follow(made.SessionID)
	c.End(c.Send(plan{Deltas: 1}.prompt()))
	c.Leave()
	if !given() {
		t.Error("after a restart the agent is not given its server")
	}
	w.stop()

	// With another key, the transcript must be readable, and a prompt must fail
	// with an error that names the missing key.
	if err := os.Rename(key, key+".away"); err != nil {
		t.Fatal(err)
	}
	w.start()
	var items, sent struct {
		Error problem `json:"error"`
	}
	if code, _ := w.Call("GET", "/api/session/"+made.SessionID+"/items", nil, &items); code != http.StatusOK {
		t.Errorf("items: %d %+v", code, items.Error)
	}
	code, _ := w.Call("POST", "/api/session/"+made.SessionID+"/send", object{"content": "go on"}, &sent)
	if code != http.StatusServiceUnavailable || !strings.Contains(sent.Error.Message, "encrypted with the key") || !strings.Contains(sent.Error.Message, key) {
		t.Errorf("send: %d %+v", code, sent.Error)
	}
	w.stop()
	if err := os.Rename(key+".away", key); err != nil {
		t.Fatal(err)
	}
	w.start()
	c = w.Follow(made.SessionID)
	defer c.Leave()
	c.End(c.Send(plan{Deltas: 1}.prompt()))
}
