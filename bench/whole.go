package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// wholeRows measures the time from the model to the client: through the real
// agent and Runnel, and through a peer that is agent and server in one program.
func (b *bench) wholeRows(ctx context.Context) error {
	agent, err := b.w.realAgent()
	if err != nil {
		return b.notInstalled(err, "model writes a delta → client has it", "")
	}
	m, err := startModel(ctx)
	if err != nil {
		return err
	}
	defer m.close()
	home, err := b.w.fresh("home")
	if err != nil {
		return err
	}
	ours, err := newRunnel(b.w, agent.bin, modelEnviron(home, m.url)...)
	if err != nil {
		return err
	}
	b.ours = ours
	subjects := []subject{ours}
	switch peer, err := newOpencode(b.w, m.url); {
	case errors.Is(err, fs.ErrNotExist):
		b.absent("opencode")
	case err != nil:
		return err
	default:
		b.report.fact("opencode", b.w.peerVersion("opencode-ai"))
		subjects = append(subjects, peer)
	}
	for _, s := range subjects {
		if err := s.start(ctx); err != nil {
			return err
		}
		defer s.stop()
		b.w.logf("warming %s up", s.name())
		if _, err := measureLatency(ctx, s, overSSE, b.size.paced/10, false); err != nil { // loads everything that is loaded only once
			return fmt.Errorf("%s: %w", s.name(), err)
		}
	}
	return b.wholeRow(ctx, b.lanes(subjects, overSSE))
}

func (b *bench) wholeRow(ctx context.Context, lanes []lane) error {
	got, err := b.inTurn(ctx, lanes)
	if err != nil {
		return err
	}
	w := row{what: fmt.Sprintf("model writes a delta → client has it, %d/s, SSE, through Claude Code and Runnel; p50 / p99", paced)}
	for _, l := range lanes {
		if l.s == b.ours {
			w.ours, w.note = latencies(got[l]), shortfall(got[l])
			continue
		}
		w.peer = fmt.Sprintf("%s (agent and server in one) %s", l.s.name(), latencies(got[l]))
		if ours := got[lanes[0]]; lanes[0].s == b.ours {
			w.peer += fmt.Sprintf("; ratio of p50 %.2f, of p99 %.2f", ratio(p50(ours), p50(got[l])), ratio(p99(ours), p99(got[l])))
		}
	}
	b.report.add(w)
	return nil
}
