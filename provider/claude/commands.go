package claude

import (
	"regexp"
	"strings"

	"github.com/runnel-dev/runnel/internal/translate"
)

// This file reads the commands in a stored conversation. Where the user typed
// "/name" or "!command", the agent stores XML-like elements (commands,
// terminal).

// Opening tags of stored commands.
const (
	commandName    = "<command-name>"    // a command that the agent runs itself
	commandMessage = "<command-message>" // a command that becomes a prompt for the model
	bashInput      = "<bash-input>"
)

// printedElements are the names of the elements that hold a command's output.
var printedElements = []string{"local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr"}

// colours matches the color escape sequences in a command's output.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// typed replays an entry that holds a command or a command's output. It reports
// whether the entry is one of these.
func (h *historian) typed(e *entry, stored string) bool {
	switch {
	case strings.HasPrefix(stored, commandMessage):
		h.command(e, commandLine(stored))
	case strings.HasPrefix(stored, commandName):
		h.localCommand(e, commandLine(stored))
	case strings.HasPrefix(stored, bashInput):
		h.localCommand(e, "!"+tagged(stored, "bash-input"))
	case strings.HasPrefix(stored, "<local-command-"), strings.HasPrefix(stored, "<bash-std"):
		h.commandPrinted(e, stored)
	default:
		return false
	}
	return true
}

// commandLine returns a command as the user typed it.
func commandLine(stored string) string {
	name := tagged(stored, "command-name")
	if !strings.HasPrefix(name, "/") {
		name = "/" + name
	}
	return strings.TrimSpace(name + " " + tagged(stored, "command-args"))
}

// command replays a command as a prompt.
func (h *historian) command(e *entry, line string) *turn {
	f := e.frame
	f.Message = &message{Role: "user", Content: content{{Type: "text", Text: line}}}
	return h.prompted(f)
}

// localCommand replays a command that the agent ran without the model. It skips
// a command in the middle of a turn, such as a change of the model: that is not
// a prompt.
func (h *historian) localCommand(e *entry, line string) {
	if tn := h.t.turns.current; tn != nil && !tn.local && !tn.interrupted && tn.failure == "" && (tn.stop == "" || tn.stop == "tool_use") {
		return
	}
	compacted := h.compacted // a /compact command is stored after its summary
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

// commandPrinted replays the output of a command.
func (h *historian) commandPrinted(e *entry, stored string) {
	tn := h.t.turns.current
	if tn == nil || !tn.local || tn.summarised { // after /compact, the notice replaces the output
		return
	}
	var parts []string
	for _, name := range printedElements {
		if part := tagged(stored, name); part != "" && part != noContent {
			parts = append(parts, part)
		}
	}
	if output := colours.ReplaceAllString(strings.Join(parts, "\n"), ""); output != "" {
		tn.printed(e.UUID, output)
	}
}

// emitCompacted emits the notice that the agent summarized the conversation, if
// it is due.
func (h *historian) emitCompacted() {
	if h.compacted {
		h.compacted = false
		h.t.turns.emit(translate.Compacted)
	}
}
