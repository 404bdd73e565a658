package acp

import (
	"context"
	"flag"
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
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // processes that wait more than they work
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds how long a test waits for a real agent.
const patience = 90 * time.Second

// rig is a real agent in a home of its own, with a model that plays scripts.
type rig struct {
	t        testing.TB
	name     string
	version  string
	model    *fakemodel.Server
	home     realagents.Home
	provider runnel.Provider
	opt      runnel.Options
	conn     runnel.Conn
	turn     string // id of the last prompt
	cut      func() // if not nil, called when another agent takes over
}

// known returns the agent of a name.
func known(t testing.TB, name string) Agent {
	t.Helper()
	for _, a := range agents {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("no agent %q", name)
	return Agent{}
}

func newRig(t testing.TB, name string) *rig {
	t.Helper()
	return newRigIn(t, name, t.TempDir())
}

func newRigIn(t testing.TB, name, root string) *rig {
	t.Helper()
	b := realagents.Find(t, name)
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	home := realagents.NewHomeIn(t, root, model.URL())
	env := home.EnvironFor(name)
	return &rig{
		t: t, name: name, version: b.Version, model: model, home: home,
		provider: New(known(t, name)).(runnel.Programmable).WithProgram(append([]string{b.Path}, b.Args...), env),
		opt:      runnel.Options{Dir: home.Project, Env: env},
	}
}

// open starts the agent. The test's end closes it.
func (r *rig) open() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	c, err := r.provider.Open(ctx, r.opt)
	if err != nil {
		r.t.Fatal(err)
	}
	r.conn = c
	r.t.Cleanup(func() { c.Close() })
}

// send begins a turn.
func (r *rig) send(text string, attachments ...runnel.Attachment) {
	r.t.Helper()
	if r.conn == nil {
		r.open()
	}
	r.turn = uuid.NewString()
	if err := r.conn.Prompt(r.t.Context(), r.turn, runnel.Input{Text: text, Attachments: attachments}); err != nil {
		r.t.Fatal(err)
	}
}

// play begins a turn in which the model does steps.
func (r *rig) play(steps ...fakemodel.Step) {
	r.t.Helper()
	r.send(scenario(steps...))
}

func scenario(steps ...fakemodel.Step) string { return fakemodel.Scenario{Steps: steps}.Prompt("go") }

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
// the first choice of a kind on the way.
func (r *rig) finish(kind event.ChoiceKind) []event.Event {
	r.t.Helper()
	return r.until(func(ev event.Event) bool {
		if a, ok := ev.Body.(event.ApprovalRequested); ok {
			r.decide(a.Approval, kind)
		}
		return event.Ends(ev.Body)
	})
}

func (r *rig) decide(a event.Approval, kind event.ChoiceKind) {
	r.t.Helper()
	for _, c := range a.Choices {
		if c.Kind == kind {
			if err := r.conn.Decide(r.t.Context(), a.ID, runnel.Decision{Choice: c.ID}); err != nil {
				r.t.Fatal(err)
			}
			return
		}
	}
	r.t.Fatalf("no choice of kind %s: %+v", kind, a.Choices)
}

// file returns the absolute path of a file in the project.
func (r *rig) file(name string) string { return filepath.Join(r.home.Project, name) }

func (r *rig) write(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(r.file(name), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// words are how an agent names its tools, and what they take.
type words struct {
	shell func(command string) fakemodel.Block
	write func(path, content string) fakemodel.Block
	edit  func(path, content, old, new string) fakemodel.Block
	plan  func(first, second string) fakemodel.Block
}

type args map[string]any

// vocabulary is by the name of the agent.
var vocabulary = map[string]words{
	"codex-acp": {
		shell: func(c string) fakemodel.Block { return fakemodel.Call("exec_command", args{"cmd": c}) },
		write: func(path, content string) fakemodel.Block {
			return fakemodel.Call("apply_patch", "*** Begin Patch\n*** Add File: "+path+"\n+"+strings.TrimSuffix(strings.ReplaceAll(content, "\n", "\n+"), "+")+"*** End Patch\n")
		},
		edit: func(path, _, old, new string) fakemodel.Block {
			return fakemodel.Call("apply_patch", "*** Begin Patch\n*** Update File: "+path+"\n@@\n-"+old+"\n+"+new+"\n*** End Patch\n")
		},
		plan: func(a, b string) fakemodel.Block {
			return fakemodel.Call("update_plan", args{"plan": []args{{"step": a, "status": "in_progress"}, {"step": b, "status": "pending"}}})
		},
	},
	"claude-agent-acp": {
		shell: func(c string) fakemodel.Block {
			return fakemodel.Call("Bash", args{"command": c, "description": "Run it"})
		},
		write: func(path, content string) fakemodel.Block {
			return fakemodel.Call("Write", args{"file_path": path, "content": content})
		},
		edit: func(path, _, old, new string) fakemodel.Block {
			return fakemodel.Call("Edit", args{"file_path": path, "old_string": old, "new_string": new})
		},
		plan: func(a, b string) fakemodel.Block {
			return fakemodel.Call("TodoWrite", args{"todos": []args{
				{"content": a, "status": "in_progress", "activeForm": a}, {"content": b, "status": "pending", "activeForm": b},
			}})
		},
	},
	"opencode": {
		shell: func(c string) fakemodel.Block {
			return fakemodel.Call("bash", args{"command": c, "description": "Run it"})
		},
		write: func(path, content string) fakemodel.Block {
			return fakemodel.Call("write", args{"filePath": path, "content": content})
		},
		edit: func(path, _, old, new string) fakemodel.Block {
			return fakemodel.Call("edit", args{"filePath": path, "oldString": old, "newString": new})
		},
		plan: func(a, b string) fakemodel.Block {
			return fakemodel.Call("todowrite", args{"todos": []args{
				{"id": "1", "content": a, "status": "in_progress", "priority": "high"}, {"id": "2", "content": b, "status": "pending", "priority": "low"},
			}})
		},
	},
	"gemini": {
		shell: func(c string) fakemodel.Block {
			return fakemodel.Call("run_shell_command", args{"command": c, "description": "Run it"})
		},
		write: func(path, content string) fakemodel.Block {
			return fakemodel.Call("write_file", args{"file_path": path, "content": content})
		},
		edit: func(path, _, old, new string) fakemodel.Block {
			return fakemodel.Call("replace", args{"file_path": path, "old_string": old, "new_string": new, "instruction": "Replace it"})
		},
		plan: func(a, b string) fakemodel.Block {
			return fakemodel.Call("write_todos", args{"todos": []args{{"description": a, "status": "in_progress"}, {"description": b, "status": "pending"}}})
		},
	},
	"copilot": {
		shell: func(c string) fakemodel.Block {
			return fakemodel.Call("bash", args{"command": c, "description": "Run it", "mode": "sync"})
		},
		write: func(path, content string) fakemodel.Block {
			return fakemodel.Call("create", args{"path": path, "file_text": content})
		},
		edit: func(path, _, old, new string) fakemodel.Block {
			return fakemodel.Call("edit", args{"path": path, "old_str": old, "new_str": new})
		},
		plan: func(a, b string) fakemodel.Block {
			return fakemodel.Call("update_todo", args{"todos": "- [ ] " + a + "\n- [ ] " + b})
		},
	},
	"qwen": {
		shell: func(c string) fakemodel.Block {
			return fakemodel.Call("run_shell_command", args{"command": c, "description": "Run it", "is_background": false})
		},
		write: func(path, content string) fakemodel.Block {
			return fakemodel.Call("write_file", args{"file_path": path, "content": content})
		},
		edit: func(path, _, old, new string) fakemodel.Block {
			return fakemodel.Call("edit", args{"file_path": path, "old_string": old, "new_string": new})
		},
		plan: func(a, b string) fakemodel.Block {
			return fakemodel.Call("todo_write", args{"todos": []args{
				{"id": "1", "content": a, "status": "in_progress"}, {"id": "2", "content": b, "status": "pending"},
			}})
		},
	},
}

// dump shows events one a line.
func dump(evs []event.Event) string {
	var b strings.Builder
	for _, ev := range evs {
		body, err := event.MarshalBody(ev.Body)
		fmt.Fprintf(&b, "%.8s %s %v\n", ev.Turn, body, err)
	}
	return b.String()
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
