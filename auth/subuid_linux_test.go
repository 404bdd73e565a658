package auth

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadSubordinates(t *testing.T) {
	const list = "alice:100000:65536\nbob:165536:65536\n# a comment\n\n1000:300000:10\nalice:x:1\nalice:1\n  alice:400000:1  \n"
	got := readSubordinates(strings.NewReader(list), []string{"1000", "alice"})
	want := []uidRange{{100000, 65536}, {300000, 10}, {400000, 1}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(uidRange{})); d != "" {
		t.Error(d)
	}
}
