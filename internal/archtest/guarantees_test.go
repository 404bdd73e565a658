package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var namedTest = regexp.MustCompile("`([a-z0-9/.]+)\\.(Test[A-Za-z0-9]+)`")

// Every row of docs/testing.md names a test, and all of these tests exist.
func TestNamedTestsOfGuaranteesExist(t *testing.T) {
	for line := range strings.Lines(read(t, "docs/testing.md")) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| guarantee") {
			continue
		}
		named := namedTest.FindAllStringSubmatch(line, -1)
		if len(named) == 0 {
			t.Errorf("no test is named in: %s", line)
		}
		for _, m := range named {
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("%s has no %s", m[1], m[2])
			}
		}
	}
}

// hasTest reports whether a test file of the folder declares the function.
func hasTest(t *testing.T, folder, function string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+function+"(t *testing.T)") {
			return true
		}
	}
	return false
}
