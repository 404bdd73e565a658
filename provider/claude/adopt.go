package claude

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// Adopt implements [runnel.Adopter].
func (p *Provider) Adopt(_ context.Context, opt runnel.Options) (runnel.Conn, runnel.Backlog, error) {
	opt = p.configured(opt)
	tr := newTranslator()
	c, back, err := agentconn.Adopt(opt, environ(parentEnviron(), opt), product, tr, func() error { return tr.isSetUp(opt) })
	if err != nil {
		return nil, back, err
	}
	return &conn{c, tr, opt.AllowBypass, opt.Dir}, back, nil
}

// isSetUp fails if the connection before this one ended in its handshake.
func (t *translator) isSetUp(opt runnel.Options) error {
	reqs, err := setup(opt)
	if err == nil && (t.asked < len(reqs) || len(t.requests) > 0) {
		err = errors.New("it was still being started")
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
	return agentconn.About{Settles: f.RequestID}
}

// Waiting implements [agentconn.Translator].
func (t *translator) Waiting() []string { return slices.Sorted(maps.Keys(t.approvals)) }

// point is the state of a connection between two turns: what a translator that
// begins there has to know of what came before.
type point struct {
	Session, Model, Mode string            `json:",omitzero"`
	Keyed                bool              `json:",omitzero"`
	Cost                 float64           `json:",omitzero"`
	Requests             map[string]string `json:",omitzero"`
	Denies               bool              `json:",omitzero"`
	Own                  int               `json:",omitzero"`
	Sent                 int               `json:",omitzero"` // control requests of the connection
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
	if t.turn != nil || len(t.waiting) > 0 || len(t.approvals) > 0 || len(t.tasks) > 0 || len(t.asides) > 0 {
		return nil, false
	}
	p := point{
		Session: t.session, Model: t.model, Mode: t.mode, Keyed: t.keyed, Cost: t.cost, Denies: t.denies, Requests: t.requests, Own: t.own,
		Sent: t.asked, Commands: slices.Sorted(maps.Keys(t.commands)), Parts: t.parts, Agents: t.agents,
		Files: slices.Collect(maps.Keys(t.files)), Behind: slices.Sorted(maps.Keys(t.behind)),
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
	t.session, t.model, t.mode, t.keyed, t.cost, t.own = p.Session, p.Model, p.Mode, p.Keyed, p.Cost, p.Own
	t.denies = p.Denies
	maps.Copy(t.requests, p.Requests)
	maps.Copy(t.parts, p.Parts)
	maps.Copy(t.agents, p.Agents)
	for _, st := range p.Plan {
		t.plan = append(t.plan, step{st.ID, st.Entry})
	}
	for _, f := range p.Files {
		t.files[f] = true
	}
	for _, id := range p.Behind {
		t.behind[id] = true
	}
	t.asked = p.Sent
	for _, name := range p.Commands {
		t.commands[name] = true
	}
	return nil
}
