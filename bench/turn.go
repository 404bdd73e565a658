package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// turnRow measures how soon a client of the harness API receives the first
// frame of a turn, if the agent runs already.
func (b *bench) turnRow(ctx context.Context) error {
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
	b.w.logf("first frames of %d harness turns", b.size.firsts)
	c := opened.(*session)
	if err := s.post(ctx, "/api/harness/session/boot", map[string]any{"sessionId": c.id}, nil); err != nil {
		return err
	}
	var took []time.Duration
	for range b.size.firsts {
		d, err := firstFrame(ctx, c)
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	b.report.add(row{
		What: "agent runs: request of a harness turn → its first frame; p50 / p95 / p99",
		Ours: spreadOf(took).String(), Numbers: spreadOf(took).within(200*time.Millisecond, "p50", "p99"), Note: fmt.Sprintf("%d turns; the prompt is durable by then", len(took)),
	})
	return nil
}

// firstFrame returns the time from the request of a turn to its first frame. It
// reads the turn to its end.
func firstFrame(ctx context.Context, c *session) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, stillWaiting)
	defer cancel()
	body, err := json.Marshal(map[string]any{"sessionId": c.id, "message": load.Plan{Events: 5, Rate: paced}.Prompt()})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.s.url+"/api/harness/turn", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header = c.s.header()
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // only to explain the status
		return 0, fmt.Errorf("harness turn: %s %s", res.Status, said)
	}
	err = readSSE(res.Body, func(at time.Time, _ []byte) error {
		if took == 0 {
			took = at.Sub(start)
		}
		return nil
	})
	if errors.Is(err, io.EOF) && took > 0 {
		return took, nil
	}
	return 0, fmt.Errorf("the stream of a turn ended without a frame: %w", err)
}
