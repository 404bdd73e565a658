package proc

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMembers(t *testing.T) {
	if !ownSessions {
		t.Skip("a system without sessions")
	}
	const self, root = 50, 100
	row := func(pid, ppid, sid int, start uint64) entry {
		return entry{identity: identity{pid: pid, start: start}, ppid: ppid, pgid: sid, sid: sid}
	}
	inits := []entry{row(1, 0, 1, 1), row(self, 1, self, 5), row(root, self, root, 10)}
	tests := map[string]struct {
		rows   []entry
		known  map[identity]bool
		marked []int
		want   []int
	}{
		"none":                             {},
		"children of children":             {rows: []entry{row(103, 102, 101, 12), row(102, 101, 101, 11), row(101, root, 101, 11)}, want: []int{101, 102, 103}},
		"orphan in the child's session":    {rows: []entry{row(101, 1, root, 11)}, want: []int{101}},
		"orphan in a tool's session":       {rows: []entry{row(101, root, 101, 11), row(102, 1, 101, 12)}, want: []int{101, 102}},
		"orphan nobody saw":                {rows: []entry{row(101, 1, 101, 11)}},
		"orphan that was seen":             {rows: []entry{row(101, 1, 101, 11)}, known: map[identity]bool{{101, 11}: true}, want: []int{101}},
		"its session too":                  {rows: []entry{row(101, 1, 101, 11), row(102, 1, 101, 12)}, known: map[identity]bool{{101, 11}: true}, want: []int{101, 102}},
		"number of one that was seen":      {rows: []entry{row(101, 1, 101, 99)}, known: map[identity]bool{{101, 11}: true}},
		"number of a parent":               {rows: []entry{row(101, root, 101, 20), row(102, 101, 7, 19)}, want: []int{101}},
		"orphan with the mark":             {rows: []entry{row(101, 1, 101, 11)}, marked: []int{101}, want: []int{101}},
		"children of the marked":           {rows: []entry{row(101, 1, 7, 11), row(102, 101, 102, 12), row(103, 102, 102, 12)}, marked: []int{101}, want: []int{101, 102, 103}},
		"the mark is not for its session":  {rows: []entry{row(101, 1, 7, 11), row(102, 1, 7, 12)}, marked: []int{101}, want: []int{101}},
		"nor once it is known by the mark": {rows: []entry{row(101, 1, 7, 11), row(102, 1, 7, 12)}, known: map[identity]bool{{101, 11}: false}, want: []int{101}},
		"older than the child":             {rows: []entry{row(101, root, root, 9)}, marked: []int{101}},
		"our other children":               {rows: []entry{row(101, self, 101, 11)}},
		"our own session, whatever":        {rows: []entry{row(101, root, self, 11)}, known: map[identity]bool{{101, 11}: true}, marked: []int{101}},
		"ourselves and init, whatever":     {known: map[identity]bool{{1, 1}: true, {self, 5}: true}, marked: []int{1, self}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tr := &tree{root: inits[2], self: inits[1], known: tt.known}
			tr.sessions = tr.rootSession()
			var got []int
			for _, m := range tr.members(append(tt.rows, inits...), func(e entry) bool { return slices.Contains(tt.marked, e.pid) }) {
				got = append(got, m.pid)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func BenchmarkLook(b *testing.B) {
	for name, mark := range map[string]string{"linked": "", "marked": "PROC_TEST_" + MarkSuffix + "=none"} {
		b.Run(name, func(b *testing.B) {
			tr := newTree(os.Getpid(), mark, nil, false)
			for b.Loop() {
				tr.look()
			}
		})
	}
}
