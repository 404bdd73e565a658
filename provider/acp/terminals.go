package acp

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// terminal is one that the agent runs, and tells of.
type terminal struct {
	data  []byte // at most event.MaxOutput bytes, and what ends a rune
	total int64
	code  *int
	known bool // it printed or ended
}

// maxTerminals bounds the terminals of a turn.
const maxTerminals = 10000

// term returns a terminal of the turn in flight.
func (t *translator) term(id string) *terminal {
	term := t.turn.terms[id]
	if term == nil {
		term = &terminal{}
		if len(t.turn.terms) < maxTerminals {
			t.turn.terms[id] = term
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

// text is what it printed, without the half of a rune at its end.
func (term *terminal) text() string {
	whole := text.TrimPartial(string(term.data))
	return strings.ToValidUTF8(strings.TrimRight(whole, "\x00"), "\uFFFD")
}

// print shows what the terminal of a call has printed.
func (t *translator) print(c *call) {
	if term := t.turn.terms[c.terminal]; term != nil && !c.answered {
		t.stream(c, term.text())
	}
}

// terminal takes what version 2 tells of one.
func (t *translator) terminal(u update) {
	if t.turn == nil || u.TerminalID == "" {
		return
	}
	t.running()
	term := t.term(u.TerminalID)
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
	for _, c := range sorted(t.turn.calls) {
		if c.terminal != u.TerminalID {
			continue
		}
		if c.told {
			t.print(c)
		}
		if c.completed && !t.awaits(c) {
			t.answer(c)
		}
	}
}

// awaits reports whether a call that has ended is still to show its output:
// when it loads, codex-acp tells of a terminal after the call (load).
func (t *translator) awaits(c *call) bool {
	if t.Version < 2 || c.terminal == "" {
		return false
	}
	term := t.turn.terms[c.terminal]
	return term == nil || !term.known
}
