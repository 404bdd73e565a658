package acp

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// An agent that takes a command for one that only reads may read its words in
// another way than the shell, which then runs or writes anything.
func TestCommandsThatSeemToReadAreAskedAbout(t *testing.T) {
	eachOf(t, []string{"gemini", "qwen"}, func(t *testing.T, r *rig) {
		outside := filepath.Join(r.Home.Dir, "outside")
		r.put(filepath.Join(outside, "secret.txt"), "canary-outside\n")
		r.Write("a.txt", "alpha\n")
		r.git(r.Home.Project, "init", "-q")
		r.git(r.Home.Project, "add", ".")
		commands := []string{
			"find . -ex''ec touch " + outside + "/found \\;",
			"git grep --open='touch " + outside + "/opened' alpha",
			"uniq a.txt {" + outside + "/written,}",
			"cat {" + outside + "/secret.txt,}",
			"cat " + outside + "/secret.txt",
		}
		for _, mode := range []runnel.PermissionMode{runnel.ModeDefault, runnel.ModeAcceptEdits} {
			r.Opt.PermissionMode = mode
			r.Open()
			for _, command := range commands {
				r.Play(calls(r.words().Shell(command)), said)
				if _, asked := r.DenyAll(); asked == 0 {
					t.Errorf("%s: %s was not asked about", mode, command)
				}
			}
			r.Close()
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
			t.Errorf("commands that were denied left %v, %v", left, err)
		}
		if r.ModelReceived("canary-outside") {
			t.Error("the model received a file outside of the folder")
		}
	})
}

// A file .git can name the git directory of another repository of the user. Qwen Code
// (0.24.4) makes a worktree of that one in the folder, whose files it then reads.
func TestWorktreesOfQwenAreAskedAbout(t *testing.T) {
	r := newRig(t, "qwen")
	other, named := filepath.Join(r.Home.Dir, "other"), r.File("g/worktrees/w")
	r.put(filepath.Join(other, "secret.txt"), "canary-secret\n")
	r.git(other, "init", "-q")
	r.git(other, "add", ".")
	r.git(other, "commit", "-qm", "one")
	r.put(filepath.Join(named, "HEAD"), "ref: refs/heads/master\n")
	r.put(filepath.Join(named, "commondir"), filepath.Join(other, ".git")+"\n")
	r.put(filepath.Join(named, "gitdir"), r.File(".git")+"\n")
	r.put(r.File(".git"), "gitdir: "+named+"\n")
	for _, mode := range []runnel.PermissionMode{runnel.ModeDefault, runnel.ModeAcceptEdits} {
		r.Opt.PermissionMode = mode
		r.Open()
		r.Play(calls(fakemodel.Call("enter_worktree", args{"name": "x"})), calls(r.words().Read(r.File(".qwen/worktrees/x/secret.txt"))), said)
		evs, _ := r.DenyAll()
		if !slices.ContainsFunc(evs, func(ev event.Event) bool {
			b, ok := ev.Body.(event.ApprovalRequested)
			return ok && strings.Contains(b.Approval.Title+b.Approval.ToolName, "orktree")
		}) {
			t.Errorf("%s: no question about the worktree\n%s", mode, dump(evs))
		}
		r.Close()
		if err := os.RemoveAll(r.File(".qwen")); err != nil {
			t.Fatal(err)
		}
	}
	if r.ModelReceived("canary-secret") {
		t.Error("the model received a file of another repository")
	}
}

