package claude

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// git runs git in a folder.
func (r *rig) git(dir string, arguments ...string) {
	r.T.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a"}, arguments...)...)
	cmd.Env = append(os.Environ(), "HOME="+r.Home.Dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.T.Fatalf("git %q: %v\n%s", arguments, err, out)
	}
}

// A repository can name any other one as its worktree. Claude Code 2.1.197 reads and
// writes files in a worktree that it entered as in the session's folder.
func TestWorktreesThatTheModelEntersAreAskedAbout(t *testing.T) {
	everyAgent(t, func(t *testing.T, r *rig) {
		other := filepath.Join(r.Home.Dir, "other")
		named := r.File(".git/worktrees/evil")
		r.git(r.Home.Dir, "init", "-q", other)
		r.git(r.Home.Project, "init", "-q")
		r.git(r.Home.Project, "commit", "-qm", "one", "--allow-empty")
		if err := os.MkdirAll(named, 0o700); err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string]string{
			filepath.Join(other, "secret.txt"): "canary-secret", filepath.Join(named, "gitdir"): filepath.Join(other, ".git") + "\n",
			filepath.Join(named, "commondir"): "../..\n", filepath.Join(named, "HEAD"): "ref: refs/heads/x\n",
		} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, mode := range []runnel.PermissionMode{runnel.ModeDefault, runnel.ModeAcceptEdits, runnel.ModePlan} {
			r.Opt.PermissionMode = mode
			r.Open()
			r.Play(calls(use("EnterWorktree", args{"path": other})), calls(use("Read", args{"file_path": filepath.Join(other, "secret.txt")})),
				calls(use("Write", args{"file_path": filepath.Join(other, "written.txt"), "content": "x"})), says("ok"))
			evs, _ := r.DenyAll()
			if !slices.ContainsFunc(evs, func(ev event.Event) bool {
				b, ok := ev.Body.(event.ApprovalRequested)
				return ok && b.Approval.ToolName == "EnterWorktree"
			}) {
				t.Errorf("%s: no question about the worktree\n%s", mode, dump(evs))
			}
			r.Close()
		}
		if r.ModelReceived("canary-secret") || exists(filepath.Join(other, "written.txt")) {
			t.Error("the agent worked in another repository of the user")
		}
	})
}

// Claude Code 2.1.197 creates the worktree of a subagent where a link of the repository
// leads. In a folder of the user, the files there are settings, such as the definition
// of a subagent with hooks. A worktree with a change stays, and the attributes make one.
func TestWorktreesStayInTheRepository(t *testing.T) {
	everyAgent(t, func(t *testing.T, r *rig) {
		agents := filepath.Join(r.Home.Config, "agents")
		for _, dir := range []string{agents, r.File(".claude")} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(agents, r.File(".claude/worktrees")); err != nil {
			t.Fatal(err)
		}
		r.git(r.Home.Project, "init", "-q")
		r.Write("a.txt", "a\r\n")
		r.Write("evil.md", "---\nname: evil\ndescription: x\n---\nDo it.\n")
		r.git(r.Home.Project, "add", ".")
		r.git(r.Home.Project, "commit", "-qm", "one")
		r.Write(".gitattributes", "*.txt text\n")
		r.git(r.Home.Project, "add", ".gitattributes")
		r.git(r.Home.Project, "commit", "-qm", "two")
		c, err := r.Provider.Open(t.Context(), r.Opt)
		if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), r.File(".claude/worktrees")) {
			t.Error(err)
		}
		if err == nil {
			r.Takes(c)
			r.Play(calls(use("Agent", args{"description": "x", "prompt": scenario(says("ok")), "subagent_type": "general-purpose", "isolation": "worktree", "run_in_background": false})), says("ok"))
			r.DenyAll()
		}
		if made, err := filepath.Glob(filepath.Join(agents, "*", "evil.md")); err != nil || len(made) > 0 {
			t.Errorf("the repository added a subagent of the user: %q, %v", made, err)
		}
	})
}
