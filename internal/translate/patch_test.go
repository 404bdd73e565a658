package translate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

func TestHunks(t *testing.T) {
	got := translate.Hunks("--- a\n+++ b\n@@ -1,3 +1,4 @@ func x\n one\n-two\n+TWO\n+more\n\n\n@@ -9 +10,0 @@\n-gone\n\\ No newline at end of file\n@@ broken\n\n")
	want := []event.Hunk{
		{OldStart: 1, OldLines: 3, NewStart: 1, NewLines: 4, Lines: []string{" one", "-two", "+TWO", "+more", " "}},
		{OldStart: 9, OldLines: 1, NewStart: 10, NewLines: 0, Lines: []string{"-gone"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, diff := range []string{"", "@@", "@@ -x,y +z @@\n", "@@ -1,2 +1,2\n+x", "+x\n-y"} {
		if got := translate.Hunks(diff); got == nil || len(got) > 0 {
			t.Errorf("%q: %+v", diff, got)
		}
	}
	if got := translate.Hunks("@@ -99999999999999999999,2 +1 @@\n+x"); len(got) != 1 || got[0].OldStart != 0 || len(got[0].Lines) != 1 {
		t.Errorf("%+v", got)
	}
}
