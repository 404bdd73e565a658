package acp

import (
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// maxRemark and maxRemarks bound what the agent says out of turn, in bytes: the
// notice, and the text that is kept for it, of which the notice shows the cut.
const (
	maxRemark  = 500
	maxRemarks = 5 * maxRemark
)

// remarks are what the agent says while no turn runs. They come in pieces, and
// are shown as one notice once the agent sends something else.
type remarks struct{ words strings.Builder }

func (r *remarks) add(words string) {
	if r.words.Len() < maxRemarks {
		words, _ = text.Cut(words, maxRemarks)
		r.words.WriteString(words)
	}
}

func (r *remarks) flush(out translate.TurnEmitter) {
	if line := text.OneLine(r.words.String(), maxRemark); line != "" {
		out.Emit(translate.AgentSays(event.LevelInfo, line))
	}
	r.words.Reset()
}

// notice emits a notice of the agent's own.
func notice(out translate.TurnEmitter, u update) {
	line := text.OneLine(u.Title, 500)
	if line == "" {
		return
	}
	if u.About != "" {
		line = text.OneLine(line+": "+u.About, 1000)
	}
	level := event.LevelInfo
	if u.Severity == "warning" || u.Severity == "error" {
		level = event.Level(u.Severity)
	}
	out.Emit(translate.AgentSays(level, line))
}

// outOfTurn keeps text that the agent sends while no turn runs, and drops
// anything else: that belongs to a turn that is over.
func (t *translator) outOfTurn(u update) {
	ofLast := u.MessageID != "" && u.MessageID == t.turns.lastMessage
	if u.Kind == "agent_message_chunk" && t.replay == nil && !ofLast {
		t.remarks.add(textOf(u.Content))
		return
	}
	t.out.Skip()
}
