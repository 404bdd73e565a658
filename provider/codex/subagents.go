package codex

import (
	"maps"
	"slices"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// A subagent is a further thread in the agent's process.
//
// A subagent works concurrently with the agent that started it. Its work during
// the turn in which it was started is part of that turn, nested in the call.
// Its later work is a background turn.
type subagent struct {
	thread string
	call   string // the last call that started it or sent it a message
	piece  *piece // the piece of that call
	turn   string // id of the turn that shows that call
	line   line
}

// A subagentTurn is a native turn of a subagent.
type subagentTurn struct {
	run
	agent      *subagent
	main       *turn           // the turn of the conversation that shows it; nil in a background turn
	background *backgroundTurn // nil if main shows it
}

// A backgroundTurn shows the work that a subagent does after the turn in which
// it was started. Its events are held until the work ends and are then emitted
// together.
type backgroundTurn struct {
	id          string
	interrupted bool
	held        translate.Held
	full        bool // further events are dropped
}

// subagents are the subagents of the conversation, at most maxSubagents.
type subagents struct {
	out      *translate.Emitter
	byThread map[string]*subagent
	running  map[string]*subagentTurn // running turns, by native id
}

// Bounds of subagents.
const (
	maxSubagents = 1000
	maxHeldSize  = 8 << 20 // bytes of events held for one background turn
)

func newSubagents(out *translate.Emitter) subagents {
	return subagents{out: out, byThread: make(map[string]*subagent), running: make(map[string]*subagentTurn)}
}

// add returns the subagent of a thread, and adds it if it is new. Messages may
// name a subagent before the call that started it. add returns nil if there are
// too many subagents.
func (ss *subagents) add(thread string) *subagent {
	a := ss.byThread[thread]
	if a == nil && len(ss.byThread) < maxSubagents {
		a = &subagent{thread: thread, line: line{next: 1}}
		ss.byThread[thread] = a
	}
	return a
}

// activity processes an item about a subagent. It reports whether the item is a
// call that starts a subagent or sends it a message.
func (ss *subagents) activity(r *run, it item) bool {
	c := r.piece(it)
	if c == nil || c.done || it.AgentID == "" {
		return false
	}
	if it.Kind == "started" || it.Kind == "interacted" {
		a := ss.add(it.AgentID)
		if a == nil {
			return false
		}
		if a.call != it.ID {
			a.call, a.piece, a.turn, a.line.next = it.ID, c, r.out.Turn(), 1
		}
		return true
	}
	a := ss.byThread[it.AgentID]
	if a != nil && a.piece != nil && !a.piece.output.Opened() && a.turn == r.out.Turn() && a.piece.called {
		text, short := cut(a.line.lastMessage, event.MaxOutput)
		a.piece.done = true
		a.piece.output.Done(r.out, event.FunctionCallOutput{CallID: a.call, Output: text, IsError: it.Kind != "completed", Truncated: short})
	}
	return false
}

// begin processes the start of a subagent's turn. It returns nil for an unknown
// thread.
func (ss *subagents) begin(thread, native string) *subagentTurn {
	a := ss.byThread[thread]
	if a == nil {
		ss.out.Skip()
		return nil
	}
	s := &subagentTurn{agent: a}
	s.native, s.itemList = native, newItems(&a.line)
	ss.running[native] = s
	return s
}

// moveOut removes the subagents that still work from an ended turn. It returns
// their turns, for which the caller must call assignTurn.
func (ss *subagents) moveOut(over *turn) (moved []*subagentTurn) {
	for _, native := range slices.Sorted(maps.Keys(ss.running)) {
		s := ss.running[native]
		if s.main != over {
			continue
		}
		s.close()
		s.forget()
		moved = append(moved, s)
	}
	return moved
}

// end processes the end of a subagent's turn. It emits all events of a
// background turn.
func (ss *subagents) end(s *subagentTurn, end nativeTurn) {
	s.close()
	delete(ss.running, s.native)
	b := s.background
	if b == nil {
		return
	}
	ss.out.Add(b.held.Take()...)
	if end.Error == nil {
		end.Error = s.failure
	}
	ss.out.Notice(b.id, event.LevelInfo, "TASK_ENDED", "A subagent in the background has ended.")
	ss.out.Emit(b.id, outcome(&end, b.interrupted, nil))
}

// nest shows the subagent's turn within a turn of the conversation.
func (s *subagentTurn) nest(out translate.TurnEmitter, main *turn) {
	s.main, s.background = main, nil
	s.setTurn(out, s.parent())
}

// detach shows the subagent's turn as a background turn.
func (s *subagentTurn) detach(out translate.TurnEmitter) {
	b := &backgroundTurn{id: out.Turn()}
	s.main, s.background = nil, b
	s.agent.line.next = 1
	s.setTurn(out.Holding(b.hold), s.parent())
}

// parent returns the call that contains the items of the turn.
func (s *subagentTurn) parent() string {
	if s.agent.call == "" {
		return "agent-" + s.agent.thread
	}
	return s.agent.call
}

// close ends the open items of the turn.
func (s *subagentTurn) close() {
	interrupted := s.main != nil && s.main.interrupted || s.background != nil && s.background.interrupted
	s.itemList.close(false, cancelReason(interrupted))
}

// hold keeps an event, or drops it if the turn would exceed maxHeldSize.
func (b *backgroundTurn) hold(ev event.Event) {
	size := 64
	switch body := ev.Body.(type) {
	case event.ItemDelta:
		return // the completed item follows
	case event.ItemDone:
		if data, err := event.MarshalBody(body); err == nil {
			size = len(data)
		}
	}
	if b.full = b.full || b.held.Size()+size > maxHeldSize; !b.full {
		b.held.Add(ev, size)
	}
}

// commands are the commands that continue after their turn, at most
// maxCommands, by the native ids of the turn and the item.
type commands map[string]*piece

const maxCommands = 256

// keep adds the commands that continue after a turn.
func (cs commands) keep(turn string, running []*piece) {
	for _, c := range running {
		if len(cs) < maxCommands {
			cs[turn+" "+c.native] = c
		}
	}
}

// end removes and returns a command that has ended. It returns nil if the item
// belongs to a running turn.
func (cs commands) end(turn, native string) *piece {
	id := turn + " " + native
	c := cs[id]
	delete(cs, id)
	return c
}
