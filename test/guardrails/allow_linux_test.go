package guardrails

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// denial is a path that a program in a sandbox seems to need.
type denial struct{ Path, Access, Tool string }

func (w *world) denials(session string) (out []denial) {
	w.t.Helper()
	var record struct{ Denials []denial }
	if code, _ := w.Call("GET", "/api/session/"+session+"/denials", nil, &record); code != http.StatusOK {
		w.t.Fatalf("denials: %d", code)
	}
	return record.Denials
}

// allowance is the answer to a new rule about sandboxes.
type allowance struct {
	Rule struct {
		ID      int64
		Pattern string
	}
	Sandboxes struct{ Stopped, NextTurn []string }
	Error     struct{ Code, Message string }
}

// allow lets the sandbox of a session reach a path.
func (w *world) allow(session, kind, path string) (made allowance) {
	w.t.Helper()
	code, _ := w.Call("POST", "/api/rules", map[string]any{"effect": "allow", "kind": kind, "pattern": path, "sessionId": session}, &made)
	if code != http.StatusCreated {
		w.t.Fatalf("allow %s: %d %s", path, code, made.Error.Message)
	}
	return made
}

// disallow removes a rule and returns the sessions whose agents were stopped.
func (w *world) disallow(rule int64) (stopped []string) {
	w.t.Helper()
	var out allowance
	if code, _ := w.Call("DELETE", fmt.Sprint("/api/rules/", rule), nil, &out); code != http.StatusOK {
		w.t.Fatalf("remove rule %d: %d", rule, code)
	}
	return out.Sandboxes.Stopped
}

