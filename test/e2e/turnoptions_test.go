//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// TestOptionsOfATurnAreRestored runs turns with their own options. The agent's
// requests to the model must follow these options. The next turn must use the
// session's settings again, also if the agent or the server was killed in
// between.
func TestOptionsOfATurnAreRestored(t *testing.T) {
	type driven struct {
		realagents.Binary
		other string // a model that is not the default
	}
	agents := []driven{{realagents.Find(t, "codex"), "gpt-other-1"}}
	for _, b := range realagents.UsualClaude(t) {
		agents = append(agents, driven{b, "claude-other-1"})
	}
	for _, agent := range agents {
		t.Run(agent.Name+"@"+agent.Version, func(t *testing.T) {
			s := serve(t, agent.Binary)
			c := &turns{root: s, session: s.create(), other: agent.other}
			options := map[string]any{"model": c.other, "permissionMode": "plan"}
			if agent.Name == "claude-code" {
				t.Run("Tools", func(t *testing.T) { c.on(t).tools() })
			}
			t.Run("FirstTurn", func(t *testing.T) { c.on(t).pair(options) })
			t.Run("LaterTurn", func(t *testing.T) { c.on(t).pair(options) })
			t.Run("Queued", func(t *testing.T) { c.on(t).queued(options) })
			t.Run("AgentKilled", func(t *testing.T) { c.on(t).killed(options) })
			t.Run("ServerKilled", func(t *testing.T) { c.on(t).outlived(options) })
		})
	}
}

// TestModeOfATurnIsRestored runs one turn of an ACP agent in plan mode. The
// next turn must run in the session's mode.
func TestModeOfATurnIsRestored(t *testing.T) {
	for _, agent := range []string{"opencode", "qwen"} {
		t.Run(agent, func(t *testing.T) {
			if agent == "opencode" {
				needsLong(t, "starts slowly; Qwen Code changes its mode in the same way")
			}
			s := serve(t, realagents.Find(t, agent))
			c := &turns{root: s, session: s.create()}
			c.on(t)
			c.over(c.send(c.words("first", done), nil, false), "completed")
			before := c.mode()
			turn := c.send(c.words("plans", stalled), map[string]any{"permissionMode": "plan"}, false)
			c.await("another mode", func(ev event.Event) bool {
				b, ok := ev.Body.(event.SessionUpdated)
				return ok && ev.Turn == turn && modeIn(b.Config) != "" && modeIn(b.Config) != before
			})
			c.streams(turn)
			if code := c.s.call("POST", "/api/session/"+c.session+"/cancel", map[string]any{}, nil); code != http.StatusOK {
				t.Fatalf("cancel: %d", code)
			}
			c.over(turn, "completed")
			c.over(c.send(c.words("after", done), nil, false), "completed")
			if now := c.mode(); now != before {
				t.Errorf("the next turn ran in the mode %q, want %q", now, before)
			}
		})
	}
}

// mode returns the agent's own name for the session's current mode.
func (c *turns) mode() string {
	c.t.Helper()
	var st struct{ Config []event.ConfigOption }
	c.s.call("GET", "/api/session/"+c.session+"/status", nil, &st)
	mode := modeIn(st.Config)
	if mode == "" {
		c.t.Fatalf("the agent reports no mode: %+v", st.Config)
	}
	return mode
}

func modeIn(config []event.ConfigOption) string {
	for _, o := range config {
		if o.Category == "mode" || o.ID == "mode" {
			return o.Value
		}
	}
	return ""
}

// turns sends the prompts of one session and checks which models they used.
type turns struct {
	t       *testing.T
	root    *server
	s       *server // a copy of root that reports failures to t
	session string
	other   string // model of the turns with options
	usual   string // model of turns without options, once it is known
	asked   int    // number of requests to the model that were already checked
}

func (c *turns) on(t *testing.T) *turns {
	c.t, c.s = t, c.root.on(t)
	return c
}

func (c *turns) send(prompt string, opts map[string]any, queue bool) (turn string) {
	c.t.Helper()
	var sent struct {
		TurnID string
		Error  any
	}
	body := map[string]any{"content": prompt, "queue": queue}
	if opts != nil {
		body["opts"] = opts
	}
	if code := c.s.call("POST", "/api/session/"+c.session+"/send", body, &sent); code != http.StatusAccepted {
		c.t.Fatalf("send: %d %v", code, sent.Error)
	}
	return sent.TurnID
}

// await reads the session's events until f accepts one.
func (c *turns) await(what string, f func(event.Event) bool) {
	c.t.Helper()
	ctx, end := context.WithTimeout(c.t.Context(), waitTimeout)
	defer end()
	res := c.s.do(ctx, "GET", "/api/session/"+c.session+"/events?after=0", nil)
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		var ev event.Event
		if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &ev) == nil && f(ev) {
			return
		}
	}
	c.t.Fatalf("no %s", what)
}

// over waits for the end of a turn. want is "completed" for an end without an
// error, even if the turn was cancelled; otherwise it is the error's code.
func (c *turns) over(turn, want string) {
	c.t.Helper()
	c.await("end of the turn", func(ev event.Event) bool {
		if ev.Turn != turn || !event.Ends(ev.Body) {
			return false
		}
		got := "completed"
		if b, ok := ev.Body.(event.ResponseError); ok {
			got = b.Error.Code
		}
		if got != want {
			c.t.Errorf("the turn ended as %+v, want %s", ev.Body, want)
		}
		return true
	})
}

