package guardrails

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testprogram"
)

// TestSandboxIsRefusedNotIgnored asks for sandboxes that cannot be made, or that
// are not allowed. No agent starts without its sandbox.
func TestSandboxIsRefusedNotIgnored(t *testing.T) {
	w := newWorld(t, realagents.Claude(t)[0])
	project := func(more map[string]any) map[string]any {
		out := map[string]any{"sandbox": "project"}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	for _, c := range []struct {
		name    string
		options map[string]any
		code    int
		want    string
	}{
		{"unknown", map[string]any{"sandbox": "none"}, http.StatusBadRequest, "want off, files or project"},
		{"mode", project(map[string]any{"egress": map[string]any{"mode": "allow"}}), http.StatusBadRequest, "want deny or ask"},
		{"entry", project(map[string]any{"egress": map[string]any{"allow": []string{"good.example.com", "https://example.com"}}}), http.StatusBadRequest, "egress.allow.1"},
		{"set", project(map[string]any{"egress": map[string]any{"sets": []string{"all"}}}), http.StatusBadRequest, "git or packages"},
		{"loopback", project(map[string]any{"egress": map[string]any{"allow": []string{"localhost"}}}), http.StatusBadRequest, "write the port"},
		{"home", project(map[string]any{"addDirs": []string{w.home.Dir}}), http.StatusConflict, "no sandbox may show"},
		{"secrets", project(map[string]any{"addDirs": []string{filepath.Join(w.home.Dir, ".ssh")}}), http.StatusConflict, "no sandbox may show"},
		{"settings of the server's git", project(map[string]any{"addDirs": []string{filepath.Join(w.home.Dir, ".cache", "runnel", "git")}}), http.StatusConflict, "no sandbox may write"},
		{"a directory behind a link", project(map[string]any{"addDirs": []string{filepath.Join(w.home.Dir, "link")}}), http.StatusConflict, "leads through a link"},
		{"the user's settings of git", project(map[string]any{"addDirs": []string{filepath.Join(w.home.Dir, ".config", "git")}}), http.StatusConflict, "no sandbox may write"},
	} {
		for _, dir := range []string{".ssh", ".cache/runnel/git", ".config/git", "folder"} {
			if err := os.MkdirAll(filepath.Join(w.home.Dir, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("folder", filepath.Join(w.home.Dir, "link")); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		id, code, message := w.create(c.options)
		if code != c.code || !strings.Contains(message, c.want) {
			t.Errorf("%s: %d %s %s", c.name, code, id, message)
		}
	}
	git := filepath.Join(w.home.Project, ".git")
	if out, err := exec.Command("git", "init", "-q", w.home.Project).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Link(filepath.Join(git, "config"), filepath.Join(git, "CONFIG")); err != nil { // as on a file system that ignores case
		t.Fatal(err)
	}
	if id, code, message := w.create(project(nil)); code != http.StatusUnprocessableEntity || !strings.Contains(message, "ignores the case of names") {
		t.Errorf("settings of git with a name in another case: %d %s %s", code, id, message)
	}
	if err := os.RemoveAll(git); err != nil {
		t.Fatal(err)
	}
	script := *w
	script.agent.Name = "script"
	if _, code, message := script.create(project(nil)); code < 400 || !strings.Contains(message, "does not support this option") {
		t.Errorf("an agent without a process: %d %s", code, message)
	}
	weak := *w
	weak.Token = w.prog.Token(t, "read,send")
	if _, code, message := weak.create(project(map[string]any{"egress": map[string]any{"sets": []string{"git"}}})); code != http.StatusForbidden || !strings.Contains(message, "egress") {
		t.Errorf("egress without the scope approve: %d %s", code, message)
	}
	if n := len(w.model.Requests()); n > 0 {
		t.Errorf("agents sent %d requests", n)
	}
}

// TestSandboxNeedsBubblewrap runs a server whose PATH has no bubblewrap.
func TestSandboxNeedsBubblewrap(t *testing.T) {
	w := newWorld(t, realagents.Codex(t))
	w.prog.Stop()
	bin := t.TempDir()
	for _, name := range []string{"sh", "bash", "env", "git", "node", "cat"} {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink(w.agent.Path, filepath.Join(bin, w.agent.Name)); err != nil {
		t.Fatal(err)
	}
	w.prog.Env = append(w.prog.Env, "PATH="+bin)
	w.start()
	if _, code, message := w.create(map[string]any{"sandbox": "project"}); code < 400 || !strings.Contains(message, "install bubblewrap") {
		t.Errorf("%d %s", code, message)
	}
	if n := len(w.model.Requests()); n > 0 {
		t.Errorf("the agent sent %d requests", n)
	}
	doctor := exec.Command(testprogram.Path(t), "doctor", "--data", w.prog.Data)
	doctor.Env = w.prog.Env
	if out, _ := doctor.Output(); !strings.Contains(strings.Join(strings.Fields(string(out)), " "), "install bubblewrap") {
		t.Errorf("runnel doctor printed\n%s", out)
	}
	session, code, message := w.create(map[string]any{"sandbox": "off"})
	if code != http.StatusCreated {
		t.Fatalf("%d %s", code, message)
	}
	w.tool(session, "true")
}

// TestConfiguredSandboxCannotBeSwitchedOff runs a server whose configuration
// asks for a sandbox. Clients cannot start an agent without it.
func TestConfiguredSandboxCannotBeSwitchedOff(t *testing.T) {
	w := newWorld(t, realagents.Codex(t))
	w.prog.Stop()
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := "options:\n  sandbox: project\n  egress:\n    allow: [\"localhost:" + port(w.model.URL()) + "\"]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.prog.Args = []string{"--config", config}
	w.start()
	secret := filepath.Join(w.home.Dir, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, options := range []map[string]any{{}, {"sandbox": "off"}} {
		session, code, message := w.create(options)
		if code != http.StatusCreated {
			t.Fatalf("%d %s", code, message)
		}
		w.tool(session, "cp "+secret+" copied; touch inside")
		if _, err := os.Stat(filepath.Join(w.home.Project, "copied")); err == nil {
			t.Errorf("%v: the agent read the home directory", options)
		}
		if _, err := os.Stat(filepath.Join(w.home.Project, "inside")); err != nil {
			t.Errorf("%v: the tool did not run: %v", options, err)
		}
		_ = os.Remove(filepath.Join(w.home.Project, "inside"))
		var st struct {
			Resolved map[string]struct{ Value, From any }
		}
		if w.Call("GET", "/api/session/"+session+"/status", nil, &st); st.Resolved["sandbox"].Value != "project" || st.Resolved["sandbox"].From != "global" {
			t.Errorf("%v: resolved as %+v", options, st.Resolved)
		}
	}
}

// TestPromptRunsInSandbox runs a prompt without a server. The agent reaches its
// model only if the command lists it.
func TestPromptRunsInSandbox(t *testing.T) {
	w := newWorld(t, realagents.Claude(t)[0])
	w.prog.Stop()
	tools := realagents.ToolsetOf(w.agent.Name)
	prompt := fakemodel.Scenario{Steps: []fakemodel.Step{{Blocks: []fakemodel.Block{tools.Write(filepath.Join(w.home.Project, "new"), "text")}}, {Text: "The end."}}}.Prompt("Go.")
	run := func(flags ...string) (string, error) {
		args := append([]string{"run", "--agent", "claude-code", "--dir", w.home.Project, "--permission-mode", "acceptEdits", "--sandbox", "project", "--data", w.prog.Data}, flags...)
		cmd := exec.Command(testprogram.Path(t), append(args, prompt)...)
		cmd.Env = w.prog.Env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(); err == nil || len(w.model.Requests()) > 0 {
		t.Errorf("the agent reached a model that is not listed: %v, %d requests\n%s", err, len(w.model.Requests()), out)
	}
	if out, err := run("--egress", "localhost:"+port(w.model.URL())); err != nil || !strings.Contains(out, "The end.") {
		t.Errorf("%v\n%s", err, out)
	}
	if text, err := os.ReadFile(filepath.Join(w.home.Project, "new")); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.MkdirAll(filepath.Join(w.home.Dir, ".codex", "skills"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.home.Project, filepath.Join(w.home.Dir, ".codex", "skills", "mine")); err != nil {
		t.Fatal(err)
	}
	if out, err := run("--egress", "localhost:"+port(w.model.URL())); err == nil || !strings.Contains(strings.Join(strings.Fields(out), " "), "no sandbox may write there") {
		t.Errorf("an agent in a sandbox may change a skill of another agent: %v\n%s", err, out)
	}
}
