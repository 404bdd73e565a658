//go:build unix

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// harness is a client of the harness routes, where each turn has its own
// stream.
type harness struct {
	s       *server
	session string
	texts   map[string]string
}

// A harnessSession is the response of a harness route that creates or boots a
// session.
type harnessSession struct {
	Session struct{ SessionID, BootFingerprint, BootedAt string }
	Boot    struct {
		Started, Resumed bool
		Reason           string
	}
	Error any
}

func newHarness(s *server) *harness {
	s.t.Helper()
	var made harnessSession
	if code := s.call("POST", "/api/harness/session/create", map[string]any{"cliType": s.agent, "projectRoot": s.home.Project}, &made); code != http.StatusOK {
		s.t.Fatalf("create: %d %v", code, made.Error)
	}
	return &harness{s, made.Session.SessionID, make(map[string]string)}
}

func (d *harness) on(t *testing.T) *harness { return &harness{d.s.on(t), d.session, d.texts} }

func (d *harness) shown() (string, map[string]string) { return d.session, d.texts }

// A turnFrame is one frame of a turn's stream.
type turnFrame struct {
	name string
	data struct {
		TurnID, ItemID, Text, Name, Output, ErrorType, Choice, By string
		ModelID, SessionID                                        string

		Status   any // status of the turn, or an HTTP status
		OK       bool
		Fatal    bool
		Changes  []any
		ExitCode *int
		Approval event.Approval
		Resume   struct{ Status string }
	}
}

// open sends a prompt and returns the stream of its turn.
func (d *harness) open(ctx context.Context, prompt, key string) *http.Response {
	d.s.t.Helper()
	res := d.s.keyed(ctx, "POST", "/api/harness/turn", key, map[string]any{"sessionId": d.session, "message": prompt})
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		d.s.t.Fatalf("turn: %d %s", res.StatusCode, body)
	}
	return res
}

// frames calls f with each frame of a stream until f returns false or the
// stream ends.
func (d *harness) frames(r io.Reader, f func(turnFrame) bool) {
	d.s.t.Helper()
	lines, name := bufio.NewReader(r), ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if rest, ok := strings.CutPrefix(line, "event: "); ok {
			name = strings.TrimSpace(rest)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		fr := turnFrame{name: name}
		if err := json.Unmarshal([]byte(data), &fr.data); err != nil {
			d.s.t.Fatalf("%s: %v in %s", name, err, data)
		}
		if !f(fr) {
			return
		}
	}
}

func (d *harness) turn(prompt string, react func(moment) reaction) outcome {
	t := d.s.t
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), waitTimeout)
	defer end()
	res := d.open(ctx, prompt, "")
	defer res.Body.Close()
	return d.read(res.Body, react)
}

// read reads the stream of a turn to its end and checks the rules that hold for
// every such stream.
func (d *harness) read(r io.Reader, react func(moment) reaction) (out outcome) {
	t := d.s.t
	t.Helper()
	said, exit, n := map[string]string{}, (*int)(nil), 0
	d.frames(r, func(f turnFrame) bool {
		if n++; (n == 1) != (f.name == "session:init") || exit != nil {
			t.Errorf("frame %d is %s", n, f.name)
		}
		if f.name == "session:init" && (f.data.SessionID != d.session || f.data.ModelID == "" || f.data.Resume.Status != "ok") {
			t.Errorf("the stream begins %+v", f.data)
		}
		switch f.name {
		case "chat:delta", "reasoning:delta":
			said[f.data.ItemID] += f.data.Text
			act(d.s, d.session, react(inText), event.Approval{})
		case "chat:complete", "reasoning:complete":
			if said[f.data.ItemID] != f.data.Text {
				t.Errorf("the deltas say %q, the whole is %q", said[f.data.ItemID], f.data.Text)
			}
			d.texts[f.data.ItemID] = f.data.Text
			if f.name == "chat:complete" {
				out.Text = append(out.Text, f.data.Text)
			} else {
				out.Thinking = append(out.Thinking, f.data.Text)
			}
		case "tool:start":
			act(d.s, d.session, react(called), event.Approval{})
		case "tool:result":
			out.Tools = append(out.Tools, tool{f.data.Name, f.data.Output, !f.data.OK, len(f.data.Changes)})
		case "permission:request":
			act(d.s, d.session, react(asked), f.data.Approval)
		case "permission:resolved":
			out.Resolved = append(out.Resolved, f.data.Choice+" "+f.data.By)
		case "session:complete":
			out.Status = fmt.Sprint(f.data.Status)
		case "turn:error":
			if f.data.Fatal {
				out.Status = f.data.ErrorType
			}
		case "process:exit":
			exit = f.data.ExitCode
		}
		return true
	})
	if exit == nil || (*exit == 0) != (out.Status == "completed" || out.Status == "cancelled") {
		t.Errorf("the turn ended %q with exit code %v", out.Status, exit)
	}
	return out
}

