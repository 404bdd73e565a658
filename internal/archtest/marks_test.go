package archtest

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// If code contained a copy of a mark, it would still compile and pass its tests
// after the original was changed. The server would then mistake agents for the
// user. This also searches tests.
func TestMarksAreWrittenOnce(t *testing.T) {
	var found []string
	goFiles(t, func(file string, src []byte) {
		for _, mark := range []string{procinfo.MarkSuffix, procinfo.SuperviseCommand} {
			if strings.Contains(string(src), mark) {
				found = append(found, file)
			}
		}
	})
	const home = "internal/procinfo/marks.go"
	for _, file := range found {
		if file != home {
			t.Errorf("%s has a mark as a literal; use the constant of internal/procinfo", file)
		}
	}
	if len(found) < 2 {
		t.Errorf("only %d marks found; %s has two", len(found), home)
	}
}
