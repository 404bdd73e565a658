package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// realAgent is the pinned Claude Code, with a directory for PATH.
type realAgent struct {
	bin     string // directory with the program as "claude"
	program string
	version string
}

func (w *workspace) realAgent() (a realAgent, err error) {
	p, err := w.pinned("claude-code", "bin/claude.exe")
	if err != nil {
		return a, err
	}
	a.program, a.version = p.program, p.version
	a.bin, err = w.asCommand(p, "claude")
	return a, err
}

// modelEnviron returns variables that make the agent use the benchmark's model
// and no other service.
func modelEnviron(home, model string) []string {
	return []string{
		"CLAUDE_CONFIG_DIR=" + filepath.Join(home, ".claude"), "ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=dummy",
		"DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_EAGER_FLUSH=1",
	}
}

// firstDeltaRows compares the time from the start of the real agent to its
// first delta, driven directly and by Runnel.
func (b *bench) firstDeltaRows(ctx context.Context) error {
	agent, err := b.w.realAgent()
	if err != nil {
		return b.notInstalled(err, "start of the real agent → first delta", "≤ 1.03× the agent driven directly")
	}
	b.report.fact("agent", "Claude Code "+agent.version+" with a scripted model on loopback")
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		return err
	}
	defer model.Close()
	home, err := b.w.fresh("home")
	if err != nil {
		return err
	}
	s, err := newRunnel(b.w, agent.bin, modelEnviron(home, model.URL())...)
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	var direct, through, warm []time.Duration
	for i := range b.size.starts + 1 { // the first ones only warm up the file cache
		b.w.logf("first delta of the real agent, %d of %d", i, b.size.starts)
		d, err := firstDirect(ctx, b.w, agent, home, model.URL(), 0)
		if err != nil {
			return fmt.Errorf("directly: %w", err)
		}
		t, w, err := firstThrough(ctx, s)
		if err != nil {
			return fmt.Errorf("through the server: %w", err)
		}
		if i > 0 {
			direct, through, warm = append(direct, d), append(through, t), append(warm, w)
		}
	}
	note := fmt.Sprintf("median of %d in turn", b.size.starts)
	beside := "driven directly " + millis(median(direct))
	of := func(took []time.Duration, target float64) []number {
		return keep(lower("", ms(median(took)), "ms"), ratioAtMost("", ms(median(took)), ms(median(direct)), "the agent driven directly", target))
	}
	b.report.add(
		row{ID: "cold", What: "real agent: create the session and send → first delta", Numbers: of(through, 1.03), Ours: millis(median(through)), Peer: fmt.Sprintf("%s; ratio %.3f", beside, ratio(median(through), median(direct))), Note: note},
		row{ID: "warm", What: "real agent started already: send → first delta", Numbers: of(warm, 0.2), Ours: millis(median(warm)), Peer: fmt.Sprintf("%s; ratio %.3f", beside, ratio(median(warm), median(direct))), Note: note},
	)
	return nil
}

var hello = fakemodel.Scenario{Steps: []fakemodel.Step{{Text: "Hello from the model."}}}.Prompt("go")

// firstDirect measures the first delta of the agent, driven without a server
// but as Runnel drives it. With rest > 0 it waits for rest once the agent is
// ready, and measures from the prompt.
func firstDirect(ctx context.Context, w *workspace, agent realAgent, home, model string, rest time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	dir, err := w.fresh("project")
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(agent.bin, "claude"), "--output-format=stream-json", "--verbose", "--input-format=stream-json",
		"--include-partial-messages", "--permission-prompt-tool=stdio", "--setting-sources=user")
	cmd.Dir, cmd.Env = dir, w.environ(home, agent.bin, modelEnviron(home, model)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer cmd.Wait() // the agent is killed, so the error means nothing
	defer cancel()
	lines := bufio.NewReader(out)
	if err := json.NewEncoder(in).Encode(object{"type": "control_request", "request_id": "1", "request": object{"subtype": "initialize"}}); err != nil {
		return 0, err
	}
	if rest > 0 {
		if _, err := untilLine(lines, "control_response", ""); err != nil {
			return 0, err
		}
		time.Sleep(rest)
		start = time.Now()
	}
	if err := json.NewEncoder(in).Encode(object{"type": "user", "message": object{"role": "user", "content": hello}}); err != nil {
		return 0, err
	}
	at, err := untilLine(lines, "stream_event", "content_block_delta")
	return at.Sub(start), err
}

// untilLine returns when the first line arrived with this type and this type of
// event.
func untilLine(lines *bufio.Reader, kind, event string) (time.Time, error) {
	for {
		line, err := lines.ReadBytes('\n')
		at := time.Now()
		if err != nil {
			return at, err
		}
		var f struct {
			Type  string
			Event struct{ Type string }
		}
		if err := json.Unmarshal(line, &f); err != nil {
			return at, err
		}
		if f.Type == kind && f.Event.Type == event {
			return at, nil
		}
	}
}

// firstThrough measures the first delta through Runnel, in a new session and
// then in a second turn of the running agent.
func firstThrough(ctx context.Context, s *runnel) (cold, warm time.Duration, err error) {
	start := time.Now()
	c, err := s.open(ctx)
	if err != nil {
		return 0, 0, err
	}
	for turn, took := range []*time.Duration{&cold, &warm} {
		if turn > 0 {
			start = time.Now()
		}
		if *took, err = firstOfTurn(ctx, c, start, turn+1); err != nil {
			return 0, 0, err
		}
	}
	return cold, warm, c.end(ctx)
}

// firstOfTurn sends a prompt and measures the time from start to the first
// delta of the turn with this number, from 1. It follows the session from its
// start, so it cannot miss events.
func firstOfTurn(ctx context.Context, c conversation, start time.Time, number int) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		ends := 0
		done <- c.follow(ctx, overSSE, func() {}, func(m message) bool {
			if m.delta != "" && ends == number-1 && took == 0 {
				took = m.at.Sub(start)
			}
			if m.end != "" {
				ends++
			}
			return ends == number
		})
	}()
	if err := c.prompt(ctx, hello); err != nil {
		return 0, err
	}
	if err := <-done; err != nil {
		return 0, err
	}
	if took == 0 {
		return 0, errors.New("the turn ended without a delta")
	}
	return took, nil
}
