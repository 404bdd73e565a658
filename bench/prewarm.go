package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// prewarmRows compares the time to the first delta of a newly started agent
// with that of a prewarmed one.
func (b *bench) prewarmRows(ctx context.Context) error {
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		return err
	}
	defer model.Close()
	if err := b.prewarmClaude(ctx, model.URL()); err != nil {
		return err
	}
	c, err := b.w.codex(model.URL())
	if err != nil {
		return b.notInstalled(err, "Codex kept ready", "≤ 0.2× cold")
	}
	b.report.fact("Codex", c.version+" with a scripted model on loopback")
	return b.prewarmRow(ctx, "Codex", c.runnel, c.first)
}

func (b *bench) prewarmClaude(ctx context.Context, model string) error {
	agent, err := b.w.realAgent()
	if err != nil {
		return b.notInstalled(err, "Claude Code kept ready", "≤ 0.2× cold")
	}
	b.report.fact("agent", "Claude Code "+agent.version+" with a scripted model on loopback")
	home, err := b.w.fresh("home")
	if err != nil {
		return err
	}
	server := func() (*runnel, error) { return newRunnel(b.w, agent.bin, modelEnviron(home, model)...) }
	return b.prewarmRow(ctx, "Claude Code", server, func(ctx context.Context, rest time.Duration) (time.Duration, error) {
		return firstDirect(ctx, b.w, agent, home, model, rest)
	})
}

// rested is how long a directly driven agent is ready before its prompt.
const rested = 2 * time.Second

// prewarmRow measures a server with a prewarmed agent and one without. direct
// measures the agent without a server, as the lower bound.
func (b *bench) prewarmRow(ctx context.Context, agent string, server func() (*runnel, error), direct func(context.Context, time.Duration) (time.Duration, error)) error {
	cold, err := server()
	if err != nil {
		return err
	}
	ready, err := server()
	if err != nil {
		return err
	}
	ready.flags = []string{"--prewarm=1"}
	for _, s := range []*runnel{cold, ready} {
		if err := s.start(ctx); err != nil {
			return err
		}
		defer s.stop()
		if _, _, err := firstThrough(ctx, s); err != nil { // warms up the file cache, and tells the pool which agent to prewarm
			return err
		}
	}
	var started, kept, second, alone []time.Duration
	for i := range b.size.starts {
		b.w.logf("first delta of %s kept ready, %d of %d", agent, i+1, b.size.starts)
		if err := ready.untilReady(ctx); err != nil {
			return err
		}
		c, _, err := firstThrough(ctx, cold)
		if err != nil {
			return fmt.Errorf("%s without one kept ready: %w", agent, err)
		}
		k, again, err := ready.firstOfKept(ctx)
		if err != nil {
			return fmt.Errorf("%s kept ready: %w", agent, err)
		}
		d, err := direct(ctx, rested)
		if err != nil {
			return fmt.Errorf("%s directly: %w", agent, err)
		}
		started, kept, second, alone = append(started, c), append(kept, k), append(second, again), append(alone, d)
	}
	b.report.add(row{
		What: agent + " kept ready (--prewarm 1): create the session and send → first delta", ID: agent, Ours: millis(median(kept)),
		Numbers: keep(lower("", ms(median(kept)), "ms"), ratioAtMost("", ms(median(kept)), ms(median(started)), "cold", 0.2)),
		Peer:    fmt.Sprintf("started for it %s; ratio %.3f", millis(median(started)), ratio(median(kept), median(started))),
		Note:    fmt.Sprintf("median of %d in turn; the first turn of one driven directly that has been ready for %v %s; a second turn of the same agent %s", len(kept), rested, millis(median(alone)), millis(median(second))),
	})
	return nil
}

// firstOfKept is firstThrough, but fails if the session did not receive the
// prewarmed agent.
func (s *runnel) firstOfKept(ctx context.Context) (first, second time.Duration, err error) {
	before, err := s.metric(ctx, `runnel_prewarm_sessions_total{result="hit"}`)
	if err != nil {
		return 0, 0, err
	}
	if first, second, err = firstThrough(ctx, s); err != nil {
		return 0, 0, err
	}
	after, err := s.metric(ctx, `runnel_prewarm_sessions_total{result="hit"}`)
	if err == nil && after != before+1 {
		err = errors.New("the session did not get the agent that was ready")
	}
	return first, second, err
}

// untilReady waits until the server has a prewarmed agent.
func (s *runnel) untilReady(ctx context.Context) error {
	return until(ctx, time.Minute, func() (bool, error) {
		n, err := s.metric(ctx, "runnel_prewarm_ready")
		return n == 1, err
	})
}

// metric returns one value of the server's metrics.
func (s *runnel) metric(ctx context.Context, name string) (float64, error) {
	values, err := s.metrics(ctx, name)
	if err != nil {
		return 0, err
	}
	return values[0], nil
}

// metrics returns values of the server's metrics, all read at the same time.
func (s *runnel) metrics(ctx context.Context, names ...string) (values []float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	req.Header = s.header()
	req.Header.Set("Accept-Encoding", "identity") // compression allocates a lot, now and then
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("the server's metrics lack %s: %s %.200s", name, res.Status, text)
		}
		value, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		values = append(values, value)
	}
	return values, nil
}
