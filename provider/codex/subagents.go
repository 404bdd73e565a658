package codex

import (
	"maps"
	"slices"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// A subagent is a thread of its own in the same process.
//
// It always works beside the agent that started it. What it does while the turn
// lasts in which it was started is part of that turn, nested in the call. What
// it does later is a background turn.
type subagent struct {
	thread string
	call   string // that started it, or asked more of it
	piece  *piece // of that call
	turn   string // id of the turn that shows that call
	line   line
}

// A subagentTurn is a native turn of a subagent.
type subagentTurn struct {
	run
	agent      *subagent
	main       *turn           // the turn of the conversation that shows it, or nil
	background *backgroundTurn // the turn of its own that it has otherwise
}

// A backgroundTurn is what a subagent does after the turn is over in which it
// was started. It is held back and given out whole when the work is done.
type backgroundTurn struct {
	id          string
	interrupted bool
	held        translate.Held
	full        bool // what comes is left out
}

// subagents are those of the conversation, at most maxSubagents.
type subagents struct {
	out      *translate.Emitter
	byThread map[string]*subagent
	running  map[string]*subagentTurn // by the agent's id, until they are over
}

// Bounds of what is known of subagents.
const (
	maxSubagents = 1000
	maxHeldSize  = 8 << 20 // bytes of content that are held of one
)

func newSubagents(out *translate.Emitter) subagents {
	return subagents{out: out, byThread: make(map[string]*subagent), running: make(map[string]*subagentTurn)}
}

// know returns the subagent with a thread, which may be spoken of before its
// call is; nil if there are too many.
func (ss *subagents) know(thread string) *subagent {
	a := ss.byThread[thread]
	if a == nil && len(ss.byThread) < maxSubagents {
		a = &subagent{thread: thread, line: line{next: 1}}
		ss.byThread[thread] = a
	}
	return a
}

// acts takes an item about a subagent in a turn. It reports whether the item is
// a call: that of a subagent which was started, or asked for more.
func (ss *subagents) acts(r *run, it item) bool {
	c := r.piece(it)
	if c == nil || c.done || it.AgentID == "" {
		return false
	}
	if it.Kind == "started" || it.Kind == "interacted" {
		a := ss.know(it.AgentID)
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
		text, short := cut(a.line.said, event.MaxOutput)
		a.piece.done = true
		a.piece.output.Done(r.out, event.FunctionCallOutput{CallID: a.call, Output: text, IsError: it.Kind != "completed", Truncated: short})
	}
	return false
}

// begin takes the begin of a subagent's turn. It returns nil for a thread that
// is not known.
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

// leave moves the subagents that still work out of a turn that is over. It
// returns their turns, which have to be placed.
func (ss *subagents) leave(over *turn) (moved []*subagentTurn) {
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

// end takes the end of a subagent's turn. A background turn is emitted whole.
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

// nest shows the turn within one of the conversation.
func (s *subagentTurn) nest(out translate.TurnEmitter, main *turn) {
	s.main, s.background = main, nil
	s.place(out, s.parent())
}

// detach shows the turn as a background turn.
func (s *subagentTurn) detach(out translate.TurnEmitter) {
	b := &backgroundTurn{id: out.Turn()}
	s.main, s.background = nil, b
	s.agent.line.next = 1
	s.place(out.Holding(b.hold), s.parent())
}

// parent is the call that the items of the turn are nested in.
func (s *subagentTurn) parent() string {
	if s.agent.call == "" {
		return "agent-" + s.agent.thread
	}
	return s.agent.call
}

// close ends what is open in the turn.
func (s *subagentTurn) close() {
	interrupted := s.main != nil && s.main.interrupted || s.background != nil && s.background.interrupted
	s.itemList.close(false, cancelReason(interrupted))
}

// hold keeps an event. What is beyond maxHeldSize is left out.
func (b *backgroundTurn) hold(ev event.Event) {
	size := 64
	switch body := ev.Body.(type) {
	case event.ItemDelta:
		return // the whole comes
	case event.ItemDone:
		if data, err := event.MarshalBody(body); err == nil {
			size = len(data)
		}
	}
	if b.full = b.full || b.held.Size()+size > maxHeldSize; !b.full {
		b.held.Add(ev, size)
	}
}

// commands are those that outlived their turn, by the agent's ids of both; at
// most maxCommands.
type commands map[string]*piece

const maxCommands = 256

// keep takes commands that go on when a turn is over.
func (cs commands) keep(turn string, running []*piece) {
	for _, c := range running {
		if len(cs) < maxCommands {
			cs[turn+" "+c.native] = c
		}
	}
}

// end returns the command that has ended, or nil for an item of a turn that
// runs.
func (cs commands) end(turn, native string) *piece {
	id := turn + " " + native
	c := cs[id]
	delete(cs, id)
	return c
}
