package acp

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// terminals maps the agent's ids to the terminals of a turn.
type terminals map[string]*terminal

// terminal is the output of a terminal that the agent runs.
type terminal struct {
	data  strings.Builder // at most event.MaxOutput bytes, plus one rune
	total int64
	code  *int
	known bool // the agent reported output or an end
}

// maxTerminals is the maximum number of terminals of a turn.
const maxTerminals = 10000

// get returns the terminal with the id, and adds it if it is new. Beyond
// maxTerminals, it returns a terminal that is not stored.
func (ts terminals) get(id string) *terminal {
	term := ts[id]
	if term == nil {
		term = &terminal{}
		if len(ts) < maxTerminals {
			ts[id] = term
		}
	}
	return term
}

// add adds output, and keeps at most room bytes of it. It reports whether the
// terminal has kept any.
func (term *terminal) add(data string, room int) bool {
	term.known = true
	term.total += int64(len(data))
	room = min(room, event.MaxOutput+utf8.UTFMax-term.data.Len())
	kept, _ := term.data.WriteString(data[:max(0, min(len(data), room))]) // it cannot fail
	return kept > 0
}

func (term *terminal) exited(code *int) { term.known, term.code = true, code }

// text returns the output, without an incomplete rune at its end.
func (term *terminal) text() string {
	whole := strings.TrimRight(text.TrimPartial(term.data.String()), "\x00")
	if utf8.ValidString(whole) { // much faster than ToValidUTF8, and text is called for each piece of output
		return whole
	}
	return strings.ToValidUTF8(whole, "\uFFFD")
}

// addTerminal adds output to a terminal of the turn. It reports whether the
// terminal has kept any of it.
func (cs *toolCalls) addTerminal(term *terminal, data string) bool {
	before := term.data.Len()
	kept := term.add(data, maxTerminalData-cs.terminalData)
	cs.terminalData += term.data.Len() - before
	return kept
}

// streamTerminal emits the new output of a call's terminal.
func (cs *toolCalls) streamTerminal(c *call) {
	if term := cs.terminals[c.terminal]; term != nil && !c.output.Ended() {
		cs.stream(c, term.text())
	}
}

// terminal handles an update about a terminal, in version 2.
func (cs *toolCalls) terminal(u update) {
	term := cs.terminals.get(u.TerminalID)
	if u.Output != nil { // the whole output so far
		if data, err := base64.StdEncoding.DecodeString(u.Output.Data); err == nil {
			cs.terminalData -= term.data.Len()
			term.data.Reset()
			term.total = 0
			cs.addTerminal(term, string(data))
		}
	}
	if data, err := base64.StdEncoding.DecodeString(u.Data); err == nil && u.Kind == "terminal_output_chunk" {
		cs.addTerminal(term, string(data))
	}
	if u.ExitStatus != nil {
		term.exited(u.ExitStatus.Code)
	}
	for _, c := range cs.inOrder() {
		if c.terminal != u.TerminalID {
			continue
		}
		if c.described {
			cs.streamTerminal(c)
		}
		if c.completed && !cs.awaitsOutput(c) {
			cs.answer(c)
		}
	}
}

// awaitsOutput reports whether a completed call still waits for the output of
// its terminal. codex-acp replays a terminal after its call.
func (cs *toolCalls) awaitsOutput(c *call) bool {
	if cs.session.version < 2 || c.terminal == "" {
		return false
	}
	term := cs.terminals[c.terminal]
	return term == nil || !term.known
}
