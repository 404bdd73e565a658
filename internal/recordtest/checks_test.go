package recordtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
)

func TestUUIDsAreNumberedByFirstOccurrence(t *testing.T) {
	const a, b = "aaaaaaaa-1111-4111-8111-111111111111", "bbbbbbbb-2222-4222-8222-222222222222"
	u := NewUUIDs([]string{"first " + b, b + " and " + a})
	want := "00000000-0000-4000-8000-000000000002/00000000-0000-4000-8000-000000000001"
	if got := u.Replace(a + "/" + b); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSeedRoundTrip(t *testing.T) {
	in := In(t, []Line{{0, runnel.DirIn, "go"}, {1, runnel.DirOut, "long"}, {2, runnel.DirOut, "hi"}, {3, runnel.DirOut, "beyond"}},
		func(l Line) string { return l.Line })
	seed := Seed(t, in.Data, 8, func(text []byte) bool { return string(text) == "long" })
	var got []string
	for _, l := range Seeded(seed) {
		got = append(got, string(l.Dir)+" "+string(l.Text))
	}
	if d := cmp.Diff([]string{"in go\n", "out hi\n"}, got); d != "" {
		t.Error(d)
	}
}
