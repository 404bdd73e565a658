package acp

import (
	"context"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
)

// Probe implements [runnel.Prober]. It starts the agent in an empty directory
// and stops it again. It sends no prompt. Without a deadline in ctx, the agent
// may take as long as at the start of a session.
func (p *provider) Probe(ctx context.Context) runnel.Installation {
	in := runnel.Installation{Install: p.agent.Install, Login: p.agent.Login, ModeLabels: p.agent.Modes}
	q := p.agent.quirks().startup
	for _, m := range p.modes() {
		if q.modes[m] != nil || slices.Contains(q.startModes, m) {
			in.Modes = append(in.Modes, string(m))
		}
	}
	path, _, err := p.command(runnel.Options{})
	if err != nil {
		in.Problem = runnel.Safe(err).Message
		return in
	}
	in.Path = path
	if err := p.ask(ctx, runnel.Options{Dir: agentconn.EmptyDir()}, &in); err != nil {
		in.Problem = runnel.Safe(err).Message
	}
	return in
}

// ask starts the agent and fills in what it reports about itself.
func (p *provider) ask(ctx context.Context, opt runnel.Options, in *runnel.Installation) error {
	c, err := p.start(ctx, opt)
	if err != nil {
		return err
	}
	err = c.Handshake(ctx, func(next func() ([]byte, error)) error {
		h := handshake{p: p, c: c, opt: opt, opening: opening{method: methodNew}, next: next}
		if err := h.initialize(); err != nil {
			return err
		}
		in.Installed, in.Version = true, text.OneLine(c.tr.session.release, 40)
		if !p.agent.Probes {
			return nil
		}
		err := h.begin()
		if err == nil {
			h.describe(in)
		}
		if code := runnel.CodeOf(err); code == runnel.AgentNotLoggedIn {
			in.LoggedIn = new(bool)
		}
		return err
	})
	if err == nil {
		err = c.Close()
	}
	return err
}

// describe fills in the settings of a new conversation, and deletes the
// conversation if the agent can.
func (h *handshake) describe(in *runnel.Installation) {
	if in.Config = slices.Clone(h.c.tr.session.settings.config); h.p.agent.Gated {
		yes := true
		in.LoggedIn = &yes
	}
	if m := find(in.Config, "model"); m != nil {
		for _, ch := range m.Choices {
			in.Models = append(in.Models, runnel.Model{ID: ch.Value, Name: ch.Name, Description: ch.Description})
		}
	}
	if h.c.tr.session.caps.Delete {
		_, _ = h.call(jsonrpc.ID{}, methodDelete, map[string]any{"sessionId": h.c.tr.session.id}) // on failure an empty conversation remains
	}
}
