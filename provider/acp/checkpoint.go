package acp

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// state is a checkpoint: the state that a translator needs to continue with the
// next turn. A later version of Runnel may read it, so the JSON names are
// stable.
type state struct {
	Version       int                  `json:",omitzero"`
	Caps          caps                 `json:",omitzero"`
	Session       string               `json:",omitzero"`
	Config        []event.ConfigOption `json:",omitzero"`
	Legacy        map[string]string    `json:",omitzero"`
	Model, Mode   string               `json:",omitzero"`
	Named         bool                 `json:",omitzero"`
	Title         string               `json:",omitzero"`
	Untitled      bool                 `json:",omitzero"`
	Commands      []event.AgentCommand `json:",omitzero"`
	Cost          float64              `json:",omitzero"`
	CostUnknown   bool                 `json:",omitzero"`
	Used          usage                `json:",omitzero"`
	Unprompted    int                  `json:"Unasked,omitzero"`
	LastMessage   string               `json:"Said,omitzero"`
	Peer          jsonrpc.Peer
	Requests      map[string]request `json:"Asked,omitzero"`
	OutOfTurnText string             `json:"Aside,omitzero"`
}

// Checkpoint implements [agentconn.Translator].
func (t *translator) Checkpoint() ([]byte, bool) {
	s, ts := &t.session, &t.turns
	if ts.now != nil || len(ts.waiting) > 0 || t.replay != nil {
		return nil, false
	}
	b, err := json.Marshal(state{
		Version: s.version, Caps: s.caps, Session: s.id, Named: s.named, Title: s.title, Untitled: s.untitled, Commands: s.commands,
		Config: s.settings.config, Legacy: s.settings.legacy, Model: s.settings.model, Mode: s.settings.mode,
		Cost: ts.cost, CostUnknown: ts.costUnknown, Used: ts.used, Unprompted: ts.unprompted, LastMessage: ts.lastMessage,
		Peer: t.peer, Requests: t.requests, OutOfTurnText: t.outOfTurnText.words.String(),
	})
	return b, err == nil
}

// Restore implements [agentconn.Translator].
func (t *translator) Restore(saved []byte) error {
	var from state
	if err := json.Unmarshal(saved, &from); err != nil {
		return err
	}
	s, ts := &t.session, &t.turns
	s.version, s.caps, s.id, s.named, s.commands = from.Version, from.Caps, from.Session, from.Named, from.Commands
	s.title, s.untitled = from.Title, from.Untitled
	s.settings.config, s.settings.legacy = from.Config, from.Legacy
	s.settings.model, s.settings.mode = from.Model, from.Mode
	ts.cost, ts.costUnknown, ts.used, ts.unprompted, ts.lastMessage = from.Cost, from.CostUnknown, from.Used, from.Unprompted, from.LastMessage
	t.peer = from.Peer
	t.requests = make(map[string]request)
	maps.Copy(t.requests, from.Requests)
	t.outOfTurnText.words.Reset()
	t.outOfTurnText.words.WriteString(from.OutOfTurnText)
	return nil
}

// About implements [agentconn.Translator].
func (t *translator) About(line []byte) agentconn.About {
	m, err := jsonrpc.Decode(line)
	if err != nil {
		return agentconn.About{}
	}
	switch m.Kind() {
	case jsonrpc.Request:
		return agentconn.About{Prompt: turnOf(m)}
	case jsonrpc.Response:
		return agentconn.About{Settles: m.ID.Key()}
	}
	return agentconn.About{Settles: m.Method, Interrupt: m.Method == methodCancel}
}

// Waiting implements [agentconn.Translator].
func (t *translator) Waiting() []string { return t.turns.openApprovals() }

// turnOf returns the id of the turn that a request to the agent starts, or ""
// if it is not a prompt.
func turnOf(m jsonrpc.Message) string {
	id, _ := m.ID.Text()
	turn, ok := strings.CutPrefix(id, promptID)
	if !ok || m.Method != methodPrompt {
		return ""
	}
	return turn
}
