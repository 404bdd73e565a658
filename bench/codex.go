package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// A codex is the pinned Codex with its own home directory.
type codex struct {
	w       *workspace
	pinned         // the program as npm installs it: a launcher in Node.js
	native  string // the program that the launcher starts
	bin     string // directory with the launcher as "codex"
	home    string
	environ []string
}

// codex creates a home directory in which Codex uses the model at url.
func (w *workspace) codex(url string) (c *codex, err error) {
	c = &codex{w: w}
	if c.pinned, err = w.pinned("@openai/codex", "bin/codex.js"); err != nil {
		return nil, err
	}
	native, err := filepath.Glob(filepath.Join(w.root, "test", "agents", "node_modules", "@openai", "codex-*", "vendor", "*", "bin", "codex"))
	if err != nil {
		return nil, err
	}
	if len(native) != 1 {
		return nil, fmt.Errorf("codex for this platform: %w", fs.ErrNotExist)
	}
	c.native = native[0]
	if c.bin, err = w.asCommand(c.pinned, "codex"); err != nil {
		return nil, err
	}
	if c.home, err = w.fresh("home"); err != nil {
		return nil, err
	}
	own, tmp := filepath.Join(c.home, ".codex"), filepath.Join(c.home, "tmp")
	c.environ = []string{"CODEX_HOME=" + own, "TMPDIR=" + tmp, "FAKE_API_KEY=dummy"} // Codex creates no helpers if CODEX_HOME is within TMPDIR
	return c, errors.Join(os.Mkdir(own, 0o700), os.Mkdir(tmp, 0o700), os.WriteFile(filepath.Join(own, "config.toml"), fmt.Appendf(nil, codexConfig, url+"/v1"), 0o600))
}

const codexConfig = `model = "gpt-5.5"
model_provider = "fake"
check_for_update_on_startup = false
[model_providers.fake]
name = "fake"
base_url = %q
env_key = "FAKE_API_KEY"
wire_api = "responses"
[analytics]
enabled = false
[feedback]
enabled = false
`

// runnel returns a Runnel server that runs this Codex.
func (c *codex) runnel() (*runnel, error) {
	s, err := newRunnel(c.w, c.bin, c.environ...)
	if err != nil {
		return nil, err
	}
	s.cli = "codex"
	return s, nil
}

// started starts an app-server, performs the handshake and starts a thread. The
// caller must end the talker unless it is nil.
func (c *codex) started(ctx context.Context, params object) (t *talker, thread string, err error) {
	cmd := exec.CommandContext(ctx, c.native, "app-server")
	cmd.Dir, cmd.Env = c.home, c.w.environ(c.home, c.bin, c.environ...)
	if t, err = talk(cmd, false); err != nil {
		return nil, "", err
	}
	hello := object{"clientInfo": object{"name": "bench", "title": "bench", "version": "1"}, "capabilities": object{"experimentalApi": true}}
	if err := t.call("initialize", hello, nil, nil); err != nil {
		return t, "", err
	}
	if err := t.notify("initialized", nil); err != nil {
		return t, "", err
	}
	var made struct{ Thread struct{ ID string } }
	err = t.call("thread/start", params, &made, nil)
	return t, made.Thread.ID, err
}

func startTurn(t *talker, thread, text string) error {
	_, err := t.ask("turn/start", object{"threadId": thread, "input": []object{{"type": "text", "text": text, "text_elements": []any{}}}})
	return err
}

// first measures the time from the start of an app-server to its first delta.
// With rest > 0 it waits for rest once the thread has started, and measures
// from the start of the turn.
func (c *codex) first(ctx context.Context, rest time.Duration) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	dir, err := c.w.fresh("project")
	if err != nil {
		return 0, err
	}
	start := time.Now()
	t, thread, err := c.started(ctx, object{"cwd": dir})
	if t != nil {
		defer func() { err = errors.Join(err, t.end(ctx)) }()
	}
	if err != nil {
		return 0, err
	}
	if rest > 0 {
		time.Sleep(rest)
		start = time.Now()
	}
	if err := startTurn(t, thread, hello); err != nil {
		return 0, err
	}
	at, err := t.untilDelta(func(m jsonrpc.Message) bool { return m.Method == "item/agentMessage/delta" })
	if err != nil {
		return 0, err
	}
	_, err = turnEnd(t, nil)
	return at.Sub(start), err
}

// turnEnd waits for the end of a turn and returns how many items were
// completed. It calls see, unless that is nil, with each message.
func turnEnd(t *talker, see func(jsonrpc.Message)) (items int, err error) {
	_, err = t.until(func(m jsonrpc.Message) (bool, error) {
		if see != nil {
			see(m)
		}
		var p struct {
			Turn struct {
				Status string
				Error  struct{ Message string }
			}
		}
		switch m.Method {
		case "item/completed":
			items++
		case "turn/completed":
			if err := json.Unmarshal(m.Params, &p); err != nil {
				return true, err
			}
			if p.Turn.Status != "completed" {
				return true, fmt.Errorf("turn %s: %s", p.Turn.Status, p.Turn.Error.Message)
			}
			return true, nil
		}
		return false, nil
	})
	return items, err
}

// codexRows compares the time from the start of Codex to its first delta,
// driven directly and by Runnel.
func (b *bench) codexRows(ctx context.Context) error {
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		return err
	}
	defer model.Close()
	c, err := b.w.codex(model.URL())
	if err != nil {
		return b.notInstalled(err, "Codex: start → first delta", "≤ 1.03× app-server driven directly")
	}
	b.report.fact("Codex", c.version+" with a scripted model on loopback")
	s, err := c.runnel()
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	installed := *c
	installed.native = c.program
	var direct, native, through []time.Duration
	rounds := 3 * b.size.starts // Codex starts fast, so a small difference must be measured
	for i := range rounds + 1 { // the first ones only warm up the file cache
		b.w.logf("first delta of Codex, %d of %d", i, rounds)
		d, err := installed.first(ctx, 0)
		if err != nil {
			return fmt.Errorf("directly: %w", err)
		}
		n, err := c.first(ctx, 0)
		if err != nil {
			return fmt.Errorf("directly, without the launcher: %w", err)
		}
		t, _, err := firstThrough(ctx, s)
		if err != nil {
			return fmt.Errorf("through the server: %w", err)
		}
		if i > 0 {
			direct, native, through = append(direct, d), append(native, n), append(through, t)
		}
	}
	b.report.add(row{
		What: "Codex: create the session and send → first delta", Ours: millis(median(through)),
		Numbers: keep(lower("", ms(median(through)), "ms"), ratioAtMost("", ms(median(through)), ms(median(direct)), "app-server driven directly", 1.03)),
		Peer:    fmt.Sprintf("`codex app-server` driven directly %s; ratio %.3f", millis(median(direct)), ratio(median(through), median(direct))),
		Note: fmt.Sprintf("median of %d in turn; beside it: start the process as npm installs it, initialize, thread/start, turn/start. Runnel leaves npm's launcher out; "+
			"without it the app-server takes %s directly; ratio %.3f", rounds, millis(median(native)), ratio(median(through), median(native))),
	})
	return nil
}