// booted sends a boot request for the session, checks the reason in the
// response, and returns the fingerprint of the agent's options.
func (d *harness) booted(reason string) string {
	t := d.s.t
	t.Helper()
	var b harnessSession
	code := d.s.call("POST", "/api/harness/session/boot", map[string]any{"sessionId": d.session}, &b)
	if code != http.StatusOK || b.Boot.Reason != reason || b.Session.BootFingerprint == "" || b.Session.BootedAt == "" {
		t.Errorf("boot: %d %+v, want %s", code, b, reason)
	}
	return b.Session.BootFingerprint
}

// retried cuts the connection of a turn and sends the prompt again with the
// same key. Each retry must show the same turn from its beginning, also after a
// restart of the server.
func (d *harness) retried(prompt string) {
	t := d.s.t
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), waitTimeout)
	defer end()
	turns := make(map[string]bool)
	cut := d.open(ctx, prompt, "cut")
	d.frames(cut.Body, func(f turnFrame) bool {
		turns[f.data.TurnID] = true
		return false
	})
	cut.Body.Close()
	react := always(asked, allow)
	for i := range 3 {
		if i == 2 {
			d.s.restart()
		}
		res := d.open(ctx, prompt, "cut")
		var copied strings.Builder
		if got := d.read(io.TeeReader(res.Body, &copied), react); got.Status != "completed" || !slices.Contains(got.Text, done.Text) {
			t.Errorf("retry %d: %+v", i, got)
		}
		res.Body.Close()
		react = ignore // the first retry has decided the approval
		if res.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("retry %d: %v", i, res.Header)
		}
		d.frames(strings.NewReader(copied.String()), func(f turnFrame) bool { turns[f.data.TurnID] = true; return true })
	}
	if len(turns) != 1 {
		t.Errorf("turns %v", turns)
	}
}

// TestHarnessTurn runs the scenarios with real agents over the harness routes.
func TestHarnessTurn(t *testing.T) {
	t.Run("claude-code", func(t *testing.T) {
		t.Parallel()
		s := serve(t, realagents.Find(t, "claude-code"))
		d := newHarness(s)
		first := d.booted("already_booted")
		file := func(name string) string { return filepath.Join(s.home.Project, name) }
		t.Run("TextAndThinking", func(t *testing.T) { textAndThinking(t, d.on(t)) })
		t.Run("FiveTools", func(t *testing.T) { fiveTools(t, d.on(t), file) })
		t.Run("Approvals", func(t *testing.T) { approvals(t, d.on(t), file) })
		t.Run("Failures", func(t *testing.T) { failures(t, d.on(t)) })
		if now := d.booted("already_booted"); now != first {
			t.Errorf("the fingerprint was %s and is %s", first, now)
		}
		d.retried(play(step(realagents.ToolsetOf("claude-code").Ask("printf made-%s 42")), done))
	})
	providertest.Each(t, filepath.Join("..", ".."), []string{"codex", "opencode"}, func(t *testing.T, found providertest.Report) {
		if found.Agent == "opencode" && os.Getenv("RUNNEL_LONG") == "" {
			t.Skip("takes half a minute: RUNNEL_LONG=1")
		}
		t.Parallel()
		s := serve(t, realagents.Find(t, found.Agent))
		d := newHarness(s)
		first := d.booted("already_booted")
		a := subject{t, d, found, realagents.ToolsetOf(found.Agent), func(name string) string { return filepath.Join(s.home.Project, name) }}
		run := func(name string, f func(subject)) {
			t.Run(name, func(t *testing.T) { a := a.on(t); a.d = d.on(t); f(a) })
		}
		run("Text", subject.text)
		run("Tool", subject.tool)
		run("Approvals", subject.approvals)
		run("Interrupts", subject.interrupts)
		run("Failure", subject.failure)
		if now := d.booted("already_booted"); now != first {
			t.Errorf("the fingerprint was %s and is %s", first, now)
		}
		d.retried(play(step(a.words.Ask("printf made-%s 42")), done))
	})
}
