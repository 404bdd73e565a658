package codex

import (
	"github.com/runnel-dev/runnel/event"
)

// agent is a subagent: a thread of its own in the same process.
//
// It always works beside the one that started it. What it does while the turn
// lasts in which it was started is part of that turn, nested in the call. What it
// does later is a turn of its own, which is held back and given out whole when
// its work is done: a turn that is open holds the conversation.
type agent struct {
	thread string
	call   string // that started it, or asked more of it
	piece  *piece // of that call
	turn   *turn  // of that call
	next   int    // ordinal of its item that starts next
	said   string // its last message
	aside  *turn  // its turn of its own, while there is one
	held   []event.Event
	size   int
}

// Bounds of what is known of subagents.
const (
	maxAgents   = 1000
	maxHeldSize = 8 << 20 // bytes of content that are held of one
)

// hold keeps what an agent did beside the turns. What is too much is left out.
func (a *agent) hold(ev event.Event) {
	size := 64
	switch b := ev.Body.(type) {
	case event.ItemDelta:
		return // the whole comes
	case event.ItemDone:
		if data, err := event.MarshalBody(b); err == nil {
			size = len(data)
		}
	}
	if a.size += size; a.size <= maxHeldSize {
		a.held = append(a.held, ev)
	}
}

// agentActs takes what is said of a subagent. It reports whether that is a call.
func (t *translator) agentActs(tn *turn, c *piece, it item) bool {
	if it.AgentID == "" {
		return false
	}
	a := t.agents[it.AgentID]
	if it.Kind == "started" || it.Kind == "interacted" {
		if a == nil && len(t.agents) < maxAgents {
			a = &agent{thread: it.AgentID}
			t.agents[it.AgentID] = a
		}
		if a == nil {
			return false
		}
		if a.call != it.ID {
			a.call, a.piece, a.turn, a.next = it.ID, c, tn.shown(), 1
		}
		return true
	}
	if a != nil && a.piece != nil && !a.piece.outputOpen && a.turn == tn.shown() && a.piece.called {
		t.openOutput(tn, a.piece)
		text, short := cut(a.said, event.MaxOutput)
		a.piece.done = true
		t.emit(tn, event.ItemDone{ItemID: a.piece.id + ":output", FinalItem: event.FunctionCallOutput{
			CallID: a.call, Output: text, IsError: it.Kind != "completed", Truncated: short,
		}})
	}
	return false
}

// threadStarted takes the news of a thread: a subagent's may be spoken of
// before its call is.
func (t *translator) threadStarted(n note) {
	if n.Thread == nil || n.Thread.ID == t.thread || n.Thread.ParentID == "" || t.agents[n.Thread.ID] != nil || len(t.agents) >= maxAgents {
		return
	}
	t.agents[n.Thread.ID] = &agent{thread: n.Thread.ID, next: 1}
}

// beginInside takes the begin of a subagent's turn.
func (t *translator) beginInside(n note) {
	a := t.agents[n.ThreadID]
	if a == nil || t.turns[n.Turn.ID] != nil {
		t.skipped++
		return
	}
	tn := &turn{native: n.Turn.ID, agent: a, items: make(map[string]*piece), began: true, next: 1}
	t.turns[tn.native] = tn
	t.place(tn)
}

// place decides which turn shows what a subagent does next.
func (t *translator) place(tn *turn) {
	a := tn.agent
	if main := t.current(); main != nil && a.turn == main {
		tn.main = main
	} else if main != nil && a.turn == nil { // its call is not told yet
		tn.main = main
	} else {
		a.aside = &turn{id: derive(t.thread + " background " + tn.native)}
		a.next = 1
		tn.main = a.aside
	}
	tn.parent = a.call
	if tn.parent == "" {
		tn.parent = "agent-" + a.thread
	}
	tn.prefix = tn.main.id + ":" + key(tn.parent) + "/"
	if tn.main == a.aside {
		t.emit(tn, event.ResponseStart{ModelID: t.config.Model, ProviderID: providerID})
	}
}

// leaveAgents moves the subagents that still work out of a turn that is over.
func (t *translator) leaveAgents(over *turn) {
	for _, native := range sorted(keys(t.turns)) {
		tn := t.turns[native]
		if tn.main != over {
			continue
		}
		t.close(tn, "left")
		tn.items = make(map[string]*piece)
		t.place(tn)
	}
}

// endInside takes the end of a subagent's turn.
func (t *translator) endInside(tn *turn, end *nativeTurn) {
	a := tn.agent
	if a.aside == nil || a.aside != tn.main {
		return
	}
	aside := a.aside
	t.dropApprovals(aside)
	t.events = append(t.events, a.held...)
	a.aside, a.held, a.size = nil, nil, 0
	if end.Error == nil {
		end.Error = tn.failure
	}
	t.emit(aside, event.Notice{Level: event.LevelInfo, Code: "TASK_ENDED", Message: "A subagent in the background has ended."})
	t.emit(aside, outcome(end, end.Status == "interrupted", nil))
}
