package codex

import (
	"fmt"
	"strings"
)

// Comments in this package note where Codex deviates from its protocol. Each
// deviation occurs in the messages of 0.169.0. "Recording" and a name refer to
// the recording in testdata that shows the deviation.

// loginCommand is what a user runs to log in.
const loginCommand = "codex login"

// installCommand is what a user runs to install the agent.
const installCommand = "npm install -g @openai/codex"

// warnings are the agent's warnings. Each is shown once.
type warnings struct {
	shown map[string]bool
	fatal string // location of an error in the agent's configuration, "" if there is none; no conversation may begin
}

func newWarnings() warnings { return warnings{shown: make(map[string]bool)} }

// take returns the text of a warning to show, "" for none. A warning about a
// configuration file means that Codex ignores the file and continues without
// it. Codex would then use another model provider and other rules than the user
// configured.
func (w *warnings) take(method string, n note) string {
	if method == "configWarning" && n.Path != "" {
		w.fatal = n.Path
		if n.Range.Start.Line > 0 {
			w.fatal = fmt.Sprintf("%s, line %d", n.Path, n.Range.Start.Line)
		}
	}
	text := oneLine(n.Message+n.Summary, 500)
	if text == "" || strings.HasPrefix(text, "Codex could not find bubblewrap") { // Codex includes bubblewrap
		return ""
	}
	if method == "warning" && w.shown[text] {
		return "" // it usually repeats a configWarning
	}
	if len(w.shown) < 100 {
		w.shown[text] = true
	}
	return text
}
