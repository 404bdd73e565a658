package acp

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// terminals are the terminals of a turn, by the agent's ids.
type terminals map[string]*terminal

// terminal is a terminal that the agent runs, and whose output it reports.
type terminal struct {
	data  []byte // at most event.MaxOutput bytes, and the rest of a rune
	total int64
	code  *int
	known bool // the agent reported output or an end
}

// maxTerminals bounds the terminals of a turn.
const maxTerminals = 10000

// get returns a terminal, which may be new.
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

func (term *terminal) add(data []byte) {
	term.known = true
	term.total += int64(len(data))
	if room := event.MaxOutput + utf8.UTFMax - len(term.data); room > 0 {
		term.data = append(term.data, data[:min(len(data), room)]...)
	}
}

func (term *terminal) exited(code *int) { term.known, term.code = true, code }

// text returns the output, without half a rune at its end.
func (term *terminal) text() string {
	whole := text.TrimPartial(string(term.data))
	return strings.ToValidUTF8(strings.TrimRight(whole, "\x00"), "\uFFFD")
}

// streamTerminal shows the output of a call's terminal.
func (cs *toolCalls) streamTerminal(c *call) {
	if term := cs.terminals[c.terminal]; term != nil && !c.output.Ended() {
		cs.stream(c, term.text())
	}
}

// terminal takes what version 2 reports of a terminal.
func (cs *toolCalls) terminal(u update) {
	term := cs.terminals.get(u.TerminalID)
	if u.Output != nil { // all of it
		if data, err := base64.StdEncoding.DecodeString(u.Output.Data); err == nil {
			term.data, term.total = nil, 0
			term.add(data)
		}
	}
	if data, err := base64.StdEncoding.DecodeString(u.Data); err == nil && u.Kind == "terminal_output_chunk" {
		term.add(data)
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

// awaitsOutput reports whether the output of a call that has ended is still to
// come: codex-acp replays a terminal after its call (load).
func (cs *toolCalls) awaitsOutput(c *call) bool {
	if cs.session.version < 2 || c.terminal == "" {
		return false
	}
	term := cs.terminals[c.terminal]
	return term == nil || !term.known
}
