//go:build unix

package e2e

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/realagents"
)

// TestStoredRulesAnswerAgents has real agents ask for commands that a stored
// rule names. The rule must answer for exactly that command. A command line
// that adds a second command must ask the user, although the first is allowed.
func TestStoredRulesAnswerAgents(t *testing.T) {
	list := []named{{"claude-code", "", false}, {"codex", "", false}, {"claude-agent-acp", "", true}, {"opencode", "", true}, {"qwen", "", true}}
	eachNamed(t, list, func(t *testing.T, n named, agent realagents.Binary) {
		s := governed(t, agent, nil)
		words := realagents.ToolsetOf(n.agent)
		made, victim := filepath.Join(s.home.Project, "made"), filepath.Join(s.home.Project, "victim")
		if err := os.WriteFile(victim, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		d := s.begin("/api/session/create", map[string]any{"cliType": s.agent, "projectDir": s.home.Project})
		if got := d.turn(play(step(words.Ask("touch "+made)), done), once(asked, deny)); !resolvedBy(got, "user") || exists(t, made) {
			t.Fatalf("without a rule: %+v\n%s", got, d.log())
		}
		for _, command := range []string{"touch " + made, "git status"} {
			s.allow(command)
		}
		if got := d.turn(play(step(words.Ask("touch "+made)), done), ignore); got.Status != "completed" || !resolvedBy(got, "policy") || !exists(t, made) {
			t.Errorf("with a rule: %+v\n%s", got, d.log())
		}
		if log := d.log(); !strings.Contains(log, "allowed by rule 1, made by ") {
			t.Errorf("the log does not say which rule decided\n%s", log)
		}
		for _, command := range []string{"git status; rm -rf " + victim, "git status && rm -rf " + victim, "git status\nrm -rf " + victim} {
			got := d.turn(play(step(words.Ask(command)), done), once(asked, deny))
			if !resolvedBy(got, "user") || !exists(t, victim) {
				t.Errorf("%q: %+v\n%s", command, got, d.log())
			}
		}
	})
}

// allow stores a rule that allows a command.
func (s *server) allow(command string) {
	s.t.Helper()
	var out struct{ Error any }
	if code := s.call("POST", "/api/rules", map[string]any{"effect": "allow", "kind": "execute", "pattern": command}, &out); code != http.StatusCreated {
		s.t.Fatalf("rule for %q: %d %v", command, code, out.Error)
	}
}

// resolvedBy reports whether the turn had approvals and by resolved all of
// them.
func resolvedBy(o outcome, by string) bool {
	for _, r := range o.Resolved {
		if !strings.HasSuffix(r, " "+by) {
			return false
		}
	}
	return len(o.Resolved) > 0
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}
