// Package filediff compares texts line by line, finds the place of an edit in a
// file, and combines the changes of a file into one. It reads no files.
package filediff

import (
	"slices"
	"sort"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"

	"github.com/runnel-dev/runnel/event"
)

// A Newline tells how a change affects the newline at the end of a file. Lines
// of hunks lack their newline, so hunks do not show it.
type Newline string

// The effects of a change on the newline at the end of a file. The zero value
// means that the change does not affect it.
const (
	NewlineAdded   Newline = "added"
	NewlineRemoved Newline = "removed"
)

// newlineOf returns how a change from before to after affects the newline at
// the end of the file. An empty text needs no newline.
func newlineOf(before, after string) Newline {
	whole := func(s string) bool { return s == "" || strings.HasSuffix(s, "\n") }
	switch {
	case whole(before) == whole(after):
		return ""
	case whole(after):
		return NewlineAdded
	}
	return NewlineRemoved
}

// Split returns the lines of a text without their newlines.
func Split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// Hunks returns the differences between two texts, with up to context unchanged
// lines before and after each. It never returns nil.
func Hunks(before, after string, context int) []event.Hunk {
	b := newBuilder(context)
	b.compare(Split(before), Split(after))
	return b.done()
}

// A span replaces the lines from a to aEnd of a text by those from b to bEnd of
// another text. Indexes count from 0, and the ends are exclusive.
type span struct{ a, aEnd, b, bEnd int }

// spansOf returns the differences between two texts, in order.
func spansOf(a, b []string) []span {
	var out []span
	last := span{}
	for _, at := range anchors(a, b) {
		out = gap(out, a, b, span{last.aEnd, at.a, last.bEnd, at.b})
		last = span{aEnd: at.a + 1, bEnd: at.b + 1}
	}
	return gap(out, a, b, span{last.aEnd, len(a), last.bEnd, len(b)})
}

// gap appends the differences between two ranges of lines. If there are many,
// the search for the smallest ones stops and the differences are coarse.
func gap(out []span, a, b []string, in span) []span {
	if in.a == in.aEnd || in.b == in.bEnd { // as between almost all anchors
		if in.a < in.aEnd || in.b < in.bEnd {
			out = append(out, in)
		}
		return out
	}
	for _, d := range lcs.DiffLines(a[in.a:in.aEnd], b[in.b:in.bEnd]) {
		out = append(out, span{in.a + d.Start, in.a + d.End, in.b + d.ReplStart, in.b + d.ReplEnd})
	}
	return out
}

type anchor struct{ a, b int }

// anchors returns equal lines of both texts that split the texts into parts:
// the equal lines at the beginning and at the end, and between them lines that
// both texts have exactly once. They are in the same order in both texts.
func anchors(a, b []string) []anchor {
	var head, tail []anchor
	n := min(len(a), len(b))
	for i := 0; i < n && a[i] == b[i]; i++ {
		head = append(head, anchor{i, i})
	}
	for i := 1; i <= n-len(head) && a[len(a)-i] == b[len(b)-i]; i++ {
		tail = append(tail, anchor{len(a) - i, len(b) - i})
	}
	slices.Reverse(tail)
	from, endA, endB := len(head), len(a)-len(tail), len(b)-len(tail)
	inA, inB := unique(a[from:endA]), unique(b[from:endB])
	var once []anchor
	for line, i := range inA {
		if j, ok := inB[line]; ok && i >= 0 && j >= 0 {
			once = append(once, anchor{from + i, from + j})
		}
	}
	sort.Slice(once, func(i, j int) bool { return once[i].a < once[j].a })
	return slices.Concat(head, increasing(once), tail)
}

// unique returns the index of each line, or -1 for a line that occurs twice.
func unique(lines []string) map[string]int {
	at := make(map[string]int, len(lines))
	for i, l := range lines {
		if _, twice := at[l]; twice {
			at[l] = -1
		} else {
			at[l] = i
		}
	}
	return at
}

// increasing returns a longest part of list whose b increases. The a of the
// list increases already.
func increasing(list []anchor) []anchor {
	var ends []int // ends[n] is the index of the smallest last element of a part with n+1 elements
	before := make([]int, len(list))
	for i, at := range list {
		n := sort.Search(len(ends), func(n int) bool { return list[ends[n]].b >= at.b })
		before[i] = -1
		if n > 0 {
			before[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, i)
		} else {
			ends[n] = i
		}
	}
	if len(ends) == 0 {
		return nil
	}
	out := make([]anchor, 0, len(ends))
	for i := ends[len(ends)-1]; i >= 0; i = before[i] {
		out = append(out, list[i])
	}
	slices.Reverse(out)
	return out
}
