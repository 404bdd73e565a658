package claude

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// A folder that cannot be listed hides no conversation from the agent, which opens
// the file by its name.
func TestConversationOfAFolderThatCannotBeListed(t *testing.T) {
	if testexec.Unprivileged(t) {
		return
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const id = "11111111-2222-4333-8444-555555555555"
	config, dir := filepath.Join(root, "claude"), filepath.Join(root, "project")
	projects := filepath.Join(config, "projects")
	file := filepath.Join(projects, slug(dir), id+".jsonl")
	for _, d := range []string{dir, filepath.Dir(file)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(`{"type":"worktree-state","worktreeSession":{"worktreePath":"/"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func() error {
		return checkState(t.Context(), []string{"CLAUDE_CONFIG_DIR=" + config}, runnel.Options{Dir: dir, Resume: id})
	}
	if err := os.Chmod(projects, 0o300); err != nil {
		t.Fatal(err)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), "cannot be listed") {
		t.Errorf("got %v", err)
	}
	if err := os.Chmod(projects, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), "lets the agent work in /") {
		t.Errorf("got %v", err)
	}
	if err := os.RemoveAll(projects); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Errorf("without conversations: %v", err)
	}
}