// outside creates directories beside the project with a file in each, and
// returns the file of data.
func (w *world) outside() (file, neighbour string) {
	w.t.Helper()
	for _, name := range []string{"datasets/data", "datasets/neighbour", ".ssh"} {
		dir := filepath.Join(w.home.Dir, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text of "+name+"\n"), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	at := real(w.t, filepath.Join(w.home.Dir, "datasets"))
	return filepath.Join(at, "data", "file"), filepath.Join(at, "neighbour", "file")
}

func real(t *testing.T, path string) string {
	t.Helper()
	found, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// printed returns what the tools of the last turn of events printed.
func printed(events []event.Event) (out string) {
	last := ""
	for _, ev := range events {
		if ev.Turn != "" && ev.Turn != last {
			last, out = ev.Turn, ""
		}
		if b, ok := ev.Body.(event.ItemDone); ok {
			if f, ok := b.FinalItem.(event.FunctionCallOutput); ok {
				out += f.Output + "\n"
			}
		}
	}
	return out
}

// forgot reports whether an agent began a new conversation.
func forgot(events []event.Event) bool {
	return slices.ContainsFunc(events, func(ev event.Event) bool {
		b, ok := ev.Body.(event.Notice)
		return ok && b.Code == runnel.ConversationForgotten
	})
}

// TestAllowedPathIsReachedFromTheNextTurnOn lets a tool fail to read a path,
// allows what the session reports, and removes the allowance again. The agent
// continues its conversation each time.
func TestAllowedPathIsReachedFromTheNextTurnOn(t *testing.T) {
	each(t, func(t *testing.T, agent realagents.Binary) {
		if agent.Name == "gemini" {
			t.Skip("Gemini CLI 0.61.0 shows no output of commands, in which Runnel finds what they could not reach")
		}
		w := newWorld(t, agent)
		file, neighbour := w.outside()
		data := filepath.Dir(file)
		session := w.enclosed()
		command := "cat " + file + " " + neighbour + "; ls " + filepath.Dir(data) + "; echo over > " + data + "/written"
		reached := func(what string, read, written bool) {
			t.Helper()
			_ = os.Remove(filepath.Join(data, "written"))
			events := w.tool(session, command)
			out := printed(events)
			_, err := os.Stat(filepath.Join(data, "written"))
			if got := strings.Contains(out, "text of datasets/data"); got != read || (err == nil) != written || strings.Contains(out, "text of datasets/neighbour") {
				t.Errorf("%s: read %v, written %v, printed %q", what, got, err == nil, out)
			}
			if forgot(events) {
				t.Errorf("%s: the agent has forgotten its conversation", what)
			}
		}

		reached("before", false, false)
		if got := w.denials(session); !slices.ContainsFunc(got, func(d denial) bool { return d.Path == file && d.Access == "read" }) {
			t.Fatalf("the session reports %+v", got)
		}
		made := w.allow(session, "sandbox_read", data)
		if made.Rule.Pattern != data || !slices.Equal(made.Sandboxes.Stopped, []string{session}) || len(made.Sandboxes.NextTurn) != 0 {
			t.Errorf("allowed %+v", made)
		}
		if got := w.denials(session); slices.ContainsFunc(got, func(d denial) bool { return d.Path == file && d.Access == "read" }) {
			t.Errorf("the session still reports %+v", got)
		}
		reached("readable", true, false)
		if got := w.denials(session); !slices.ContainsFunc(got, func(d denial) bool { return d.Path == data && d.Access == "write" }) {
			t.Errorf("the session reports %+v", got)
		}
		more := w.allow(session, "sandbox_write", data)
		reached("writable", true, true)
		if stopped := w.disallow(more.Rule.ID); !slices.Equal(stopped, []string{session}) {
			t.Errorf("stopped %v", stopped)
		}
		reached("readable again", true, false)
		w.disallow(made.Rule.ID)
		reached("after", false, false)
		w.audited(made.Rule.ID)
	}, "codex")
}

// audited checks that the audit log has a rule and its removal.
func (w *world) audited(rule int64) {
	w.t.Helper()
	out := w.prog.Command(w.t, "audit", "--json")
	added, removed := false, false
	for line := range strings.SplitSeq(out, "\n") {
		var e struct {
			Kind, What string
			Rule       int64
		}
		_ = json.Unmarshal([]byte(line), &e)
		added = added || e.Kind == "rule_added" && strings.Contains(e.What, "allow sandbox_read")
		removed = removed || e.Kind == "rule_removed" && e.Rule == rule
	}
	if !added || !removed {
		w.t.Errorf("the audit log has the rule: %v, its removal: %v\n%s", added, removed, out)
	}
}

// TestPathAllowedDuringATurnIsReachedFromTheNextOneOn allows a path while a tool
// runs, with the command of a user.
func TestPathAllowedDuringATurnIsReachedFromTheNextOneOn(t *testing.T) {
	w := newWorld(t, realagents.Codex(t))
	file, _ := w.outside()
	session := w.enclosed()
	c := w.Follow(session)
	defer c.Leave()
	tools := realagents.ToolsetOf(w.agent.Name)
	command := "echo begun > begun; until [ -e go ]; do sleep 0.05; done; cat " + file
	turn := c.Send(fakemodel.Scenario{Steps: []fakemodel.Step{{Blocks: []fakemodel.Block{tools.Shell(command)}}, {Text: "done"}}}.Prompt("Go."))
	c.Until("the start of the tool", func(ev event.Event) bool {
		_, started := ev.Body.(event.ItemDone)
		return started && ev.Turn == turn && strings.Contains(fmt.Sprintf("%s", ev.Body), "begun")
	})
	made := w.allow(session, "sandbox_read", filepath.Dir(file))
	if !slices.Equal(made.Sandboxes.NextTurn, []string{session}) || len(made.Sandboxes.Stopped) != 0 {
		t.Errorf("allowed %+v", made)
	}
	if err := os.WriteFile(filepath.Join(w.home.Project, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if end := c.End(turn); !isDone(end) {
		t.Errorf("the turn ended with %+v", end.Body)
	}
	if out := printed(c.Events); strings.Contains(out, "text of") {
		t.Errorf("the running turn reached the path: %q", out)
	}
	if out := printed(w.tool(session, "cat "+file)); !strings.Contains(out, "text of datasets/data") {
		t.Errorf("the next turn printed %q", out)
	}
	if out := w.prog.Command(t, "rules", "list"); !strings.Contains(out, "sandbox_read") {
		t.Errorf("runnel rules list printed\n%s", out)
	}
}

// TestHostileToolIsSuggestedNoProtectedPath prints, as a tool, that protected
// paths could not be read, among them the user's keys and the server's data.
func TestHostileToolIsSuggestedNoProtectedPath(t *testing.T) {
	w := newWorld(t, realagents.Codex(t))
	file, _ := w.outside()
	data := real(t, w.prog.Data)
	hostile := []string{
		filepath.Join(w.home.Dir, ".ssh"), filepath.Join(w.home.Dir, ".ssh/file"), w.home.Dir, data, filepath.Join(data, "runnel.db"), filepath.Join(data, "api.sock"), w.home.Config, w.home.Codex,
		"/etc/shadow", "/run", "/var/run/docker.sock", "/", "/proc/1/environ",
	}
	var script strings.Builder
	for _, path := range append(hostile, file) {
		fmt.Fprintf(&script, "echo 'cat: %s: Permission denied'; echo \"touch: cannot touch '%s': Read-only file system\"\n", path, path)
	}
	if err := testexec.Write(filepath.Join(w.home.Project, "lie"), "#!/bin/sh\n"+script.String()); err != nil {
		t.Fatal(err)
	}
	session := w.enclosed()
	w.tool(session, "./lie")
	got := w.denials(session)
	if len(got) != 2 || got[0].Path != file || got[1].Path != file {
		t.Errorf("the session suggests %+v, want only %s", got, file)
	}
	for _, path := range hostile {
		var refused allowance
		code, _ := w.Call("POST", "/api/rules", map[string]any{"effect": "allow", "kind": "sandbox_read", "pattern": path, "sessionId": session}, &refused)
		if code != http.StatusBadRequest || refused.Error.Message == "" {
			t.Errorf("allow %s: %d %s", path, code, refused.Error.Message)
		}
	}
	if out := w.prog.Command(t, "denials", session); !strings.Contains(out, "datasets") || strings.Contains(out, ".ssh") {
		t.Errorf("runnel denials printed\n%s", out)
	}
	if out := printed(w.tool(session, "cat "+file)); strings.Contains(out, "text of") {
		t.Errorf("a denial has allowed a path: %q", out)
	}
}

// TestPathReplacedByALinkStartsNoAgent replaces an allowed directory by a link
// to the user's keys while no agent runs.
func TestPathReplacedByALinkStartsNoAgent(t *testing.T) {
	w := newWorld(t, realagents.Codex(t))
	file, _ := w.outside()
	dir := filepath.Dir(file)
	session := w.enclosed()
	made := w.allow(session, "sandbox_read", dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(w.home.Dir, ".ssh"), dir); err != nil {
		t.Fatal(err)
	}
	c := w.Follow(session)
	tools := realagents.ToolsetOf(w.agent.Name)
	turn := c.Send(fakemodel.Scenario{Steps: []fakemodel.Step{{Blocks: []fakemodel.Block{tools.Shell("cat " + file)}}, {Text: "done"}}}.Prompt("Go."))
	end, ok := c.End(turn).Body.(event.ResponseError)
	c.Leave()
	if !ok || !strings.Contains(end.Error.Message, dir) || !strings.Contains(end.Error.Message, "Remove the rule") || strings.Contains(printed(c.Events), "text of .ssh") {
		t.Errorf("the turn ended with %+v, printed %q", end, printed(c.Events))
	}
	w.disallow(made.Rule.ID)
	if out := printed(w.tool(session, "echo works")); !strings.Contains(out, "works") {
		t.Errorf("after the removal: %q", out)
	}
}
