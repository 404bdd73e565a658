package realagents_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// object is any JSON object.
type object = map[string]any

// peer is a running agent that speaks JSON-RPC in lines. It supports only what
// these tests need to show that an agent works with the fake model.
type peer struct {
	t       *testing.T
	process *proc.Process
	out     *bufio.Scanner
	next    int
	allow   func(method string, params object) any // returns the result for a request of the agent; nil rejects it

	text  strings.Builder // the agent's text since the last call
	items []object        // other items since the last call
}

// launch starts the agent in home. The end of the test stops it.
func launch(t *testing.T, b realagents.Binary, home realagents.Home) *peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	process, err := proc.Start(ctx, proc.Command{
		Path: b.Path, Args: b.Args, Dir: home.Project, Env: append(home.EnvironFor(b.Name), "PATH="+os.Getenv("PATH")), Mark: "TEST_" + proc.MarkSuffix,
	})
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(process.Stdout())
	sc.Buffer(nil, 16<<20)
	t.Cleanup(func() { // before the home is removed: some agents have processes that still write after the agent has exited
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for sc.Scan() { // drain stdout
			}
		}()
		if err := process.Stop(context.WithoutCancel(ctx), proc.Ladder{Drain: 10 * time.Second}); err != nil {
			t.Error(err)
		}
		<-ended
		if t.Failed() {
			t.Logf("stderr: %s", process.StderrTail())
		}
	})
	return &peer{t: t, process: process, out: sc}
}

func (p *peer) write(m object) {
	p.t.Helper()
	m["jsonrpc"] = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.process.Send(append(b, '\n')); err != nil {
		p.t.Fatal(err)
	}
}

// call sends a request and returns its result.
func (p *peer) call(method string, params object) object {
	p.t.Helper()
	p.next++
	p.text.Reset()
	p.items = nil
	p.write(object{"id": p.next, "method": method, "params": params})
	return p.until(func(m object) bool { return m["method"] == nil && m["id"] == float64(p.next) })
}

// until reads lines until wanted returns true, and returns the result or the
// params of that line.
func (p *peer) until(wanted func(object) bool) object {
	p.t.Helper()
	for p.out.Scan() {
		var m object
		if err := json.Unmarshal(p.out.Bytes(), &m); err != nil {
			p.t.Fatalf("not JSON: %s", p.out.Bytes())
		}
		method, _ := m["method"].(string)
		params, _ := m["params"].(object)
		if method != "" && m["id"] != nil {
			if result := p.allow(method, params); result != nil {
				p.write(object{"id": m["id"], "result": result})
			} else {
				p.write(object{"id": m["id"], "error": object{"code": -32601, "message": "method not found"}})
			}
		}
		p.dispatch(method, params)
		if !wanted(m) {
			continue
		}
		if m["error"] != nil {
			p.t.Fatalf("error: %v", m["error"])
		}
		if result, ok := m["result"].(object); ok {
			return result
		}
		return params
	}
	p.t.Fatalf("the agent exited: %v", p.out.Err())
	return nil
}

func (p *peer) dispatch(method string, params object) {
	switch method {
	case "item/agentMessage/delta":
		p.text.WriteString(params["delta"].(string))
	case "item/completed":
		p.items = append(p.items, params["item"].(object))
	case "session/update":
		u := params["update"].(object)
		if c, ok := u["content"].(object); ok && u["sessionUpdate"] == "agent_message_chunk" {
			text, _ := c["text"].(string)
			p.text.WriteString(text)
		}
		p.items = append(p.items, u)
	}
}

