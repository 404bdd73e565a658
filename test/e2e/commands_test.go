//go:build unix

package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/upsert"
)

// TestCommandsPrintOnce has Claude Code run its own commands. What the first
// /context printed must not appear again with the second, neither before a
// restart of the server nor after the session was loaded again.
func TestCommandsPrintOnce(t *testing.T) {
	for _, b := range realagents.UsualClaude(t) {
		t.Run(b.Version, func(t *testing.T) {
			s := serve(t, b)
			d := newWS(s)
			for _, prompt := range []string{play(done), play(done), "/context", "/compact", play(done), "/context", play(done)} {
				if got := d.turn(prompt, ignore); got.Status != "completed" {
					t.Errorf("%s: %+v", prompt, got)
				}
			}
			session, _ := d.shown()
			s.printedOnce(session)
			s.restart()
			if code := s.call("POST", "/api/session/"+session+"/load", map[string]any{}, nil); code != http.StatusOK {
				t.Fatalf("load: %d", code)
			}
			s.printedOnce(session)
		})
	}
}

// printedOnce checks that exactly two turns have a table of /context, and that
// each of them has it once.
func (s *server) printedOnce(session string) {
	s.t.Helper()
	var page struct{ Items []frame }
	if code := s.call("GET", "/api/session/"+session+"/items?limit=1000", nil, &page); code != http.StatusOK {
		s.t.Fatalf("items: %d", code)
	}
	turns := make(map[string]int)
	for _, f := range page.Items {
		var u upsert.Upsert
		if f.Type == "session:upsert" && json.Unmarshal(f.Payload, &u) == nil && strings.Contains(textOf(u), "Context Usage") {
			turns[u.TurnID]++
		}
	}
	for turn, n := range turns {
		if n != 1 {
			s.t.Errorf("turn %s has the table %d times", turn, n)
		}
	}
	if len(turns) != 2 {
		s.t.Errorf("the table is in %d turns, want 2", len(turns))
	}
}

// TestCommandsNeedTheScopeApprove sends a command with which Qwen Code changes
// the user's settings. These settings decide which tools run without asking, so
// the server must reject the command from a token without the scope approve.
func TestCommandsNeedTheScopeApprove(t *testing.T) {
	s := serve(t, realagents.Find(t, "qwen"))
	d := &sse{s, s.create(), "0", make(map[string]string)}
	settings := filepath.Join(s.home.Dir, ".qwen", "settings.json")
	s.token = s.narrower("read,send")
	var refused struct{ Error struct{ Type string } }
	code := s.call("POST", "/api/session/"+d.session+"/send", map[string]any{"content": "/config tools.approvalMode=auto-edit"}, &refused)
	if code != http.StatusForbidden || refused.Error.Type != "FORBIDDEN" {
		t.Errorf("got %d %+v, want FORBIDDEN", code, refused)
	}
	if got := d.turn(play(done), ignore); got.Status != "completed" {
		t.Errorf("another prompt of the same credential: %+v", got)
	}
	if b, err := os.ReadFile(settings); err != nil || strings.Contains(string(b), "auto-edit") {
		t.Errorf("the settings are %s %v", b, err)
	}
}

// narrower creates a token with these scopes, separated by commas, and returns
// it.
func (s *server) narrower(scopes string) string {
	s.t.Helper()
	binary, err := build()
	if err != nil {
		s.t.Fatal(err)
	}
	token := exec.CommandContext(s.t.Context(), binary, "token", "create", "narrow", "--scope", scopes, "--data", s.data)
	token.Env = s.env
	secret, err := token.Output()
	if err != nil {
		s.t.Fatalf("token create: %v", err)
	}
	return strings.TrimSpace(string(secret))
}
