package acp

import (
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// replay is the state of a replay of a stored conversation. History emits the
// events of a replay. A resumed session drops them, because its event log
// already has the conversation.
type replay struct {
	show    bool
	late    bool    // the agent answered the request and now replays
	ordinal int     // position of the current prompt, from 1
	native  string  // the agent's id of the current prompt
	user    []block // blocks of the current prompt so far
	shown   bool    // the current prompt was emitted
}

// answered handles the answer to the request for the replay. It reports whether
// the replay is complete.
func (r *replay) answered(m jsonrpc.Message, q *quirks) bool {
	r.late = q.replay.endsWithCommands && m.Error == nil
	return !r.late
}

// take handles an update during the replay. It emits the prompts itself. It
// reports whether the caller must emit the update as an item of the turn.
func (r *replay) take(u update, ts *turns) bool {
	if !r.show {
		return false
	}
	switch u.Kind {
	case "user_message": // version 2 announces a prompt without its content
		r.next(u.MessageID, ts)
		r.user = append(r.user, blocks(u.Content)...)
		return false
	case "user_message_chunk":
		r.takeUser(u, ts)
		return false
	}
	if ts.now == nil {
		r.next("", ts)
	}
	r.showPrompt(ts)
	return true
}

// takeUser handles a chunk of a prompt.
func (r *replay) takeUser(u update, ts *turns) {
	q := ts.session.q.replay
	if q.prompt != nil && u.MessageID == "" {
		u.MessageID = nativeID(q.prompt(u.UpdateMeta))
	}
	bs := blocks(u.Content)
	if len(bs) == 1 && q.interrupted != nil && q.interrupted(bs[0].Text) {
		if ts.now != nil {
			r.showPrompt(ts)
			ts.interrupt()
		}
		return
	}
	if ts.now == nil || r.shown && u.MessageID == "" || u.MessageID != r.native || q.onePart && len(r.user) > 0 {
		r.next(u.MessageID, ts)
	}
	for _, b := range bs {
		if q.userPart != nil {
			b = q.userPart(b)
		}
		if b.Type != "" {
			r.user = append(r.user, b)
		}
	}
}

// next ends the current turn and starts the turn of the next prompt. It does
// nothing if the current prompt has the same native id.
func (r *replay) next(native string, ts *turns) {
	if ts.now != nil && native != "" && native == r.native {
		return
	}
	r.end(ts)
	r.ordinal++
	r.native, r.user, r.shown = native, nil, false
	ts.begin(derive(ts.session.id+" "+itoa(r.ordinal)), true)
}

// showPrompt emits the current prompt, unless it was emitted already.
func (r *replay) showPrompt(ts *turns) {
	if r.shown {
		return
	}
	r.shown = true
	if len(r.user) > 0 {
		ts.show(ts.now.id, r.user)
	}
}

// end ends the current turn as completed, or as cancelled if the agent replayed
// an interrupt. Agents replay no other outcome of a turn.
func (r *replay) end(ts *turns) {
	if ts.now == nil {
		return
	}
	r.showPrompt(ts)
	status := event.StatusCompleted
	if ts.now.interrupted {
		status = event.StatusCancelled
	}
	ts.end(event.ResponseDone{Status: status, Usage: ts.turnUsage(ts.now.used)})
}
