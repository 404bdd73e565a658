package codex

import (
	"fmt"
	"strings"
)

// Deviations of Codex from its protocol are noted where the code meets them.
// Each was seen in the messages of 0.169.0; a name in parentheses is the
// recording in testdata that shows it.

// loginCommand is what a user runs to log in.
const loginCommand = "codex login"

// installCommand is what a user runs to install the agent.
const installCommand = "npm install -g @openai/codex"

// warnings are those of the agent, each of which is shown once.
type warnings struct {
	shown map[string]bool
	fatal string // why a conversation must not begin, if the agent's configuration is at fault
}

func newWarnings() warnings { return warnings{shown: make(map[string]bool)} }

// take returns the text of a warning that is to be shown, or "". A warning
// about a file of the configuration means that codex goes on as if there were
// none: with another provider of models, and with other rules, than the user
// wants.
func (w *warnings) take(method string, n note) string {
	if method == "configWarning" && n.Path != "" {
		w.fatal = n.Path
		if n.Range.Start.Line > 0 {
			w.fatal = fmt.Sprintf("%s, line %d", n.Path, n.Range.Start.Line)
		}
	}
	text := oneLine(n.Message+n.Summary, 500)
	if text == "" || strings.HasPrefix(text, "Codex could not find bubblewrap") { // codex brings its own
		return ""
	}
	if method == "warning" && w.shown[text] {
		return "" // as a rule it repeats a configWarning
	}
	if len(w.shown) < 100 {
		w.shown[text] = true
	}
	return text
}
