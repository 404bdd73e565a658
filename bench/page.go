package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// longSession is the number of items of a long session.
const longSession = 2000

// painting is what page.mjs measures, in milliseconds.
type painting struct {
	Ready  bool
	Delays []float64 // from the agent's clock to the paint, for each delta
	Frames []float64 // between the frames while the answer arrives
}

// cannotPaint returns why the page cannot be measured; "" if it can.
func (b *bench) cannotPaint() string {
	for file, why := range map[string]string{
		"ui/dist/index.html":                           "the page is not built: make build",
		"ui/node_modules/playwright-core/package.json": "Playwright is not installed: make build",
	} {
		if _, err := os.Stat(filepath.Join(b.w.root, file)); err != nil {
			return why
		}
	}
	if _, err := exec.LookPath("node"); err != nil {
		return "Node.js is not installed"
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if _, err := exec.LookPath(name); err == nil {
			return ""
		}
	}
	if os.Getenv("CHROMIUM") == "" {
		return "Chromium is not installed"
	}
	return ""
}

// pageRows measures the page in a real browser: in a new session and in a long
// one.
func (b *bench) pageRows(ctx context.Context) error {
	fresh := row{ID: "new", What: fmt.Sprintf("agent writes a delta → the page has painted it, %d/s, new session; p50 / p95 / p99", paced)}
	long := row{ID: "long", What: fmt.Sprintf("the same in a session of %s items; p50 / p95 / p99", thousands(b.size.items))}
	frames := row{ID: "frames", What: fmt.Sprintf("frames while an answer streams into a session of %s items: p50 / p95 / longest", thousands(b.size.items))}
	if why := b.cannotPaint(); why != "" {
		for _, w := range []row{fresh, long, frames} {
			w.Ours, w.Note = unmeasured, why
			w.Target = "p50 ≤ 20 ms"
			if w.ID == frames.ID {
				w.Target = "longest ≤ 50 ms"
			}
			b.report.add(w)
		}
		return nil
	}
	s, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	for _, of := range []struct {
		w     *row
		items int
	}{{&fresh, 0}, {&long, b.size.items}} {
		all, err := b.paintings(ctx, s, of.items)
		if err != nil {
			return err
		}
		delays := medians(each(all, func(p painting) spread { return spreadOf(each(p.Delays, fromMillis)) }))
		of.w.Ours, of.w.Numbers = delays.String(), delays.within(20*time.Millisecond, "p50")
		of.w.Note = fmt.Sprintf("median of %d; frames of the browser p50 / p95 / longest %s", len(all), framesOf(all))
		if of.items > 0 {
			f := framesOf(all)
			frames.Ours = f.String()
			frames.Numbers = []number{lower("p50", ms(f.p50), "ms"), lower("p95", ms(f.p95), "ms"), atMost("longest", ms(f.p99), "ms", 50)}
			frames.Note = fmt.Sprintf("median of %d", len(all))
		}
	}
	b.report.add(fresh, long, frames)
	return nil
}

// framesOf returns the medians of p50, p95 and the longest frame.
func framesOf(all []painting) spread {
	return medians(each(all, func(p painting) spread {
		frames := each(p.Frames, fromMillis)
		return spread{percentile(frames, 50), percentile(frames, 95), percentile(frames, 100)}
	}))
}

func fromMillis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// paintings measures several answers in one session that has items before.
// Each has a browser of its own.
func (b *bench) paintings(ctx context.Context, s *runnel, items int) (all []painting, err error) {
	opened, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	c := opened.(*session)
	if items > 0 {
		b.w.logf("a session of %s items", thousands(items))
		if err := turn(ctx, c, load.Plan{Items: items}); err != nil {
			return nil, err
		}
	}
	for round := range b.size.rounds {
		b.w.logf("page with %d items before, round %d of %d", items, round+1, b.size.rounds)
		p, err := b.paint(ctx, c, b.size.painted)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, c.end(ctx)
}

// turn runs a turn to its end.
func turn(ctx context.Context, c *session, plan load.Plan) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- c.follow(ctx, overSSE, func() { close(ready) }, func(m message) bool { return m.end != "" })
	}()
	select {
	case <-ready:
	case err := <-done:
		return err
	}
	return errors.Join(c.prompt(ctx, plan.Prompt()), <-done)
}

// paint shows the session in a browser and measures one answer.
func (b *bench) paint(ctx context.Context, c *session, events int) (p painting, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	link, err := c.s.command(ctx, "login").Output()
	if err != nil {
		return p, fmt.Errorf("login: %w", err)
	}
	request := map[string]any{"link": strings.TrimSpace(string(link)), "session": c.id, "last": events - 1}
	err = b.browse(ctx, "page.mjs", request, func(answers *json.Decoder) error {
		if err := answers.Decode(&p); err != nil {
			return err
		}
		if err := c.prompt(ctx, load.Plan{Events: events, Rate: paced}.Prompt()); err != nil {
			return err
		}
		return answers.Decode(&p)
	})
	if err != nil {
		return p, err
	}
	if len(p.Delays) != events || slices.Min(p.Delays) < 0 {
		return p, fmt.Errorf("the page painted %d of %d deltas, the first delays are %v", len(p.Delays), events, p.Delays[:min(len(p.Delays), 5)])
	}
	return p, nil
}
