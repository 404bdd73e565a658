package reply

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestErrorTableIsWhole(t *testing.T) {
	src, err := os.ReadFile("../../error.go")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for c := range statuses {
		known = append(known, string(c))
	}
	for _, line := range strings.Split(string(src), "\n") {
		_, value, ok := strings.Cut(line, `Code = "`)
		if !ok {
			continue
		}
		c := strings.TrimSuffix(value, `"`)
		if !slices.Contains(known, c) {
			t.Errorf("%s has no status", c)
		}
	}
}
