package acp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/translate"
)

// writes returns a call of Qwen Code that creates a file.
func writes(path string) fakemodel.Block {
	return realagents.ToolsetOf("qwen").Write(path, "made\n")
}

// outside returns the path of a folder outside of the project that has a file.
func (r *rig) outside() string {
	dir := filepath.Join(r.Home.Dir, "outside")
	r.put(filepath.Join(dir, "secret.txt"), "canary-outside\n")
	return dir
}

// asks plays a call and denies every approval. It fails the test unless the agent
// asks want times.
func (r *rig) asks(want int, call fakemodel.Block) {
	r.T.Helper()
	r.Play(calls(call), said)
	if evs, asked := r.DenyAll(); asked != want {
		r.T.Errorf("%s %s: %d questions, want %d\n%s", call.Name, call.Input, asked, want, dump(evs))
	}
}

// With accepted edits, Qwen Code changes files of the folder without asking, except
// those from which programs run code, and asks about everything else.
func TestAcceptedEditsOfQwenAreThoseOfTheFolder(t *testing.T) {
	t.Parallel()
	r := newRig(t, "qwen")
	// Qwen Code reads patterns and variables in its rules.
	r.Opt.Dir = filepath.Join(r.Home.Project, `p (x) [a],{b}!|$HOME*`)
	in := func(name string) string { return filepath.Join(r.Opt.Dir, name) }
	outside := r.outside()
	r.put(in("a.txt"), "alpha\n")
	for link, to := range map[string]string{"link": outside, "new": filepath.Join(outside, "new.txt"), "hooks": ".git/hooks"} {
		if err := os.Symlink(to, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	r.git(r.Opt.Dir, "init", "-q")
	r.Opt.PermissionMode = runnel.ModeAcceptEdits
	r.Open()
	for _, name := range []string{"made.txt", "sub/made.txt", ".gitignore", ".github/workflows/made.yml", ".qwen/worktrees/w/made.txt"} {
		r.asks(0, writes(in(name)))
		if !agentrig.Exists(in(name)) {
			t.Errorf("%s was not written", name)
		}
	}
	for _, path := range []string{
		filepath.Join(outside, "made.txt"), filepath.Join(r.Home.Dir, ".qwen", "memories", "made.md"), r.Opt.Dir + "/../made.txt", r.Opt.Dir + "2/made.txt", in("link/made.txt"), in("new"), in("hooks/made"),
		in(".git/made"), in(".git/hooks/pre-commit"), in("sub/.git"), in("sub/.GIT/config"), in(".qwen/settings.json"), in(".qwen/agents/made.md"), in(".qwen/worktrees/w/.git"),
		in(".mcp.json"), in(".runnel/config.yaml"), in(".claude/settings.json"), in(".vscode/tasks.json"), in(".github/hooks/made.json"), in(".env"), in("opencode.json"),
	} {
		r.asks(1, writes(path))
	}
	for _, call := range []fakemodel.Block{
		r.words().Shell("touch " + in("made2")),
		r.words().Read(filepath.Join(outside, "secret.txt")),
		fakemodel.Call("web_fetch", args{"url": r.Model.URL(), "prompt": "Look"}),
		fakemodel.Call("cron_create", args{"cron": "0 0 1 1 *", "prompt": "Look", "recurring": true}),
		fakemodel.Call("agent", args{"description": "Look", "prompt": "Look", "subagent_type": "general-purpose"}),
	} {
		r.asks(1, call)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 || agentrig.Exists(in("made2")) {
		t.Errorf("outside of the folder are %v, %v", left, err)
	}
}

// In its mode plan, Qwen Code makes the edits that its rules allow.
func TestModelDoesNotEnterPlanModeOfQwenWithAcceptedEdits(t *testing.T) {
	t.Parallel()
	r := newRig(t, "qwen")
	r.Opt.PermissionMode = runnel.ModeAcceptEdits
	r.Open()
	r.asks(0, fakemodel.Call("enter_plan_mode", args{}))
	if got := r.Conn.(runnel.SettingsReporter).Settings().PermissionMode; got != runnel.ModeAcceptEdits {
		t.Errorf("the mode is %q", got)
	}
}

// In a sandbox, Qwen Code finds the rules for accepted edits, too.
func TestAcceptedEditsOfQwenInSandbox(t *testing.T) {
	agentrig.NeedSandbox(t)
	t.Parallel()
	r := newRig(t, "qwen")
	r.Enclose(runnel.SandboxProject)
	r.Opt.PermissionMode = runnel.ModeAcceptEdits
	r.Open()
	r.asks(0, writes(r.File("made.txt")))
	r.asks(1, writes(r.File(".git/hooks/made")))
}

// No choice of a question switches Qwen Code to its mode auto-edit.
func TestQuestionsOfQwenOfferNoOtherMode(t *testing.T) {
	t.Parallel()
	r := newRig(t, "qwen")
	for _, step := range []struct {
		mode runnel.PermissionMode
		call fakemodel.Block
	}{
		{runnel.ModeDefault, writes(r.File("made.txt"))},
		{runnel.ModePlan, fakemodel.Call("exit_plan_mode", args{"plan": "Make a file."})},
	} {
		r.Opt.PermissionMode = step.mode
		r.Open()
		r.Play(calls(step.call), said)
		a := r.Asked()
		for _, c := range a.Choices {
			if c.Kind == event.ChoiceAllowSession || c.Kind == event.ChoiceAllowAlways {
				t.Errorf("%s: %+v", step.mode, c)
			}
		}
		r.Decide(a, runnel.Decision{Choice: translate.DenyStop})
		r.Finish("")
		r.Close()
	}
}

// Runnel's mode wins over the one in the user's settings, and over that of an
// earlier part of the conversation.
func TestQwenStartsInTheModeOfTheSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, "qwen")
	for _, mode := range []string{"auto-edit", "yolo"} {
		r.put(filepath.Join(r.Home.Dir, ".qwen", "settings.json"), `{"tools":{"approvalMode":"`+mode+`"}}`)
		r.Open()
		r.asks(1, writes(r.File("made.txt")))
		r.Close()
	}
	for i, mode := range []runnel.PermissionMode{runnel.ModeAcceptEdits, runnel.ModeDefault, runnel.ModeAcceptEdits, runnel.ModePlan} {
		r.Opt.PermissionMode = mode
		r.Open()
		r.Opt.Resume = r.Conn.(*conn).tr.session.id
		if got := r.Conn.(runnel.SettingsReporter).Settings().PermissionMode; got != mode {
			t.Errorf("the mode is %q, want %q", got, mode)
		}
		made := r.File("made" + strings.Repeat("e", i))
		r.Play(calls(writes(made)), said)
		r.DenyAll()
		if agentrig.Exists(made) != (mode == runnel.ModeAcceptEdits) {
			t.Errorf("%s: the file exists: %v", mode, agentrig.Exists(made))
		}
		r.Close()
	}
}

func TestRulesAboutEditsAreAboutTheFolderAndWhatItsLinkLeadsTo(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "link$A")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	allow, ask := editRules(link)
	at := strings.Trim(root, "/") + "/"
	if want := []string{"Edit(//" + at + "link[$]A/**)", "Edit(//" + at + "**)"}; !slices.Equal(allow, want) {
		t.Errorf("%q, want %q", allow, want)
	}
	if want := "Edit(//!(" + at + "link[$]A/**|" + at + "**))"; len(ask) != 3 || ask[2] != want || !strings.Contains(ask[0], `\.[rR][uU][nN][nN][eE][lL]|`) {
		t.Errorf("%q, want %q", ask, want)
	}
	if allow, _ := editRules("/"); !slices.Equal(allow, []string{"Edit(//**)"}) {
		t.Errorf("%q", allow)
	}
}