// Claude Code and Codex as subagents would obey the settings of an untrusted folder.
func TestSubagentsOfQwenAreNoOtherAgents(t *testing.T) {
	r := newRig(t, "qwen")
	bin := t.TempDir()
	for _, other := range []string{"claude-agent-acp", "codex"} {
		r.put(filepath.Join(bin, other), "#!/bin/sh\ntouch "+r.File("ran")+"\n")
		if err := os.Chmod(filepath.Join(bin, other), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.Opt.Env = append(r.Opt.Env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	r.Provider = r.Provider.(runnel.Programmable).WithProgram(append([]string{r.Agent.Path}, r.Agent.Args...), r.Opt.Env)
	for _, mode := range []runnel.PermissionMode{runnel.ModeDefault, runnel.ModeAcceptEdits} {
		r.Opt.PermissionMode = mode
		r.Open()
		for _, kind := range []string{"claude-code", "Codex"} {
			r.Play(calls(fakemodel.Call("agent", args{"description": "Look", "prompt": "Look", "subagent_type": kind})), said)
			if _, asked := r.DenyAll(); asked != 0 {
				t.Errorf("%s: %s would start", mode, kind)
			}
		}
		r.Close()
	}
	if agentrig.Exists(r.File("ran")) {
		t.Error("another agent ran")
	}
}

// The skill "review" gives the model of Qwen Code the tool "workflow", whose scripts start subagents.
// No rule about the tool for subagents applies to a script.
func TestWorkflowsOfQwenStartNoSubagentsInGovernedSessions(t *testing.T) {
	for _, setting := range []string{"QWEN_CODE_ENABLE_WORKFLOWS=", "QWEN_CODE_ENABLE_WORKFLOWS=1"} {
		r := newRig(t, "qwen")
		r.Opt.Env = append(r.Opt.Env, setting)
		r.Provider = r.Provider.(runnel.Programmable).WithProgram(append([]string{r.Agent.Path}, r.Agent.Args...), r.Opt.Env)
		r.Opt.PermissionMode, r.Opt.Delegation = runnel.ModeAcceptEdits, runnel.DelegateNever
		r.Open()
		r.Play(calls(fakemodel.Call("skill", args{"skill": "review"})), said)
		r.Finish(translate.AllowOnce)
		r.Play(calls(fakemodel.Call("workflow", args{"script": `return await agent("canary-of-a-subagent")`})), said)
		evs, asked := r.DenyAll()
		for _, q := range r.Model.Requests() {
			if asked > 0 || !bytes.Contains(q.Body, []byte("await agent")) && bytes.Contains(q.Body, []byte("canary-of-a-subagent")) {
				t.Fatalf("%s: a subagent runs, or could run\n%s", setting, dump(evs))
			}
		}
		r.Close()
	}
}

// A tool of an MCP server can do anything, whatever it calls itself.
func TestToolsOfMCPServersAreAskedAbout(t *testing.T) {
	r := newRig(t, "opencode")
	marks := r.MarkedMCP()
	add := fakemodel.Call("t_add", args{"a": 1})
	call := func(want int) {
		t.Helper()
		r.Play(calls(add), said)
		if evs, asked := r.DenyAll(); asked != want {
			t.Errorf("%d questions, want %d\n%s", asked, want, dump(evs))
		}
	}
	open := func(mode runnel.PermissionMode) {
		t.Helper()
		r.Opt.PermissionMode = mode
		r.Open()
		r.Play(said)
		r.FinishTurn("")
		agentrig.Await(t, marks.Listed)
	}
	open(runnel.ModeDontAsk)
	call(0)
	r.Close()
	if err := os.Remove(marks.Listed); err != nil {
		t.Fatal(err)
	}
	open(runnel.ModeDefault)
	call(1)
	if agentrig.Exists(marks.Called) {
		t.Error("the tool was called")
	}
	r.Play(calls(add), said)
	r.FinishTurn(translate.AllowSession)
	if !agentrig.Exists(marks.Called) {
		t.Error("an allowed call does not reach the tool")
	}
	call(0)
}

func TestAskingBeforeCommandsKeepsTheDefaultSettings(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	given := filepath.Join(t.TempDir(), "system-defaults.json")
	for name, test := range map[string]struct{ text, want string }{
		"none":      {"", `{"agents":{"crossSessionMessaging":false},"permissions":{"ask":["run_shell_command","monitor","enter_worktree"],"deny":["agent(subagent_type:claude-code)","agent(subagent_type:codex)"]}}`},
		"others":    {`{"a":1,"permissions":{"ask":["x"],"deny":["y"]}}`, `{"a":1,"agents":{"crossSessionMessaging":false},"permissions":{"ask":["x","run_shell_command","monitor","enter_worktree"],"deny":["y","agent(subagent_type:claude-code)","agent(subagent_type:codex)"]}}`},
		"agents":    {`{"agents":{"b":1,"crossSessionMessaging":true}}`, `{"agents":{"b":1,"crossSessionMessaging":true},"permissions":{"ask":["run_shell_command","monitor","enter_worktree"],"deny":["agent(subagent_type:claude-code)","agent(subagent_type:codex)"]}}`},
		"no agents": {`{"agents":[]}`, ""},
		"comments":  {"{ // none: {\n/* \" */\"a\": \"//\\\"/*\"}//", `{"a":"//\"/*","agents":{"crossSessionMessaging":false},"permissions":{"ask":["run_shell_command","monitor","enter_worktree"],"deny":["agent(subagent_type:claude-code)","agent(subagent_type:codex)"]}}`},
		"no end":    {`{} /* none`, ""},
		"no string": {`{"a`, ""},
		"comma":     {`{"a":1,}`, ""},
		"list":      {`[]`, ""},
		"no list":   {`{"permissions":{"ask":"x"}}`, ""},
	} {
		if err := os.WriteFile(given, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, variable := range []string{"QWEN_CODE_SYSTEM_DEFAULTS_PATH=" + given, "QWEN_CODE_SYSTEM_SETTINGS_PATH=" + filepath.Join(filepath.Dir(given), "settings.json")} {
			for range 2 { // the second file is the first one
				env, err := qwenAskFirst([]string{"A=b", variable})
				if test.want == "" {
					if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), given) {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				path := strings.TrimPrefix(env[len(env)-1], "QWEN_CODE_SYSTEM_DEFAULTS_PATH=")
				if got, err := os.ReadFile(path); string(got) != test.want {
					t.Errorf("%s: %s, %v", name, got, err)
				}
			}
		}
	}
}

// A session that began in the mode bypass asks once its mode is another one.
func TestCommandsAreAskedAboutAfterBypass(t *testing.T) {
	agentrig.NeedLong(t)
	eachOf(t, []string{"gemini", "qwen"}, func(t *testing.T, r *rig) {
		r.Opt.PermissionMode, r.Opt.AllowBypass = runnel.ModeBypass, true
		r.Open()
		r.Play(calls(r.words().Shell("touch made")), said)
		if _, asked := r.DenyAll(); asked != 0 || !agentrig.Exists(r.File("made")) {
			t.Errorf("with bypass, the agent asked %d times", asked)
		}
		if err := r.Conn.(runnel.ModeSetter).SetPermissionMode(t.Context(), runnel.ModeDefault); err != nil {
			t.Fatal(err)
		}
		r.Play(calls(r.words().Shell("ls")), said)
		if _, asked := r.DenyAll(); asked == 0 {
			t.Error("the agent did not ask")
		}
	})
}

func TestPoliciesOfGeminiAreThoseOfTheUserAndOurs(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	home := t.TempDir()
	env, err := geminiAskFirst([]string{"HOME=" + home, "GEMINI_CLI_SYSTEM_DEFAULTS_PATH=" + filepath.Join(home, "none")})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(strings.TrimPrefix(env[len(env)-1], "GEMINI_CLI_SYSTEM_DEFAULTS_PATH="))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Paths []string `json:"policyPaths"`
	}
	if err := json.Unmarshal(text, &got); err != nil || len(got.Paths) != 2 || got.Paths[0] != filepath.Join(home, ".gemini", "policies") || !agentrig.Exists(got.Paths[1]) {
		t.Errorf("%s, %v", text, err)
	}
	if err := os.WriteFile(got.Paths[1], []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if path, err := agentconn.KeepSettings("ask.toml", []byte(geminiAsks)); err != nil || path != got.Paths[1] {
		t.Fatal(path, err)
	}
	if text, err := os.ReadFile(got.Paths[1]); string(text) != geminiAsks {
		t.Errorf("%s, %v", text, err)
	}
}

// Gemini CLI reads the folder of the user's policies only if no settings list
// others.
func TestListedPoliciesOfGeminiStillReplaceTheFolder(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	const list = `{"policyPaths":["/listed"] /* mine */}`
	for name, at := range map[string]string{"user": ".gemini/settings.json", "machine": "defaults.json"} {
		home := t.TempDir()
		path := filepath.Join(home, at)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
		env := []string{"HOME=" + home, "GEMINI_CLI_SYSTEM_DEFAULTS_PATH=" + filepath.Join(home, "defaults.json")}
		for _, change := range []func([]string) ([]string, error){geminiAskFirst, geminiNeverDelegates} {
			var err error
			if env, err = change(env); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(strings.TrimPrefix(env[len(env)-1], "GEMINI_CLI_SYSTEM_DEFAULTS_PATH="))
		if err != nil || strings.Contains(string(text), filepath.Join(home, ".gemini", "policies")) || !strings.Contains(string(text), "-ask.toml") || !strings.Contains(string(text), "-alone.toml") {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}
