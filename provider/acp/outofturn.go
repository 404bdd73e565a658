package acp

import (
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Maximum sizes of out-of-turn text, in bytes: of the notice, and of the
// collected text. The collected text may be longer, so that the notice can show
// that it was cut.
const (
	maxOutOfTurnNotice = 500
	maxOutOfTurnText   = 5 * maxOutOfTurnNotice
)

// outOfTurnText collects the text that the agent sends while no turn runs. The
// text arrives in chunks. flush emits it as one notice once the agent sends any
// other message.
type outOfTurnText struct{ words strings.Builder }

func (r *outOfTurnText) add(words string) {
	if r.words.Len() < maxOutOfTurnText {
		words, _ = text.Cut(words, maxOutOfTurnText)
		r.words.WriteString(words)
	}
}

func (r *outOfTurnText) flush(out translate.TurnEmitter) {
	if line := text.OneLine(r.words.String(), maxOutOfTurnNotice); line != "" {
		out.Emit(translate.AgentNotice(event.LevelInfo, line))
	}
	r.words.Reset()
}

// notice emits a notice that the agent sent.
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
	out.Emit(translate.AgentNotice(level, line))
}

// outOfTurn handles an update while no turn runs. It collects text, except late
// chunks of the last turn's last message. It drops all other updates, because
// they belong to a turn that has ended.
func (t *translator) outOfTurn(u update) {
	ofLast := u.MessageID != "" && u.MessageID == t.turns.lastMessage
	if u.Kind == "agent_message_chunk" && t.replay == nil && !ofLast {
		t.outOfTurnText.add(textOf(u.Content))
		return
	}
	t.out.Skip()
}
