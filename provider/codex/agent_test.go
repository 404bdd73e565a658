package codex

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/supervise"
)

func TestMain(m *testing.M) {
	supervise.Main()
	if os.Getenv(mcpServer) != "" {
		serveMCP(os.Stdin, os.Stdout)
		return
	}
	if err := agentrig.Bound(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds how long a test waits for a real agent.
const patience = agentrig.Patience

// What the tests of all providers have in common.
var (
	await, dump, items, last, sound = agentrig.Await, agentrig.Dump, agentrig.Items, agentrig.Last, agentrig.Sound

	fixtureStart      = recordtest.Start
	section, recorded = recordtest.Section, recordtest.Lines
)

func bodies[T event.Body](evs []event.Event) []T { return agentrig.Bodies[T](evs) }

// rig is a real Codex in a home of its own, with a model that plays scripts.
type rig struct {
	*agentrig.Rig
	told bool // what a fixture waits for was said
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigIn(t, t.TempDir())
}

func newRigIn(t testing.TB, root string) *rig {
	t.Helper()
	r := agentrig.New(t, realagents.Codex(t), root)
	r.Provider, r.Opt.Path = New(), r.Agent.Path
	return &rig{Rig: r}
}

// provider runs the pinned agent in the rig's home also when it is asked about
// what it keeps.
func (r *rig) provider() runnel.Provider {
	return New().WithProgram([]string{r.Opt.Path}, r.Opt.Env)
}

func detail(err error) string { return fmt.Sprintf("%v (%+v)", err, runnel.Safe(err).Err) }

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
