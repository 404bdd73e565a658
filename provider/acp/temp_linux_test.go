package acp

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// Node.js loads compiled code from node-compile-cache in the folder for temporary
// files, also if another user has created it there.
func TestAgentsLoadNoCodeFromTheFolderForTemporaryFiles(t *testing.T) {
	eachOf(t, realagents.ACP(), func(t *testing.T, r *rig) {
		r.Opt.Env = slices.DeleteFunc(slices.Clone(r.Opt.Env), func(e string) bool { return strings.HasPrefix(e, "NODE_COMPILE_CACHE=") })
		r.Provider = New(known(t, r.Agent.Name)).(runnel.Programmable).WithProgram(append([]string{r.Agent.Path}, r.Agent.Args...), r.Opt.Env)
		r.Open()
		r.Play(said)
		r.Finish(once)
		r.Close() // Node.js writes the cache when it ends
		if cached, err := filepath.Glob(filepath.Join(r.Home.Tmp, "node-compile-cache*")); err != nil || len(cached) > 0 {
			t.Error("the agent loads code from ", cached, err)
		}
	})
}

// Codex follows links in this folder when it writes, also if another user owns it.
func TestFolderOfAnotherUserStopsCodex(t *testing.T) {
	r := newRig(t, "codex-acp")
	dir := filepath.Join(r.Home.Tmp, fmt.Sprintf("codex-bwrap-synthetic-mount-targets-%d", os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // as if another user had made it
		t.Fatal(err)
	}
	c, err := r.Provider.Open(t.Context(), r.Opt)
	if runnel.CodeOf(err) != runnel.SessionCreateFailed {
		t.Errorf("started in a folder in which everybody can put links: %v", err)
	}
	if err == nil {
		c.Close()
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	r.Open()
	if st, err := os.Lstat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("another user could create the folder: %v", err)
	}
}

// opencode works without asking in the folder opencode of the folder for temporary
// files, also if another user has created it there.
func TestTemporaryFilesOfOpencodeAreTheUsers(t *testing.T) {
	r := newRig(t, "opencode")
	shared := filepath.Join(r.Home.Tmp, "opencode")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777); err != nil { // as if another user had made it
		t.Fatal(err)
	}
	r.Open()
	r.Play(calls(r.words().Shell(`touch "$TMPDIR/opencode/script"`)), said)
	r.Finish(once)
	if _, err := os.Lstat(filepath.Join(shared, "script")); err == nil {
		t.Error("opencode and its commands use a folder in which everybody can write")
	}
	own := filepath.Join(r.Home.Tmp, fmt.Sprintf("runnel-%d", os.Geteuid()))
	if st, err := os.Lstat(own); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the folder is not the user's alone: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(own, "opencode", "script")); err != nil {
		t.Error(err)
	}
}
