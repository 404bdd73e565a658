package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// Adopt implements [runnel.Adopter]: a translator is fed what the supervisor
// has kept, in the order in which the one before it was.
func (p *Provider) Adopt(_ context.Context, opt runnel.Options) (runnel.Conn, runnel.Backlog, error) {
	process, kept, err := supervisor.Attach(supervisor.Keep(opt.Keep), redactor(environ(parentEnviron(), opt)))
	if err != nil {
		return nil, runnel.Backlog{}, runnel.Fail(runnel.ProcessCrash, "Claude Code cannot be taken over", err)
	}
	c := newConn(process, opt)
	back, err := c.relive(kept)
	if err == nil && !kept.Known {
		err = c.isSetUp(opt)
	}
	if err != nil {
		if !process.Detach() { // as it was
			_ = process.Stop(context.Background(), proc.Now) // it has ended
		}
		return nil, runnel.Backlog{}, runnel.Fail(runnel.ProcessCrash, "Claude Code cannot be taken over", err)
	}
	return c, back, nil
}

// isSetUp fails if the connection before this one ended in its handshake.
func (c *conn) isSetUp(opt runnel.Options) error {
	reqs, err := setup(opt)
	if err == nil && (c.requests < len(reqs) || len(c.tr.requests) > 0) {
		err = errors.New("it was still being started")
	}
	return err
}

// Detach implements [runnel.Detacher].
func (c *conn) Detach() bool { return c.process.Detach() }

// relive brings the connection to where the one before it was.
func (c *conn) relive(kept *supervisor.Backlog) (runnel.Backlog, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	back := runnel.Backlog{After: -1}
	if kept.Known {
		back.After = kept.Log
		if err := c.restore(kept.State); err != nil {
			return back, err
		}
	}
	c.heard = kept.From
	owed := make(map[string]any) // answers due at once that we do not see given, by request
	for _, l := range kept.Lines {
		if l.In {
			back.Events = append(back.Events, c.resay(l, &back, owed)...)
			continue
		}
		c.heard = l.End
		evs := c.rehear(l, owed)
		back.Events = append(back.Events, evs...)
	}
	c.base = c.heard
	c.lines = jsonl.NewReader(io.MultiReader(bytes.NewReader(kept.Rest), c.process.Stdout()), 0)
	for _, id := range slices.Sorted(maps.Keys(owed)) {
		_ = c.write(owed[id]) // one that has ended meanwhile has said all the more
	}
	back.Waiting = slices.Sorted(maps.Keys(c.tr.approvals))
	return back, nil
}

// resay takes a line that was written to the agent.
func (c *conn) resay(l supervisor.Line, back *runnel.Backlog, owed map[string]any) []event.Event {
	line := bytes.TrimRight(l.Text, "\n")
	f, err := decode(line)
	if err != nil {
		return nil
	}
	switch {
	case f.Type == "user":
		back.Prompts = append(back.Prompts, f.UUID)
	case f.Type == "control_request":
		if n, err := strconv.Atoi(strings.TrimPrefix(f.RequestID, "runnel-")); err == nil {
			c.requests = max(c.requests, n)
		}
		delete(owed, f.RequestID)
	case f.Type == "control_response" && f.Response != nil:
		delete(owed, f.Response.RequestID)
	}
	return c.tr.sent(line, l.At)
}

// rehear takes a line that the agent printed.
func (c *conn) rehear(l supervisor.Line, owed map[string]any) []event.Event {
	line := bytes.TrimRight(l.Text, "\r\n")
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return nil
	case len(line) > jsonl.DefaultMax:
		return []event.Event{{At: l.At, Body: tooLong}}
	case !jsonl.Valid(line):
		line = nil
	}
	if f, err := decode(line); err == nil && f.Type == "control_response" && f.Response != nil && c.tr.requests[f.Response.RequestID] == "initialize" {
		c.commands = commandNames(*f.Response)
	}
	evs, replies := c.tr.printed(line, l.At)
	for _, r := range replies {
		owed[requestOf(r)] = r
	}
	return evs
}

// requestOf returns the id of the control request that a message is or answers.
func requestOf(message any) string {
	b, err := json.Marshal(message)
	if err != nil {
		return ""
	}
	f, err := decode(b)
	switch {
	case err != nil:
		return ""
	case f.Response != nil:
		return f.Response.RequestID
	}
	return f.RequestID
}

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

// checkpoint returns the state that the next turn begins with. It reports false
// while something goes on beside the turns: then it is the earlier one, and all
// that came after it, that tells.
func (c *conn) checkpoint() ([]byte, bool) {
	t := c.tr
	if t.turn != nil || len(t.waiting) > 0 || len(t.approvals) > 0 || len(t.tasks) > 0 || len(t.asides) > 0 {
		return nil, false
	}
	p := point{
		Session: t.session, Model: t.model, Mode: t.mode, Keyed: t.keyed, Cost: t.cost, Denies: t.denies, Requests: t.requests, Own: t.own,
		Sent: c.requests, Commands: slices.Sorted(maps.Keys(c.commands)), Parts: t.parts, Agents: t.agents,
		Files: slices.Collect(maps.Keys(t.files)), Behind: slices.Sorted(maps.Keys(t.behind)),
	}
	for _, st := range t.plan {
		p.Plan = append(p.Plan, pointStep{st.id, st.PlanEntry})
	}
	b, err := json.Marshal(p)
	return b, err == nil
}

func (c *conn) restore(state []byte) error {
	var p point
	if err := json.Unmarshal(state, &p); err != nil {
		return err
	}
	t := newTranslator()
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
	c.tr, c.requests, c.commands = t, p.Sent, make(map[string]bool)
	for _, name := range p.Commands {
		c.commands[name] = true
	}
	return nil
}
