package codex

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// point is the state of a translator between two turns. A new translator
// continues from it.
type point struct {
	Peer      jsonrpc.Peer
	Thread    string
	Process   string            `json:",omitzero"`
	Over      []string          `json:",omitzero"`
	Agents    map[string]string `json:",omitzero"` // by thread of the subagent: the call that started it
	Config    settings
	Total     *tokens         `json:",omitzero"`
	Limit     event.RateLimit `json:",omitzero"`
	Announced bool            `json:",omitzero"`
	Warnings  []string        `json:",omitzero"`
}

// Checkpoint implements [agentconn.Translator].
func (t *translator) Checkpoint() ([]byte, bool) {
	if len(t.turns.running)+len(t.turns.waiting)+len(t.subagents.running)+len(t.commands) > 0 || !t.questions.Idle() {
		return nil, false
	}
	p := point{
		Peer: t.peer, Thread: t.thread, Process: t.process, Over: t.turns.over, Config: t.config, Total: t.turns.total, Limit: t.limits.last, Announced: t.announced,
		Agents: make(map[string]string), Warnings: slices.Sorted(maps.Keys(t.warnings.shown)),
	}
	for thread, a := range t.subagents.byThread {
		p.Agents[thread] = a.call
	}
	b, err := json.Marshal(p)
	return b, err == nil
}

// Restore implements [agentconn.Translator].
func (t *translator) Restore(state []byte) error {
	var p point
	if err := json.Unmarshal(state, &p); err != nil {
		return err
	}
	*t = *newTranslator()
	t.peer, t.thread, t.process, t.config, t.announced, t.limits.last = p.Peer, p.Thread, p.Process, p.Config, p.Announced, p.Limit
	t.turns.over, t.turns.total = slices.Clone(p.Over), p.Total
	for thread, call := range p.Agents {
		a := &subagent{thread: thread, call: call, line: line{next: 1}}
		if call != "" {
			a.turn = turnOver
		}
		t.subagents.byThread[thread] = a
	}
	for _, w := range p.Warnings {
		t.warnings.shown[w] = true
	}
	return nil
}

// turnOver stands for the id of an ended turn, which a checkpoint does not
// keep.
const turnOver = "over"

// isReady fails with ErrStarting if the handshake was not complete.
func (t *translator) isReady() error {
	for _, c := range t.peer.Waiting() {
		if c.Method != methodModels {
			return agentconn.ErrStarting
		}
	}
	if t.thread == "" {
		return agentconn.ErrStarting
	}
	return nil
}
