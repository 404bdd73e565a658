package agentconn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/proc"
)

// Output starts a program to get its version. The program applies settings from
// its folder and the parents of that folder. So the folder must not be the
// caller's, nor one for temporary files, which other users can write to.
func TestOutputRunsInEmptyDirectory(t *testing.T) {
	project := t.TempDir()
	t.Chdir(project)
	if err := os.WriteFile("settings", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tmp, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	cache, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	sh, err := Find("sh", Agent{}, runnel.Options{})
	if err != nil {
		t.Skip("sh is not installed")
	}
	out, err := Output(t.Context(), sh, nil, "TEST_"+proc.MarkSuffix, "-c", "pwd -P; ls -A")
	if err != nil {
		t.Fatal(err)
	}
	dir, files, _ := strings.Cut(string(out), "\n")
	if !strings.HasPrefix(dir, cache+string(filepath.Separator)) || files != "" {
		t.Errorf("the program ran in %s with the files %q, want an empty directory below %s", dir, files, cache)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
