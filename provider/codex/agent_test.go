package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/supervise"
)

func TestMain(m *testing.M) {
	supervise.Main()
	if os.Getenv(mcpServer) != "" {
		serveMCP(os.Stdin, os.Stdout)
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds how long a test waits for a real agent.
const patience = 60 * time.Second

// rig is a real agent in a home of its own, with a model that plays scripts.
type rig struct {
	t     testing.TB
	model *fakemodel.Server
	home  realagents.Home
	opt   runnel.Options
	conn  runnel.Conn
	turn  string // id of the last prompt
	cut   func() // if not nil, called when another agent takes over
	told  bool   // what a fixture waits for was said
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigIn(t, t.TempDir())
}

func newRigIn(t testing.TB, root string) *rig {
	t.Helper()
	b := realagents.Codex(t)
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	home := realagents.NewHomeIn(t, root, model.URL())
	return &rig{t: t, model: model, home: home, opt: runnel.Options{Path: b.Path, Dir: home.Project, Env: home.EnvironFor("codex")}}
}

// provider runs the pinned agent in the rig's home also when it is asked about
// what it keeps.
func (r *rig) provider() runnel.Provider {
	return New().WithProgram([]string{r.opt.Path}, r.opt.Env)
}

// open starts the agent. The test's end closes it.
func (r *rig) open() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	c, err := New().Open(ctx, r.opt)
	if err != nil {
		r.t.Fatal(detail(err))
	}
	r.conn = c
	r.t.Cleanup(func() { c.Close() })
}

func detail(err error) string { return fmt.Sprintf("%v (%+v)", err, runnel.Safe(err).Err) }

// send begins a turn.
func (r *rig) send(text string) { r.t.Helper(); r.input(runnel.Text(text)) }

func (r *rig) input(in runnel.Input) {
	r.t.Helper()
	if r.conn == nil {
		r.open()
	}
	r.turn = uuid.NewString()
	if err := r.conn.Prompt(r.t.Context(), r.turn, in); err != nil {
		r.t.Fatal(err)
	}
}

// play begins a turn in which the model does steps.
func (r *rig) play(steps ...fakemodel.Step) {
	r.t.Helper()
	r.send(fakemodel.Scenario{Steps: steps}.Prompt("go"))
}

// until collects events up to the first for which stop holds.
func (r *rig) until(stop func(event.Event) bool) []event.Event {
	r.t.Helper()
	timer := time.AfterFunc(patience, func() { r.conn.Close() })
	defer timer.Stop()
	var evs []event.Event
	for {
		ev, err := r.conn.Next(r.t.Context())
		if err != nil {
			r.t.Fatalf("%v; so far:\n%s", err, dump(evs))
		}
		evs = append(evs, ev)
		if stop(ev) {
			return evs
		}
	}
}

// finish collects the events to the end of the turn, answering approvals with
// a choice on the way.
func (r *rig) finish(choice string) []event.Event {
	r.t.Helper()
	return r.until(func(ev event.Event) bool {
		if a, ok := ev.Body.(event.ApprovalRequested); ok {
			r.decide(a.Approval, runnel.Decision{Choice: choice})
		}
		return event.Ends(ev.Body) && ev.Turn == r.turn
	})
}

func (r *rig) decide(a event.Approval, d runnel.Decision) {
	r.t.Helper()
	if err := r.conn.Decide(r.t.Context(), a.ID, d); err != nil {
		r.t.Fatalf("%v: %+v", err, a.Choices)
	}
}

func (r *rig) interrupt() {
	r.t.Helper()
	if err := r.conn.Interrupt(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) asked() event.Approval {
	r.t.Helper()
	evs := r.until(func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
	return last(evs).(event.ApprovalRequested).Approval
}

// file returns the absolute path of a file in the project.
func (r *rig) file(name string) string { return filepath.Join(r.home.Project, name) }

func (r *rig) write(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(r.file(name), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

type args map[string]any

// Steps of the model.

func says(text string) fakemodel.Step {
	return fakemodel.Step{Text: text, Chunk: 24, Usage: map[string]int64{"input_tokens": 1000, "output_tokens": 20}}
}

func calls(blocks ...fakemodel.Block) fakemodel.Step {
	return fakemodel.Step{Chunk: 64, Blocks: blocks, Usage: map[string]int64{"input_tokens": 1000, "output_tokens": 20}}
}

func shell(cmd string) fakemodel.Block {
	return fakemodel.Call("exec_command", args{"cmd": cmd, "yield_time_ms": 20000})
}

// escalated is a command that has to be asked for.
func escalated(cmd string) fakemodel.Block {
	return fakemodel.Call("exec_command", args{"cmd": cmd, "yield_time_ms": 20000, "sandbox_permissions": "require_escalated", "justification": "May I?"})
}

// code is a script of the newer models, whose tools are functions in it.
func code(js string) fakemodel.Block { return fakemodel.Call("exec", js) }

func patch(text string) fakemodel.Block { return fakemodel.Call("apply_patch", text) }

func dump(evs []event.Event) string {
	var b strings.Builder
	for _, ev := range evs {
		body, err := event.MarshalBody(ev.Body)
		if len(body) > 600 {
			body = body[:600]
		}
		fmt.Fprintf(&b, "%.8s %s %v\n", ev.Turn, body, err)
	}
	return b.String()
}

// items folds events.
func items(evs []event.Event) []event.Item {
	var tr event.Transcript
	for _, ev := range evs {
		tr.Apply(ev)
	}
	return tr.Items()
}

// sound fails the test unless evs keep the rules of a turn.
func sound(t testing.TB, evs []event.Event) {
	t.Helper()
	open, ended := map[string]bool{}, map[string]bool{}
	for i, ev := range evs {
		if err := ev.Validate(); err != nil {
			t.Errorf("event %d: %v", i, err)
		}
		if ev.Turn != "" && ended[ev.Turn] {
			t.Errorf("event %d: %s after the end of its turn", i, event.Type(ev.Body))
		}
		end := func(id string) {
			if !open[id] {
				t.Errorf("event %d: %s ends but is not open", i, id)
			}
			open[id] = false
		}
		switch b := ev.Body.(type) {
		case event.ItemStart:
			if _, seen := open[b.ItemID]; seen {
				t.Errorf("event %d: %s starts twice", i, b.ItemID)
			}
			if !strings.HasPrefix(b.ItemID, ev.Turn+":") {
				t.Errorf("event %d: %s is not of its turn", i, b.ItemID)
			}
			open[b.ItemID] = true
		case event.ItemDelta:
			if !open[b.ItemID] {
				t.Errorf("event %d: delta for %s, which is not open", i, b.ItemID)
			}
		case event.ItemDone:
			end(b.ItemID)
		case event.ItemCancelled:
			end(b.ItemID)
		case event.ResponseDone, event.ResponseError:
			ended[ev.Turn] = true
			for id, is := range open {
				if is && strings.HasPrefix(id, ev.Turn) {
					t.Errorf("event %d: the turn ends and %s is open", i, id)
				}
			}
		}
	}
}

func last(evs []event.Event) event.Body { return evs[len(evs)-1].Body }

// await waits for a file that something outside of this process makes.
func await(t testing.TB, path string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s did not appear", filepath.Base(path))
		}
	}
}

// mcpServer, if set, makes the test binary an MCP server.
const mcpServer = "RUNNEL_TEST_MCP_SERVER"

// serveMCP is an MCP server with two tools: one adds, one asks the user.
func serveMCP(in *os.File, out *os.File) {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	type object = map[string]any
	text := func(s string) object { return object{"content": []object{{"type": "text", "text": s}}} }
	var asking json.RawMessage
	for {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string         `json:"name"`
				Version   string         `json:"protocolVersion"`
				Arguments map[string]any `json:"arguments"`
			} `json:"params"`
			Result json.RawMessage `json:"result"`
		}
		if dec.Decode(&m) != nil {
			return
		}
		reply := func(id json.RawMessage, result any) {
			_ = enc.Encode(object{"jsonrpc": "2.0", "id": id, "result": result})
		}
		schema := object{"type": "object", "properties": object{"a": object{"type": "number"}}}
		switch m.Method {
		case "initialize":
			reply(m.ID, object{"protocolVersion": m.Params.Version, "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "t", "version": "1"}})
		case "tools/list":
			reply(m.ID, object{"tools": []object{
				{"name": "add", "description": "Adds.", "inputSchema": schema}, {"name": "form", "description": "Asks.", "inputSchema": schema},
			}})
		case "tools/call":
			if m.Params.Name == "add" {
				r := text("42")
				r["structuredContent"] = object{"sum": 42}
				reply(m.ID, r)
				continue
			}
			asking = m.ID
			_ = enc.Encode(object{"jsonrpc": "2.0", "id": "e1", "method": "elicitation/create", "params": object{
				"message": "Your name?", "requestedSchema": object{"type": "object", "properties": object{"name": object{"type": "string"}}, "required": []string{"name"}},
			}})
		case "":
			if asking != nil {
				reply(asking, text("said "+string(m.Result)))
				asking = nil
			}
		default:
			if m.ID != nil {
				reply(m.ID, object{})
			}
		}
	}
}
