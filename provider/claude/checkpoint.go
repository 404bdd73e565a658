package claude

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// isSetUp fails if the previous connection to this agent ended before the
// handshake was complete.
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

// Waiting implements [agentconn.Translator].
func (t *translator) Waiting() []string { return t.approvals.IDs() }

// checkpoint is the state of a connection between two turns. A translator that
// starts there needs no earlier lines. The JSON names must not change: a server
// of another version may have written the checkpoint.
type checkpoint struct {
	Session, Model, Mode string            `json:",omitzero"`
	Keyed                bool              `json:",omitzero"`
	Cost                 float64           `json:",omitzero"`
	Requests             map[string]string `json:",omitzero"`
	Denies               bool              `json:",omitzero"`
	Interrupts           int               `json:"Own,omitzero"` // requests.stops
	Sent                 int               `json:",omitzero"`    // control requests sent by the connection, answered or not
	Commands             []string          `json:",omitzero"`
	Parts                map[string]int    `json:",omitzero"`
	Agents               map[string]string `json:",omitzero"`
	Plan                 []checkpointStep  `json:",omitzero"`
	Files                []event.AgentFile `json:",omitzero"`
	Background           []string          `json:"Behind,omitzero"` // ids of background tasks
	Alone                int               `json:",omitzero"`       // approvals.alone
	Process              string            `json:",omitzero"`       // session.process
}

type checkpointStep struct {
	ID    string
	Entry event.PlanEntry
}

// Checkpoint implements [agentconn.Translator].
func (t *translator) Checkpoint() ([]byte, bool) {
	if !t.turns.idle() || !t.approvals.Idle() || len(t.tasks.open) > 0 {
		return nil, false
	}
	s := t.session
	p := checkpoint{
		Session: s.id, Model: s.model, Mode: s.mode, Keyed: s.keyed, Cost: s.cost, Denies: s.denies,
		Commands: slices.Sorted(maps.Keys(s.commands)), Files: slices.Collect(maps.Keys(s.files)),
		Alone: t.approvals.alone, Process: s.process, Requests: t.requests.open, Sent: t.requests.count, Interrupts: t.requests.stops,
		Parts: t.tasks.parts, Agents: t.tasks.calls, Background: slices.Sorted(maps.Keys(t.tasks.background)),
	}
	for _, st := range t.plan {
		p.Plan = append(p.Plan, checkpointStep{st.id, st.PlanEntry})
	}
	b, err := json.Marshal(p)
	return b, err == nil
}

// Restore implements [agentconn.Translator].
func (t *translator) Restore(state []byte) error {
	var p checkpoint
	if err := json.Unmarshal(state, &p); err != nil {
		return err
	}
	*t = *newTranslator()
	s := t.session
	s.id, s.process, s.model, s.mode, s.keyed, s.cost, s.denies = p.Session, p.Process, p.Model, p.Mode, p.Keyed, p.Cost, p.Denies
	for _, name := range p.Commands {
		s.commands[name] = true
	}
	for _, f := range p.Files {
		s.files[f] = true
	}
	maps.Copy(t.requests.open, p.Requests)
	t.requests.count, t.requests.stops = p.Sent, p.Interrupts
	t.approvals.alone = p.Alone
	maps.Copy(t.tasks.parts, p.Parts)
	maps.Copy(t.tasks.calls, p.Agents)
	for _, id := range p.Background {
		t.tasks.background[id] = true
	}
	for _, st := range p.Plan {
		t.plan = append(t.plan, step{st.ID, st.Entry})
	}
	return nil
}
