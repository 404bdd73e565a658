package acp

import "github.com/runnel-dev/runnel/event"

// loading is a conversation that the agent tells again. It is shown in a
// History; a session that resumes has it in its log already.
type loading struct {
	show    bool
	late    bool   // it goes on behind the answer to the request
	ordinal int    // of the prompt in hand, from 1
	native  string // the agent's id of it
	user    []block
	told    bool // the prompt in hand was emitted
}

// replays takes an update of a conversation that is told again. It reports
// whether the update is to be shown as one of a turn; prompts are shown here.
func (t *translator) replays(u update) bool {
	l := t.load
	if !l.show {
		return false
	}
	if u.Kind == "user_message" { // version 2 announces it without content
		l.next(t, u.MessageID)
		l.user = append(l.user, blocks(u.Content)...)
		return false
	}
	if u.Kind != "user_message_chunk" {
		if t.turn == nil {
			l.next(t, "")
		}
		l.tell(t)
		return true
	}
	bs := blocks(u.Content)
	if len(bs) == 1 && t.q.replay.interrupted != nil && t.q.replay.interrupted(bs[0].Text) {
		if t.turn != nil {
			l.tell(t)
			t.turn.interrupted = true
		}
		return false
	}
	if t.turn == nil || l.told && u.MessageID == "" || u.MessageID != l.native || t.q.replay.onePart && len(l.user) > 0 {
		l.next(t, u.MessageID)
	}
	for _, b := range bs {
		if t.q.replay.userPart != nil {
			b = t.q.replay.userPart(b)
		}
		if b.Type != "" {
			l.user = append(l.user, b)
		}
	}
	return false
}

// next begins the turn of another prompt.
func (l *loading) next(t *translator, native string) {
	if t.turn != nil && native != "" && native == l.native {
		return
	}
	l.end(t)
	l.ordinal++
	l.native, l.user, l.told = native, nil, false
	t.begin(derive(t.Session + " " + itoa(l.ordinal)))
}

// tell shows the prompt in hand once it is complete.
func (l *loading) tell(t *translator) {
	if l.told {
		return
	}
	l.told = true
	if len(l.user) > 0 {
		t.userMessage(t.turn.id, l.user)
	}
}

// end ends the turn in hand. How it ended is not told but for an interruption.
func (l *loading) end(t *translator) {
	if t.turn == nil {
		return
	}
	l.tell(t)
	status := event.StatusCompleted
	if t.turn.interrupted {
		status = event.StatusCancelled
	}
	t.end(event.ResponseDone{Status: status})
}

func (t *translator) endLoad() {
	if t.load.show {
		t.load.end(t)
	}
	t.load = nil
}
