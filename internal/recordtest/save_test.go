package recordtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// Recordings with other agent versions are saved outside of testdata.
func TestSaveWritesToResultsDirectory(t *testing.T) {
	project, elsewhere := filepath.Join(t.TempDir(), "acp"), t.TempDir()
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(project)
	a := &txtar.Archive{Comment: []byte("A recording.\n")}
	for dir, want := range map[string]string{"": "testdata/one/text@1.txtar", elsewhere: filepath.Join(elsewhere, "acp/testdata/one/text@1.txtar")} {
		t.Setenv("RUNNEL_RESULTS_DIR", dir)
		Save(t, filepath.FromSlash("testdata/one/text@1.txtar"), a)
		if _, err := os.Stat(filepath.FromSlash(want)); err != nil {
			t.Errorf("RUNNEL_RESULTS_DIR=%q: %v", dir, err)
		}
		if err := os.RemoveAll("testdata"); err != nil {
			t.Fatal(err)
		}
	}
}
