package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// wholeTarget is what a row without numbers would have to meet.
const wholeTarget = "p50 ≤ 0.5× opencode; p99 ≤ 0.4× opencode"

// wholeRows measures the time from the model to the client: through the real
// agent and Runnel, and through a peer that is agent and server in one program.
func (b *bench) wholeRows(ctx context.Context) error {
	agent, err := b.w.realAgent()
	if err != nil {
		return b.notInstalled(err, "model writes a delta → client has it", wholeTarget)
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
	w := row{What: fmt.Sprintf("model writes a delta → client has it, %d/s, SSE, through Claude Code and Runnel; p50 / p95 / p99", paced)}
	for _, l := range lanes {
		if l.s == b.ours {
			w.Ours, w.Note, w.Numbers = typical(got[l]).String(), shortfall(got[l]), typical(got[l]).numbers()
			continue
		}
		w.compareWith(l.s.name(), "agent and server in one", typical(got[lanes[0]]), typical(got[l]), 0.5, 0.4)
	}
	if w.Peer == "" {
		w.Target = wholeTarget
	}
	b.report.add(w)
	return nil
}