// models returns the models of all requests since the last call whose body
// contains word.
func (c *turns) models(word string) (models []string) {
	c.t.Helper()
	all := c.s.model.Requests()
	for _, r := range all[c.asked:] {
		var body struct{ Model string }
		if json.Unmarshal(r.Body, &body) == nil && bytes.Contains(r.Body, []byte(word)) {
			models = append(models, body.Model)
		}
	}
	c.asked = len(all)
	return models
}

// ran checks that every request since the last call whose body contains word
// used the model want. If want is "", any one model except c.other will do.
func (c *turns) ran(word, want string) {
	c.t.Helper()
	models := c.models(word)
	if len(models) == 0 {
		c.t.Fatalf("no model was asked %q", word)
	}
	for _, m := range models {
		if want == "" && m != c.other {
			want = m
		}
		if m != want {
			c.t.Errorf("%q went to %q, want %q", word, models, want)
		}
	}
	if want != c.other {
		c.usual = want
	}
}

// usually runs a turn without options and checks that it used the session's
// model and mode.
func (c *turns) usually(word string) {
	c.t.Helper()
	c.over(c.send(c.words(word, done), nil, false), "completed")
	c.ran(word, c.usual)
	var st struct{ PermissionMode string }
	c.s.call("GET", "/api/session/"+c.session+"/status", nil, &st)
	if st.PermissionMode == "plan" {
		c.t.Error("the session is in the mode of the turn")
	}
}

func (c *turns) words(word string, steps ...fakemodel.Step) string {
	return fakemodel.Scenario{Steps: steps}.Prompt(word)
}

// tools runs a turn that forbids a tool, and then a turn in which the tool is
// available again, so that the agent asks before it uses the tool.
func (c *turns) tools() {
	call := fakemodel.Step{Blocks: []fakemodel.Block{{Type: "tool_use", Name: "Bash", Input: json.RawMessage(`{"command":"touch ran","description":"Touch"}`)}}}
	asked := func(turn string) (n int) {
		c.await("end of the turn, or a question", func(ev event.Event) bool {
			_, is := ev.Body.(event.ApprovalRequested)
			if is && ev.Turn == turn {
				n++
			}
			return ev.Turn == turn && (is || event.Ends(ev.Body))
		})
		return n
	}
	if n := asked(c.send(c.words("tool-with", call, done), map[string]any{"disallowedTools": []string{"Bash"}}, false)); n != 0 {
		c.t.Error("it asked for a tool that it must not use")
	}
	turn := c.send(c.words("tool-then", call, done), nil, false)
	if asked(turn) != 1 {
		c.t.Error("the tool is not back in the next turn")
	}
	if code := c.s.call("POST", "/api/session/"+c.session+"/cancel", map[string]any{}, nil); code != http.StatusOK {
		c.t.Fatalf("cancel: %d", code)
	}
	c.over(turn, "completed")
	c.asked = len(c.s.model.Requests())
}

// pair runs a turn with options and one without.
func (c *turns) pair(options map[string]any) {
	word := "with-" + c.t.Name()[strings.LastIndex(c.t.Name(), "/")+1:]
	turn := c.send(c.words(word, done), options, false)
	c.over(turn, "completed")
	c.ran(word, c.other)
	c.usually(strings.Replace(word, "with", "without", 1))
}

var stalled = fakemodel.Step{Text: strings.Repeat("on and on ", 40), Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: 6}}}

// streams waits until a turn has text.
func (c *turns) streams(turn string) {
	c.t.Helper()
	c.await("text", func(ev event.Event) bool { _, ok := ev.Body.(event.ItemDelta); return ok && ev.Turn == turn })
}

func (c *turns) queued(options map[string]any) {
	busy := c.send(c.words("busy", stalled), nil, false)
	c.streams(busy)
	with := c.send(c.words("queued-with", done), options, true)
	without := c.send(c.words("queued-then", done), nil, true)
	if code := c.s.call("POST", "/api/session/"+c.session+"/cancel", map[string]any{"continueQueue": true}, nil); code != http.StatusOK {
		c.t.Fatalf("cancel: %d", code)
	}
	c.over(with, "completed")
	c.over(without, "completed")
	var got []string
	for _, r := range c.s.model.Requests()[c.asked:] {
		var body struct{ Model string }
		if json.Unmarshal(r.Body, &body) != nil {
			continue
		}
		for _, word := range []string{"queued-then", "queued-with"} { // a request also contains the earlier prompts, so the latest comes first
			if bytes.Contains(r.Body, []byte(word)) {
				got = append(got, word+" "+body.Model)
				break
			}
		}
	}
	c.asked = len(c.s.model.Requests())
	for _, g := range got {
		if g != "queued-with "+c.other && g != "queued-then "+c.usual {
			c.t.Errorf("asked %q", got)
		}
	}
	if len(got) < 2 {
		c.t.Errorf("asked %q", got)
	}
}

func (c *turns) killed(options map[string]any) {
	turn := c.send(c.words("dies", stalled), options, false)
	c.streams(turn)
	c.s.killAgents()
	c.over(turn, "PROCESS_CRASH")
	c.ran("dies", c.other)
	c.usually("after-death")
}

// outlived kills the server during a turn with options. The turn continues with
// its agent, and the next server restores the session's settings.
func (c *turns) outlived(options map[string]any) {
	turn := c.send(c.words("outlives", stalled), options, false)
	c.streams(turn)
	c.root.crash()
	c.root.launch()
	c.on(c.t)
	if code := c.s.call("POST", "/api/session/"+c.session+"/cancel", map[string]any{}, nil); code != http.StatusOK {
		c.t.Fatalf("cancel: %d", code)
	}
	c.over(turn, "completed")
	c.ran("outlives", c.other)
	c.usually("after-restart")
}
