package claude

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// The settings of the agent name every project in which it was used, with the
// MCP servers and the newest conversation of each.
func TestSandboxHasSettingsOfItsProjectOnly(t *testing.T) {
	base := t.TempDir()
	repository := filepath.Join(base, "own")
	dir := filepath.Join(repository, "sub")
	if err := os.MkdirAll(filepath.Join(repository, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"kept":1,"githubRepoPaths":{"a/b":["` + base + `/other"]},"primaryApiKey":"key","mcpServers":{"user":{}},"projects":{"` + base + `":{"a":"secret"},"` + base + `/other":{"mcpServers":{"x":{"env":{"A":"secret"}}},"lastSessionId":"secret"},"` +
		repository + `":{"own":1},"` + dir + `/":{"own":2}}}`
	want := `{"kept":1,"mcpServers":{"user":{}},"primaryApiKey":"key","projects":{"` + repository + `":{"own":1},"` + dir + `/":{"own":2}}}`
	if got := string(ownSettings([]byte(text), dir, false)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := string(ownSettings([]byte(text), dir, true)); got != strings.Replace(want, `"primaryApiKey":"key",`, "", 1) {
		t.Errorf("with a broker: %s", got)
	}
	for text, want := range map[string]string{`[]`: "", `null`: "", `x`: "", `{"projects":"secret","a":1}`: `{"a":1}`, `{"projects":{"x":1},"projects":{"y":1}}`: `{}`} {
		if got := string(ownSettings([]byte(text), dir, true)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// Claude Code keeps the settings of a linked worktree under the repository to
// which the worktree belongs, and those of a submodule under the submodule. The
// folder above all of them is a repository, too, like a home directory with the
// user's own settings.
func TestSandboxHasSettingsOfTheRepositoryOfItsWorktree(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(base, name) }
	runGit(t, base, "init", "-q")
	for _, name := range []string{"main", "library", "victim"} {
		runGit(t, base, "init", "-q", name)
		runGit(t, in(name), "commit", "-q", "--allow-empty", "-m", "start")
	}
	runGit(t, in("main"), "worktree", "add", "-q", in("trees/linked"))
	runGit(t, in("main"), "-c", "worktree.useRelativePaths=true", "worktree", "add", "-q", in("trees/relative"))
	runGit(t, in("main"), "submodule", "--quiet", "add", in("library"), "module")
	runGit(t, base, "clone", "-q", "--bare", "main", "bare.git")
	runGit(t, in("bare.git"), "worktree", "add", "-q", "-b", "other", in("trees/bare"))
	runGit(t, base, "init", "-q", "--separate-git-dir="+in("separate.git"), "separate")
	runGit(t, in("victim"), "worktree", "add", "-q", in("trees/victim"))
	pointer := "gitdir: " + in("victim/.git/worktrees/victim") + "\n"
	// Its pointer names a worktree that belongs to another folder.
	put(t, in("forged/.git"), pointer)
	// Its pointer leads to a folder of its own, which names the other repository.
	put(t, in("copied/.git"), "gitdir: git/worktrees/x\n")
	put(t, in("copied/git/HEAD"), "ref: refs/heads/main\n")
	put(t, in("copied/git/objects/x"), "")
	put(t, in("copied/git/worktrees/x/commondir"), in("victim/.git")+"\n")
	put(t, in("copied/git/worktrees/x/gitdir"), in("copied/.git")+"\n")
	put(t, in("direct/.git"), "gitdir: "+in("victim/.git")+"\n")
	put(t, in("broken/.git"), "x")
	put(t, in("link/file"), "")
	if err := os.Symlink(in("trees/victim/.git"), in("link/.git")); err != nil {
		t.Fatal(err)
	}
	projects := map[string]any{base: 1, in("bare.git"): 1, in("library"): 1}
	for _, name := range []string{"main", "module", "victim", "forged", "copied", "direct", "broken", "link", "separate", "main/module", "trees", "trees/linked", "trees/relative", "trees/bare", "trees/victim"} {
		projects[in(name)] = 1
	}
	content, err := json.Marshal(map[string]any{"projects": projects})
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string][]string{
		"trees/linked": {"main", "trees/linked"}, "trees/relative": {"main", "trees/relative"}, "trees/bare": {"bare.git", "trees/bare"},
		"main/module": {"main/module"}, "main": {"main"}, "separate": {"separate"},
		"forged": {"forged"}, "copied": {"copied"}, "direct": {"direct"}, "broken": {"broken"}, "link": {"link"},
	} {
		below := filepath.Join(in(dir), "below")
		if err := os.Mkdir(below, 0o700); err != nil {
			t.Fatal(err)
		}
		for i, name := range want {
			want[i] = in(name)
		}
		for _, dir := range []string{in(dir), below} {
			var got struct{ Projects map[string]any }
			if err := json.Unmarshal(ownSettings(content, dir, false), &got); err != nil {
				t.Fatal(err)
			}
			if names := slices.Sorted(maps.Keys(got.Projects)); !slices.Equal(names, want) {
				t.Errorf("%s: got %q, want %q", dir, names, want)
			}
		}
	}
}

// put writes a file and creates its directory.
func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runGit runs git in dir without the settings of the user.
func runGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// An agent that reports the id of another project's conversation does not get
// that conversation's tasks. No agent gets the copies to which a later session
// without a sandbox resets files.
func TestSandboxHasNoStateOfAnotherProjectsConversation(t *testing.T) {
	const own, other = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	home, dir := t.TempDir(), t.TempDir()
	for _, file := range []string{slug(dir) + "/" + own, slug(dir) + "/" + other, "-other/" + other} {
		path := filepath.Join(home, "projects", file+".jsonl")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]bool{own: true, other: false} {
		e := enclosure([]string{"CLAUDE_CONFIG_DIR=" + home}, []string{"--resume=" + id}, runnel.Options{Dir: dir})
		if got := slices.Contains(e.State, filepath.Join(home, "tasks", id)); got != want || slices.Contains(e.State, filepath.Join(home, "file-history", id)) {
			t.Errorf("%s: %q", id, e.State)
		}
	}
}
