package claude

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// isSetUp fails if the connection before this one ended in its handshake.
func (t *translator) isSetUp(opt runnel.Options) error {
	reqs, err := setup(opt)
	if err == nil && (t.requests.count < len(reqs) || len(t.requests.open) > 0) {
		err = agentconn.ErrStarting
	}
	return err
}

// About implements [agentconn.Translator].
func (t *translator) About(line []byte) agentconn.About {
	f, err := decode(line)
	switch {
	case err != nil:
		return agentconn.About{}
	case f.Type == "user":
		return agentconn.About{Prompt: f.UUID}
	case f.Response != nil:
		return agentconn.About{Settles: f.Response.RequestID}
	}
	return agentconn.About{Settles: f.RequestID, Interrupt: f.Request != nil && f.Request.Subtype == "interrupt"}
}

// Skipped implements [agentconn.Translator].
func (t *translator) Skipped() (messages, lines int) { return t.out.Skipped() }

// Waiting implements [agentconn.Translator].
func (t *translator) Waiting() []string { return t.approvals.IDs() }

// point is the state of a connection between two turns: all of the past that a
// translator needs which begins there. The names are those in JSON: a server of
// another version may have written it.
type point struct {
	Session, Model, Mode string            `json:",omitzero"`
	Keyed                bool              `json:",omitzero"`
	Cost                 float64           `json:",omitzero"`
	Requests             map[string]string `json:",omitzero"`
	Denies               bool              `json:",omitzero"`
	Own                  int               `json:",omitzero"`
	Sent                 int               `json:",omitzero"` // control requests of the connection, answered or not
	Commands             []string          `json:",omitzero"`
	Parts                map[string]int    `json:",omitzero"`
	Agents               map[string]string `json:",omitzero"`
	Plan                 []pointStep       `json:",omitzero"`
	Files                []event.AgentFile `json:",omitzero"`
	Behind               []string          `json:",omitzero"`
}

type pointStep struct {
	ID    string
	Entry event.PlanEntry
}

// Checkpoint implements [agentconn.Translator].
func (t *translator) Checkpoint() ([]byte, bool) {
	if !t.turns.idle() || !t.approvals.Idle() || len(t.tasks.open) > 0 {
		return nil, false
	}
	s := t.session
	p := point{
		Session: s.id, Model: s.model, Mode: s.mode, Keyed: s.keyed, Cost: s.cost, Denies: s.denies,
		Commands: slices.Sorted(maps.Keys(s.commands)), Files: slices.Collect(maps.Keys(s.files)),
		Requests: t.requests.open, Sent: t.requests.count, Own: t.requests.stops,
		Parts: t.tasks.parts, Agents: t.tasks.calls, Behind: slices.Sorted(maps.Keys(t.tasks.background)),
	}
	for _, st := range t.plan {
		p.Plan = append(p.Plan, pointStep{st.id, st.PlanEntry})
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
	s := t.session
	s.id, s.model, s.mode, s.keyed, s.cost, s.denies = p.Session, p.Model, p.Mode, p.Keyed, p.Cost, p.Denies
	for _, name := range p.Commands {
		s.commands[name] = true
	}
	for _, f := range p.Files {
		s.files[f] = true
	}
	maps.Copy(t.requests.open, p.Requests)
	t.requests.count, t.requests.stops = p.Sent, p.Own
	maps.Copy(t.tasks.parts, p.Parts)
	maps.Copy(t.tasks.calls, p.Agents)
	for _, id := range p.Behind {
		t.tasks.background[id] = true
	}
	for _, st := range p.Plan {
		t.plan = append(t.plan, step{st.ID, st.Entry})
	}
	return nil
}
