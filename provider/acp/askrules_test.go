package acp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Both agents ask again about a command that was allowed for the session, because
// the rule by which they ask before each command comes first.
func TestCommandsCannotBeAllowedForASessionThatAsksBeforeEach(t *testing.T) {
	eachOf(t, []string{"gemini", "qwen"}, func(t *testing.T, r *rig) {
		r.Open()
		r.Play(calls(r.words().Shell("touch made")), said)
		a := r.Asked()
		for _, c := range a.Choices {
			if c.Kind == event.ChoiceAllowSession {
				t.Errorf("%+v has no effect", c)
			}
		}
		r.Decide(a, runnel.Decision{Choice: translate.AllowOnce})
		r.Finish(translate.Deny)
		if !agentrig.Exists(r.File("made")) {
			t.Error("the command did not run")
		}
	})
}

// What the user's settings allow comes before the rule by which Gemini CLI asks.
func TestCommandsThatTheUsersSettingsAllowAreNotAskedAbout(t *testing.T) {
	eachOf(t, []string{"gemini"}, func(t *testing.T, r *rig) {
		path := filepath.Join(r.Home.Dir, ".gemini", "settings.json")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var settings map[string]map[string]any
		if err := json.Unmarshal(b, &settings); err != nil {
			t.Fatal(err)
		}
		settings["tools"]["allowed"] = []string{"run_shell_command(touch)"}
		if b, err = json.Marshal(settings); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r.Open()
		r.Play(calls(r.words().Shell("touch made")), said)
		if _, asked := r.DenyAll(); asked != 0 || !agentrig.Exists(r.File("made")) {
			t.Errorf("the agent asked %d times", asked)
		}
	})
}
