package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// If code contained a copy of a mark, it would still compile and pass its tests
// after the original was changed. The server would then mistake agents for the
// user. This also searches tests.
func TestMarksAreWrittenOnce(t *testing.T) {
	var found []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, p)
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && skipDir(filepath.ToSlash(file)):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".go":
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, mark := range []string{procinfo.MarkSuffix, procinfo.SuperviseCommand} {
			if strings.Contains(string(src), mark) {
				found = append(found, file)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const home = "internal/procinfo/marks.go"
	for _, file := range found {
		if filepath.ToSlash(file) != home {
			t.Errorf("%s has a mark as a literal; use the constant of internal/procinfo", file)
		}
	}
	if len(found) < 2 {
		t.Errorf("only %d marks found; %s has two", len(found), home)
	}
}
