package claude

import (
	"regexp"
	"strings"

	"github.com/runnel-dev/runnel/internal/translate"
)

// This file reads what the agent stores in the place of commands: in elements,
// where the user typed "/name" or "!command" (commands, terminal).

// Elements of a stored command and of what it printed.
const (
	commandName    = "<command-name>"    // begins a command of the agent's own
	commandMessage = "<command-message>" // begins one that is a prompt for the model
	bashInput      = "<bash-input>"
)

// printedElements hold what a command printed.
var printedElements = []string{"local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr"}

// colours match the escape sequences in what a command printed.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// typed replays a stored command or what it printed, and reports whether the
// entry is one of these.
func (h *historian) typed(e *entry, said string) bool {
	switch {
	case strings.HasPrefix(said, commandMessage):
		h.command(e, commandLine(said))
	case strings.HasPrefix(said, commandName):
		h.localCommand(e, commandLine(said))
	case strings.HasPrefix(said, bashInput):
		h.localCommand(e, "!"+tagged(said, "bash-input"))
	case strings.HasPrefix(said, "<local-command-"), strings.HasPrefix(said, "<bash-std"):
		h.commandPrinted(e, said)
	default:
		return false
	}
	return true
}

// commandLine returns a command as the user typed it.
func commandLine(said string) string {
	name := tagged(said, "command-name")
	if !strings.HasPrefix(name, "/") {
		name = "/" + name
	}
	return strings.TrimSpace(name + " " + tagged(said, "command-args"))
}

// command replays a command as a prompt.
func (h *historian) command(e *entry, line string) *turn {
	f := e.frame
	f.Message = &message{Role: "user", Content: content{{Type: "text", Text: line}}}
	return h.prompted(f)
}

// localCommand replays a command that needs no model. One in the middle of a
// turn is not shown: it is no prompt, such as a change of the model.
func (h *historian) localCommand(e *entry, line string) {
	if tn := h.t.turns.current; tn != nil && !tn.local && !tn.interrupted && tn.failure == "" && (tn.stop == "" || tn.stop == "tool_use") {
		return
	}
	compacted := h.compacted // the summary is stored before the command that made it
	h.compacted = false
	tn := h.command(e, line)
	if tn == nil {
		return
	}
	tn.local = true
	if tn.summarised = compacted; compacted {
		tn.emit(translate.Compacted)
	}
}

// commandPrinted replays what a command printed.
func (h *historian) commandPrinted(e *entry, said string) {
	tn := h.t.turns.current
	if tn == nil || !tn.local || tn.summarised { // of a summary, the notice says it
		return
	}
	var parts []string
	for _, name := range printedElements {
		if part := tagged(said, name); part != "" && part != noContent {
			parts = append(parts, part)
		}
	}
	if output := colours.ReplaceAllString(strings.Join(parts, "\n"), ""); output != "" {
		tn.printed(e.UUID, output)
	}
}

// tellCompacted reports that the agent made a summary of the conversation.
func (h *historian) tellCompacted() {
	if h.compacted {
		h.compacted = false
		h.t.turns.emit(translate.Compacted)
	}
}
