package claude

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// An agent in a sandbox can write the files of all conversations of its project.
func TestConversationContinuesOnlyInItsFolderAndWorktrees(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const id = "11111111-2222-4333-8444-555555555555"
	config, repo := filepath.Join(root, "claude"), filepath.Join(root, "repo")
	dir := filepath.Join(repo, "app")
	for _, d := range []string{filepath.Join(repo, ".git"), filepath.Join(repo, ".claude", "worktrees", "mine"), dir, filepath.Join(config, "projects", slug(dir)), filepath.Join(root, "other")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "other"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	record := func(at string) string {
		return `{"type":"worktree-state","worktreeSession":{"originalCwd":"` + dir + `","worktreePath":"` + at + `","sessionId":"` + id + `"},"sessionId":"` + id + `"}` + "\n"
	}
	inside := record(filepath.Join(repo, ".claude", "worktrees", "mine"))
	outside := record(filepath.Join(root, "other"))
	for name, c := range map[string]struct {
		text    string
		box     runnel.Sandbox
		refused bool
	}{
		"none":                    {`{"type":"user","cwd":"/"}` + "\n" + `{"type":"worktree-state","worktreeSession":null}` + "\n", "", false},
		"a worktree of the agent": {inside, "", false},
		"text of a message":       {`{"type":"user","message":{"content":"worktreePath"}}` + "\n", "", false},
		"elsewhere":               {outside, "", true},
		"the repository":          {record(repo), "", true},
		"elsewhere, earlier":      {outside + inside, "", true},
		"without a line's end":    {strings.TrimSuffix(outside, "\n"), "", true},
		"behind a link":           {outside, "", true},
		"by a link":               {record(filepath.Join(dir, "link")), "", true},
		"with escapes":            {strings.ReplaceAll(outside, "worktreePath", `worktreeP\u0061th`), "", true},
		"another spelling":        {strings.Replace(outside, `"sessionId":"`+id+`"}`+"\n", `"WorktreeSession":{"worktreePath":"`+dir+`"}}`+"\n", 1), "", true},
		"another spelling within": {strings.Replace(outside, `"sessionId"`, `"worktreepath":"`+dir+`","sessionId"`, 1), "", true},
		"twice":                   {strings.Replace(inside, `"type"`, `"worktreeSession":{"worktreePath":"`+root+`/other"},"type"`, 1), "", false},
		"beside deep values":      {strings.Replace(outside, `"type"`, `"x":`+strings.Repeat("[", 10_001)+strings.Repeat("]", 10_001)+`,"type"`, 1), "", true},
		"in a sandbox":            {outside, runnel.SandboxProject, false},
	} {
		file := filepath.Join(config, "projects", slug(dir), id+".jsonl")
		_ = os.Remove(file)
		if name == "behind a link" {
			if err := os.Symlink(filepath.Join(root, "planted"), file); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil { // through the link
			t.Fatal(err)
		}
		err := checkWorkDir([]string{"CLAUDE_CONFIG_DIR=" + config}, runnel.Options{Dir: dir, Resume: id, Sandbox: c.box})
		if refused := runnel.CodeOf(err) == runnel.WorkingRootConflict; refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The agent continues a subagent in the worktree that the subagent's file names.
func TestSubagentsContinueOnlyInTheFolderAndWorktrees(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const id = "11111111-2222-4333-8444-555555555555"
	repo := filepath.Join(root, "repo")
	dir, mine, other := filepath.Join(repo, "app"), filepath.Join(repo, ".claude", "worktrees", "mine"), filepath.Join(root, "other")
	for _, d := range []string{filepath.Join(repo, ".git"), mine, dir, other} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		file, text string
		box        runnel.Sandbox
		refused    bool
	}{
		"none":                    {"subagents/agent-a.meta.json", `{"agentType":"general-purpose","cwd":"` + dir + `"}`, "", false},
		"a worktree of the agent": {"subagents/agent-a.meta.json", `{"worktreePath":"` + mine + `"}`, "", false},
		"elsewhere":               {"subagents/agent-a.meta.json", `{"worktreePath":"` + other + `"}`, "", true},
		"inherited":               {"subagents/agent-a.meta.json", `{"inheritedWorktreePath":"` + other + `"}`, "", true},
		"another spelling":        {"subagents/agent-a.meta.json", `{"worktreePath":"` + other + `","WorktreePath":"` + dir + `"}`, "", true},
		"in a folder":             {"subagents/workflows/w/agent-a.meta.json", `{"worktreePath":"` + other + `"}`, "", true},
		"deep values":             {"subagents/agent-a.meta.json", `{"worktreePath":"` + other + `","x":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + `}`, "", true},
		"another file":            {"tool-results/a.json", `{"worktreePath":"` + other + `"}`, "", false},
		"a link":                  {"subagents", "", "", true},
		"a link elsewhere":        {"tool-results", "", "", false},
		"in a sandbox":            {"subagents/agent-a.meta.json", `{"worktreePath":"` + other + `"}`, runnel.SandboxProject, false},
	} {
		config := filepath.Join(root, name)
		file := filepath.Join(config, "projects", slug(dir), id, filepath.FromSlash(c.file))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if c.text == "" {
			err = os.Symlink(other, file)
		} else {
			err = os.WriteFile(file, []byte(c.text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		err := checkWorkDir([]string{"CLAUDE_CONFIG_DIR=" + config}, runnel.Options{Dir: dir, Resume: id, Sandbox: c.box})
		if refused := runnel.CodeOf(err) == runnel.WorkingRootConflict; refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
