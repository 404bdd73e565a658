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
