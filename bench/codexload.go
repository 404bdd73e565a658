package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// Each turn of a measured conversation has itemsPerTurn items: the user's
// message, answers that consist of text and commands, and a last text.
const (
	itemsPerTurn    = 2 + answersPerTurn*(1+commandsPerStep)
	answersPerTurn  = 8
	commandsPerStep = 5
)

// lastWords is the last text of the turn with this number, from 0.
func lastWords(turn int) string { return fmt.Sprintf("These were the last words of turn %d.", turn) }

func longTurn(turn int) string {
	var sc fakemodel.Scenario
	for i := range answersPerTurn {
		st := fakemodel.Step{Text: fmt.Sprintf("Step %d of turn %d: I look at a few more files before I say what is wrong with them.", i, turn)}
		for j := range commandsPerStep {
			st.Blocks = append(st.Blocks, fakemodel.Call("exec_command", object{"cmd": fmt.Sprintf("echo %d.%d.%d; seq 1 40", turn, i, j)}))
		}
		sc.Steps = append(sc.Steps, st)
	}
	sc.Steps = append(sc.Steps, fakemodel.Step{Text: lastWords(turn)})
	return sc.Prompt(fmt.Sprintf("turn %d", turn))
}

// converse creates a conversation and returns its id and its number of items.
func (c *codex) converse(ctx context.Context, turns int) (thread string, items int, err error) {
	dir, err := c.w.fresh("project")
	if err != nil {
		return "", 0, err
	}
	t, thread, err := c.started(ctx, object{"cwd": dir, "approvalPolicy": "never", "sandbox": "danger-full-access"})
	if t != nil {
		defer func() { err = errors.Join(err, t.end(ctx)) }()
	}
	if err != nil {
		return "", 0, err
	}
	for turn := range turns {
		c.w.logf("a conversation with Codex, turn %d of %d", turn+1, turns)
		if err := startTurn(t, thread, longTurn(turn)); err != nil {
			return "", 0, err
		}
		n, err := turnEnd(t, nil)
		if err != nil {
			return "", 0, err
		}
		items += n
	}
	if items != turns*itemsPerTurn {
		return "", 0, fmt.Errorf("%d turns have %d items, want %d", turns, items, turns*itemsPerTurn)
	}
	return thread, items, nil
}

// A loading holds how long it took to load a conversation.
type loading struct {
	whole time.Duration // from the start of the program
	alone time.Duration // of the load request only
	said  int           // updates received
}

// loadThrough loads a conversation through a new Runnel server and waits until
// a client has received all of it.
func (c *codex) loadThrough(ctx context.Context, thread, last string) (l loading, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s, err := c.runnel()
	if err != nil {
		return l, err
	}
	if err := s.start(ctx); err != nil {
		return l, err
	}
	defer s.stop()
	start := time.Now()
	var loaded struct{ SessionID string }
	if err := s.post(ctx, "/api/session/codex:"+thread+"/load", object{}, &loaded); err != nil {
		return l, err
	}
	l.alone = time.Since(start) // until the response
	seen := false
	err = s.followWS(ctx, "upsert-v1", []string{loaded.SessionID}, nil, func(at time.Time, f frame) bool {
		for _, e := range f.Entries {
			if e.Type == "session:upsert" {
				l.said++
			}
			seen = seen || e.Payload.Message != nil && strings.Contains(e.Payload.Message.Content, last)
		}
		l.whole = at.Sub(start)
		return seen && f.Done
	})
	return l, err
}

// loadACP loads the conversation through codex-acp, with the same Codex and
// home.
func (c *codex) loadACP(ctx context.Context, a *acpAgent, thread, last string) (l loading, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	start := time.Now()
	t, err := a.initialized(ctx)
	if t != nil {
		defer func() { err = errors.Join(err, t.end(ctx)) }()
	}
	if err != nil {
		return l, err
	}
	asked := time.Now()
	seen := false
	err = t.call("session/load", object{"sessionId": thread, "cwd": c.home, "mcpServers": []any{}}, nil, func(m jsonrpc.Message) {
		if m.Method == "session/update" {
			l.said++
			seen = seen || strings.Contains(string(m.Params), last)
		}
	})
	l.whole, l.alone = time.Since(start), time.Since(asked)
	if err == nil && !seen {
		err = errors.New("what was loaded lacks its end")
	}
	return l, err
}

// codexLoadRows compares how long it takes to load a long conversation.
func (b *bench) codexLoadRows(ctx context.Context) error {
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		return err
	}
	defer model.Close()
	const what, target = "Codex: load of a long conversation", "≤ 0.5× codex-acp"
	c, err := b.w.codex(model.URL())
	if err != nil {
		return b.notInstalled(err, what, target)
	}
	adapter, err := b.w.pinned("@agentclientprotocol/codex-acp", "dist/index.js")
	if err != nil {
		return b.notInstalled(err, what, target)
	}
	b.report.fact("Codex", c.version+" with a scripted model on loopback")
	b.report.fact("codex-acp", adapter.version+" with the same Codex")
	a := &acpAgent{w: b.w, program: adapter.program, home: c.home, environ: append(c.environ, "NO_BROWSER=1", "CODEX_PATH="+filepath.Join(c.bin, "codex"))}
	thread, items, err := c.converse(ctx, b.size.turns)
	if err != nil {
		return err
	}
	last := lastWords(b.size.turns - 1)
	var ours, peer []loading
	for i := range b.size.starts + 1 { // the first ones only warm up the file cache
		b.w.logf("load of %d items, %d of %d", items, i, b.size.starts)
		o, err := c.loadThrough(ctx, thread, last)
		if err != nil {
			return fmt.Errorf("through the server: %w", err)
		}
		p, err := c.loadACP(ctx, a, thread, last)
		if err != nil {
			return fmt.Errorf("through codex-acp: %w", err)
		}
		if i > 0 {
			ours, peer = append(ours, o), append(peer, p)
		}
	}
	whole, alone := func(l loading) time.Duration { return l.whole }, func(l loading) time.Duration { return l.alone }
	o, p, pAlone := median(each(ours, whole)), median(each(peer, whole)), median(each(peer, alone))
	b.report.add(row{
		What: fmt.Sprintf("Codex: load of a conversation of %d items", items), Ours: millis(o),
		Numbers: keep(lower("", ms(o), "ms"), ratioAtMost("", ms(o), ms(p), "codex-acp", 0.5)),
		Peer:    fmt.Sprintf("codex-acp started for it %s; ratio %.2f; session/load alone %s; ratio %.2f", millis(p), ratio(o, p), millis(pAlone), ratio(o, pAlone)),
		Note: fmt.Sprintf("median of %d in turn. Runnel: a server that does not know it, load (answered after %s, starts Codex to read it), WebSocket until all %d upserts are there; beside it: until session/load is answered, %d updates",
			len(ours), millis(median(each(ours, alone))), ours[0].said, peer[0].said),
	})
	return nil
}
