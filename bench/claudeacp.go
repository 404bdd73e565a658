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
	"time"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// An acpAgent is an agent that implements the Agent Client Protocol. The
// benchmark drives it directly, as an editor does.
type acpAgent struct {
	w       *workspace
	program string
	home    string
	environ []string
}

func (a *acpAgent) start(ctx context.Context) (*talker, error) {
	cmd := exec.CommandContext(ctx, a.program)
	cmd.Dir, cmd.Env = a.home, a.w.environ(a.home, a.w.path("bin"), a.environ...)
	return talk(cmd, true)
}

// initialized starts the agent and performs the handshake.
func (a *acpAgent) initialized(ctx context.Context) (*talker, error) {
	t, err := a.start(ctx)
	if err != nil {
		return nil, err
	}
	return t, t.call("initialize", object{"protocolVersion": 1, "clientCapabilities": object{}, "clientInfo": object{"name": "bench", "version": "1"}}, nil, nil)
}

// newSession returns the id of a new session.
func (a *acpAgent) newSession(t *talker) (string, error) {
	dir, err := a.w.fresh("project")
	if err != nil {
		return "", err
	}
	var made struct{ SessionID string }
	err = t.call("session/new", object{"cwd": dir, "mcpServers": []any{}}, &made, nil)
	return made.SessionID, err
}

// turn runs a turn whose answer is one line. It returns the time of the first
// delta, after the turn has ended.
func (a *acpAgent) turn(t *talker, session string) (first time.Time, err error) {
	id, err := t.ask("session/prompt", object{"sessionId": session, "prompt": []object{{"type": "text", "text": hello}}})
	if err != nil {
		return first, err
	}
	if first, err = t.untilDelta(saysSomething); err != nil {
		return first, err
	}
	_, err = t.until(func(m jsonrpc.Message) (bool, error) { return m.Kind() == jsonrpc.Response && m.ID.Same(id), nil })
	return first, err
}

func saysSomething(m jsonrpc.Message) bool {
	var p struct {
		Update struct{ SessionUpdate string }
	}
	return m.Method == "session/update" && json.Unmarshal(m.Params, &p) == nil && p.Update.SessionUpdate == "agent_message_chunk"
}

// first measures the time from the start of the agent to its first delta.
func (a *acpAgent) first(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	start := time.Now()
	t, err := a.initialized(ctx)
	if t != nil {
		defer func() { err = errors.Join(err, t.end(ctx)) }()
	}
	if err != nil {
		return 0, err
	}
	session, err := a.newSession(t)
	if err != nil {
		return 0, err
	}
	at, err := a.turn(t, session)
	return at.Sub(start), err
}

type object = map[string]any

// claudeACPRows compares Claude Code driven by Runnel with Claude Code driven
// by claude-agent-acp, which editors use.
func (b *bench) claudeACPRows(ctx context.Context) error {
	agent, err := b.w.realAgent()
	if err != nil {
		return b.notInstalled(err, "Claude Code through Runnel and through claude-agent-acp", "≤ 0.7×")
	}
	adapter, err := b.w.pinned("@agentclientprotocol/claude-agent-acp", "dist/index.js")
	if err != nil {
		return b.notInstalled(err, "Claude Code through Runnel and through claude-agent-acp", "≤ 0.7×")
	}
	own := bundledClaude(adapter)
	b.report.fact("agent", "Claude Code "+agent.version+" with a scripted model on loopback")
	b.report.fact("claude-agent-acp", adapter.version+" with the same Claude Code; alone it brings "+own)
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		return err
	}
	defer model.Close()
	home, err := b.w.fresh("home")
	if err != nil {
		return err
	}
	environ := append(modelEnviron(home, model.URL()), b.w.withNode())
	bundled := &acpAgent{w: b.w, program: adapter.program, home: home, environ: environ}
	same := &acpAgent{w: b.w, program: adapter.program, home: home, environ: append(slices.Clone(environ), "CLAUDE_CODE_EXECUTABLE="+agent.program)}
	s, err := newRunnel(b.w, agent.bin, modelEnviron(home, model.URL())...)
	if err != nil {
		return err
	}
	return errors.Join(b.claudeACPStart(ctx, s, same, bundled, own), b.claudeACPMemory(ctx, s, same, bundled, own))
}

// bundledClaude returns the version of Claude Code that the adapter's SDK
// installs.
func bundledClaude(adapter pinned) string {
	modules := filepath.Join(filepath.Dir(adapter.program), "..", "..", "..")
	data, err := os.ReadFile(filepath.Join(modules, "@anthropic-ai", "claude-agent-sdk", "package.json"))
	var pkg struct{ ClaudeCodeVersion string }
	if err != nil || json.Unmarshal(data, &pkg) != nil || pkg.ClaudeCodeVersion == "" {
		return "one of its own"
	}
	return pkg.ClaudeCodeVersion
}

func (b *bench) claudeACPStart(ctx context.Context, s *runnel, same, bundled *acpAgent, own string) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	var ours, peer, alone []time.Duration
	for i := range b.size.starts + 1 { // the first ones only warm up the file cache
		b.w.logf("Claude Code through claude-agent-acp and through Runnel, %d of %d", i, b.size.starts)
		t, _, err := firstThrough(ctx, s)
		if err != nil {
			return fmt.Errorf("through the server: %w", err)
		}
		p, err := same.first(ctx)
		if err != nil {
			return fmt.Errorf("through claude-agent-acp: %w", err)
		}
		o, err := bundled.first(ctx)
		if err != nil {
			return fmt.Errorf("through claude-agent-acp with its own agent: %w", err)
		}
		if i > 0 {
			ours, peer, alone = append(ours, t), append(peer, p), append(alone, o)
		}
	}
	b.report.add(row{
		What: "Claude Code: start → first delta of a one-line turn", ID: "start", Ours: millis(median(ours)),
		Numbers: keep(lower("", ms(median(ours)), "ms"), ratioAtMost("", ms(median(ours)), ms(median(peer)), "claude-agent-acp", 0.7)),
		Peer:    fmt.Sprintf("claude-agent-acp %s; ratio %.2f", millis(median(peer)), ratio(median(ours), median(peer))),
		Note:    fmt.Sprintf("median of %d in turn. Runnel: create the session, send, read the events; beside it: start the process, initialize, session/new, session/prompt, with the same Claude Code; with the %s that it brings %s", b.size.starts, own, millis(median(alone))),
	})
	return nil
}
