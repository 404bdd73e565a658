package main

import (
	"context"
	"fmt"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// upsertRow measures the time from an agent's first delta to the first upsert
// that contains its text. The page reads upserts.
func (b *bench) upsertRow(ctx context.Context) error {
	s, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	opened, err := s.open(ctx)
	if err != nil {
		return err
	}
	b.w.logf("first upserts of %d turns", b.size.firsts)
	c := opened.(*session)
	var took []time.Duration
	for range b.size.firsts {
		d, err := firstUpsert(ctx, c)
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	b.report.add(row{
		What: "agent's first delta → first upsert that shows it, WebSocket; p50 / p95 / p99",
		Ours: spreadOf(took).String(), Numbers: spreadOf(took).within(5*time.Millisecond, "p50", "p99"), Note: fmt.Sprintf("%d turns", len(took)),
	})
	return nil
}

func firstUpsert(ctx context.Context, c *session) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, stillWaiting)
	defer cancel()
	open, done := make(chan struct{}), make(chan error, 1)
	begun := time.Time{}
	go func() {
		done <- c.s.followWS(ctx, "upsert-v1", []string{c.id}, func() {
			begun = time.Now()
			close(open)
		}, func(at time.Time, f frame) bool {
			if f.Type == "session:upsert" && f.Payload.Message != nil {
				for _, stamp := range load.Stamps(f.Payload.Message.Content) {
					if stamp.At.After(begun) && took == 0 {
						took = at.Sub(stamp.At)
					}
				}
			}
			return f.Type == "session:turn" && f.Payload.Type != "turn_started"
		})
	}()
	select {
	case <-open:
	case err := <-done:
		return 0, err
	}
	if err := c.prompt(ctx, load.Plan{Events: 5, Rate: paced}.Prompt()); err != nil {
		return 0, err
	}
	if err := <-done; err != nil {
		return 0, err
	}
	if took == 0 {
		return 0, fmt.Errorf("the turn ended without an upsert of its text")
	}
	return took, nil
}