func model(t *testing.T) *fakemodel.Server {
	t.Helper()
	s, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// after returns a prompt for which the model calls the tool b, and then answers
// "It is done.".
func after(b fakemodel.Block) string {
	return fakemodel.Scenario{Steps: []fakemodel.Step{
		{Text: "I will. ", Blocks: []fakemodel.Block{b}}, {Text: "It is done."},
	}}.Prompt("")
}

// codexTurn runs one turn and returns its completed items by type.
func codexTurn(p *peer, thread, text string) map[string]object {
	p.t.Helper()
	p.call("turn/start", object{"threadId": thread, "input": []object{{"type": "text", "text": text, "text_elements": []any{}}}})
	done := p.until(func(m object) bool { return m["method"] == "turn/completed" })
	if turn := done["turn"].(object); turn["status"] != "completed" {
		p.t.Errorf("turn: %v", turn)
	}
	items := map[string]object{}
	for _, it := range p.items {
		items[it["type"].(string)] = it
	}
	return items
}

func TestCodexWorksWithFakeModel(t *testing.T) {
	b := realagents.Codex(t)
	for _, name := range []string{"gpt-5.5", "gpt-6.1-sol"} { // the first calls tools as functions, the second from JavaScript
		t.Run(name, func(t *testing.T) {
			home := realagents.NewHome(t, model(t).URL())
			p := launch(t, b, home)
			p.allow = func(string, object) any { return object{"decision": "accept"} }
			init := p.call("initialize", object{"clientInfo": object{"name": "test", "title": "test", "version": "1"}, "capabilities": object{"experimentalApi": true}})
			if agent, _ := init["userAgent"].(string); !strings.Contains(agent, "/"+b.Version+" ") {
				t.Errorf("user agent %q, want version %s", agent, b.Version)
			}
			p.write(object{"method": "initialized"})
			started := p.call("thread/start", object{"cwd": home.Project, "model": name})
			thread := started["thread"].(object)["id"].(string)

			codexTurn(p, thread, "<<play hello>>")
			if got := p.text.String(); got != "Hello from the fake model." {
				t.Errorf("text: %q", got)
			}
			items := codexTurn(p, thread, after(fakemodel.Call("exec_command", object{"cmd": "echo $((40+2))"})))
			if it := items["commandExecution"]; it["aggregatedOutput"] != "42\n" || it["exitCode"] != 0.0 || p.text.String() != "I will. It is done." {
				t.Errorf("command: %v; text %q", it, p.text.String())
			}
			items = codexTurn(p, thread, after(fakemodel.Call("apply_patch", "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch\n")))
			data, err := os.ReadFile(filepath.Join(home.Project, "a.txt"))
			if it := items["fileChange"]; it["status"] != "completed" || string(data) != "hello\n" {
				t.Errorf("patch: %v; file %q, %v", it, data, err)
			}
		})
	}
}

// shells are each agent's call of the tool that runs a command.
var shells = map[string]fakemodel.Block{
	"claude-agent-acp": fakemodel.Call("Bash", object{"command": "echo hi > made", "description": "make it"}),
	"codex-acp":        fakemodel.Call("exec_command", object{"cmd": "echo hi > made"}),
	"copilot":          fakemodel.Call("bash", object{"command": "echo hi > made", "description": "make it"}),
	"gemini":           fakemodel.Call("run_shell_command", object{"command": "echo hi > made", "description": "make it"}),
	"opencode":         fakemodel.Call("bash", object{"command": "echo hi > made", "description": "make it"}),
	"qwen":             fakemodel.Call("run_shell_command", object{"command": "echo hi > made", "description": "make it", "is_background": false}),
}

func TestACPAgentsWorkWithFakeModel(t *testing.T) {
	// The conformance suite of provider/acp runs a turn and a tool of each agent.
	for _, name := range realagents.Usually("codex-acp") {
		t.Run(name, func(t *testing.T) {
			home := realagents.NewHome(t, model(t).URL())
			p := launch(t, realagents.Find(t, name), home)
			p.allow = func(method string, params object) any {
				if method != "session/request_permission" { // an extension that clients need not support
					return nil
				}
				for _, o := range params["options"].([]any) {
					if o := o.(object); o["kind"] == "allow_once" {
						return object{"outcome": object{"outcome": "selected", "optionId": o["optionId"]}}
					}
				}
				t.Errorf("no way to allow it once: %v", params)
				return object{"outcome": object{"outcome": "cancelled"}}
			}
			p.call("initialize", object{"protocolVersion": 1, "clientCapabilities": object{}, "clientInfo": object{"name": "test", "version": "1"}})
			session := p.call("session/new", object{"cwd": home.Project, "mcpServers": []any{}})["sessionId"]
			prompt := func(text string) string {
				p.call("session/prompt", object{"sessionId": session, "prompt": []object{{"type": "text", "text": text}}})
				return p.text.String()
			}
			if got := prompt("<<play hello>>"); got != "Hello from the fake model." {
				t.Errorf("text: %q", got)
			}
			if got := prompt(after(shells[name])); got != "I will. It is done." {
				t.Errorf("text around a tool: %q", got)
			}
			if data, err := os.ReadFile(filepath.Join(home.Project, "made")); string(data) != "hi\n" {
				t.Errorf("the command made %q, %v", data, err)
			}
			tools := 0
			for _, u := range p.items {
				if kind := u["sessionUpdate"]; kind == "tool_call" || kind == "tool_call_update" {
					tools++
				}
			}
			if tools == 0 {
				t.Error("no update of a tool")
			}
		})
	}
}
