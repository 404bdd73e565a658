package codex

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// point is the state of a translator between two turns: what one that begins
// there has to know of what came before.
type point struct {
	Peer      jsonrpc.Peer
	Thread    string
	Over      []string          `json:",omitzero"`
	Agents    map[string]string `json:",omitzero"` // calls of subagents by their thread
	Config    settings
	Total     *tokens         `json:",omitzero"`
	Limit     event.RateLimit `json:",omitzero"`
	Announced bool            `json:",omitzero"`
	Warnings  []string        `json:",omitzero"`
}

// Checkpoint implements [agentconn.Translator].
func (t *translator) Checkpoint() ([]byte, bool) {
	if len(t.turns) > 0 || len(t.waiting) > 0 || len(t.approvals) > 0 || len(t.behind) > 0 || len(t.asides) > 0 {
		return nil, false
	}
	p := point{
		Peer: t.peer, Thread: t.thread, Over: t.over, Config: t.config, Total: t.total, Limit: t.limit, Announced: t.announced,
		Agents: make(map[string]string), Warnings: sorted(keys(t.warnings)),
	}
	for id, a := range t.agents {
		p.Agents[id] = a.call
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
	t.peer, t.thread, t.over, t.config, t.total, t.limit, t.announced = p.Peer, p.Thread, slices.Clone(p.Over), p.Config, p.Total, p.Limit, p.Announced
	for id, call := range p.Agents {
		a := &agent{thread: id, call: call, next: 1}
		if call != "" {
			a.turn = &turn{} // one that is over
		}
		t.agents[id] = a
	}
	for _, w := range p.Warnings {
		t.warnings[w] = true
	}
	return nil
}

// isReady fails if a connection ended in its handshake.
func (t *translator) isReady() error {
	for _, c := range t.peer.Waiting() {
		if c.Method != methodModels {
			return errors.New("it was still being started")
		}
	}
	if t.thread == "" {
		return errors.New("it was still being started")
	}
	return nil
}
