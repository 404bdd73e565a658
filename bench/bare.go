package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"time"
)

// overPipe names the transport of bare.
const overPipe = "pipe"

// bare is the agent driven directly through pipes. It is the baseline: the
// servers can only be slower.
type bare struct{ w *workspace }

func (s *bare) name() string                { return "the agent directly" }
func (s *bare) start(context.Context) error { return nil }
func (s *bare) servers() ([]int, error)     { return nil, nil }
func (s *bare) kill()                       {}
func (s *bare) stop()                       {}

func (s *bare) open(ctx context.Context) (conversation, error) {
	cmd := exec.CommandContext(ctx, s.w.path("bin", "claude"))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &pipes{cmd, in, out}, cmd.Start()
}

type pipes struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

func (c *pipes) prompt(_ context.Context, text string) error {
	return json.NewEncoder(c.in).Encode(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": text}})
}

func (c *pipes) follow(_ context.Context, _ string, ready func(), see func(message) bool) error {
	ready()
	lines := bufio.NewReader(c.out)
	for {
		line, err := lines.ReadBytes('\n')
		at := time.Now()
		if err != nil {
			return err
		}
		var f struct {
			Type  string
			Event struct{ Delta struct{ Text string } }
		}
		if err := json.Unmarshal(line, &f); err != nil {
			return err
		}
		m := message{at: at, delta: f.Event.Delta.Text}
		if f.Type == "result" {
			m.end = "completed"
		}
		if see(m) {
			return nil
		}
	}
}

// end closes the agent's input, which makes the agent exit, and waits for that.
func (c *pipes) end(context.Context) error {
	if err := c.in.Close(); err != nil {
		return err
	}
	return c.cmd.Wait()
}
