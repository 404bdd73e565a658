package filediff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testload"
)

func TestLocate(t *testing.T) {
	text := func(s string) *string { return &s }
	edit := func(old, repl string, all bool) event.Change {
		return event.Change{Path: "a", Kind: event.ChangeUpdate, Edits: []event.Edit{{Old: old, New: repl, All: all}}, Hunks: []event.Hunk{{Lines: []string{"-" + old}}}}
	}
	hunk := func(start int, lines ...string) event.Change {
		h := event.Hunk{OldStart: start, NewStart: start, Lines: lines}
		h.OldLines = len(oldLines(h))
		return event.Change{Path: "a", Kind: event.ChangeUpdate, Hunks: []event.Hunk{h}}
	}
	file := "one\ntwo\nthree\nfour\ntwo\n"
	for name, c := range map[string]struct {
		change  event.Change
		current *string
		want    string
	}{
		"a part of a line":            {edit("hre", "HRE", false), &file, "found update @2 two|-three|+tHREe|four"},
		"several lines":               {edit("two\nthree\n", "2\n", false), &file, "found update @1 one|-two|-three|+2|four"},
		"the removal of a line":       {edit("three\n", "", false), &file, "found update @2 two|-three|four"},
		"every occurrence":            {edit("two", "2", true), &file, "found update @1 one|-two|+2|three|four|-two|+2"},
		"an ambiguous text":           {edit("two", "2", false), &file, "several update [2 5] @0 -two"},
		"a text that is not there":    {edit("five", "5", false), &file, "missing update @0 -five"},
		"no file":                     {edit("two", "2", false), nil, "missing update @0 -two"},
		"the first text of a file":    {edit("", "new\n", false), nil, "whole create @0 +new"},
		"a file with CRLF":            {edit("b\nc", "B\nc", false), text("a\r\nb\r\nc\r\n"), "found update @1 a\r|-b\r|+B\r|c\r"},
		"a whole file":                {event.Change{Kind: event.ChangeUpdate, NewText: text("one\n2\n")}, text("one\ntwo\n"), "whole update @1 one|-two|+2"},
		"a new file":                  {event.Change{Kind: event.ChangeUpdate, NewText: text("one\n")}, nil, "whole create @0 +one"},
		"a new file that exists":      {event.Change{Kind: event.ChangeCreate, NewText: text("one\n")}, text("two\n"), "whole update @1 -two|+one"},
		"a deletion":                  {event.Change{Kind: event.ChangeDelete}, text("one\ntwo\n"), "whole delete @1 -one|-two"},
		"lines with numbers":          {hunk(3, "-three", "+3"), &file, "agent update @2 two|-three|+3|four"},
		"wrong numbers":               {hunk(2, "-three", "+3"), &file, "missing update @2 -three|+3"},
		"lines without numbers":       {hunk(0, "-three", "+3"), &file, "found update @2 two|-three|+3|four"},
		"lines that are twice there":  {hunk(0, "-two", "+2"), &file, "several update [2 5] @0 -two|+2"},
		"lines that are not there":    {hunk(0, "-six", "+6"), &file, "missing update @0 -six|+6"},
		"numbers of a missing file":   {hunk(3, "-three", "+3"), nil, "missing update @3 -three|+3"},
		"a change that says nothing":  {event.Change{Kind: event.ChangeUpdate}, &file, "unknown update"},
		"a move that changes nothing": {event.Change{Kind: event.ChangeMove, MovedTo: "b"}, &file, "unknown move"},
	} {
		got := Locate(c.change, c.current, 1)
		s := fmt.Sprintf("%s %s", got.Place, got.Kind)
		if len(got.Lines) > 0 {
			s += fmt.Sprint(" ", got.Lines)
		}
		for _, h := range got.Hunks {
			lines := make([]string, len(h.Lines))
			for i, l := range h.Lines {
				lines[i] = strings.TrimPrefix(l, " ")
			}
			s += fmt.Sprintf(" @%d %s", h.OldStart, strings.Join(lines, "|"))
		}
		if s != c.want {
			t.Errorf("%s: got %q, want %q", name, s, c.want)
		}
	}
}

// What Locate shows is what the agent would do: an edit of any part of a text.
func TestLocatedEditLeadsToTheNewText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.StringMatching(`[ab\n]`), 0, 40).Draw(t, "text"), "")
		from := rapid.IntRange(0, len(text)).Draw(t, "from")
		to := rapid.IntRange(from, len(text)).Draw(t, "to")
		e := event.Edit{Old: text[from:to], New: rapid.StringMatching(`[xy\n]{0,6}`).Draw(t, "new"), All: rapid.Bool().Draw(t, "all")}
		got := Locate(event.Change{Kind: event.ChangeUpdate, Edits: []event.Edit{e}}, &text, 2)
		n := strings.Count(text, e.Old)
		want := strings.ReplaceAll(text, e.Old, e.New)
		if e.Old == "" {
			n, want = 0, ""
			if text == "" {
				n, want = 1, e.New
			}
		}
		switch {
		case n == 0 && got.Place == PlaceMissing, n > 1 && !e.All && got.Place == PlaceSeveral && len(got.Lines) > 0:
		case n > 0 && (n == 1 || e.All) && got.Place == PlaceFound:
			if after := patch(t, text, got.Hunks, newlineOf(text, want)); after != want {
				t.Fatalf("%q with %+v: got %q, want %q", text, got.Hunks, after, want)
			}
		default:
			t.Fatalf("%q has %q %d times: got %+v", text, e.Old, n, got)
		}
		if !slices.IsSorted(got.Lines) {
			t.Fatalf("lines %v", got.Lines)
		}
	})
}

// A file of many lines costs no allocation for each line that stays the same.
func TestUnchangedLinesAreCheap(t *testing.T) {
	before := strings.Repeat("same\n", 10_000)
	if n := testing.AllocsPerRun(1, func() { Hunks("a\n"+before, "b\n"+before, 3) }); n > 500 {
		t.Errorf("%.0f allocations", n)
	}
}

// An agent chooses the file and the hunks.
func TestPlacesOfManyLinesAreFoundSoon(t *testing.T) {
	var repeated, unique, hunk strings.Builder
	for i := range 100_000 {
		repeated.WriteString("a\n")
		fmt.Fprintf(&unique, "%d\n", i)
	}
	one := event.Hunk{}
	for range 40_000 {
		one.Lines = append(one.Lines, " a")
	}
	one.Lines = append(one.Lines, " c")
	many := make([]event.Hunk, 50_000)
	for i := range many {
		hunk.Reset()
		fmt.Fprintf(&hunk, "-%d", 50_000+i)
		many[i].Lines = []string{hunk.String()}
	}
	for name, c := range map[string]struct {
		text  string
		hunks []event.Hunk
		want  Place
	}{
		"a hunk that almost begins at every line": {repeated.String(), []event.Hunk{one}, PlaceMissing},
		"many hunks": {unique.String(), many, PlaceUnknown},
	} {
		began := time.Now()
		if got := Locate(event.Change{Path: "a", Kind: event.ChangeUpdate, Hunks: c.hunks}, &c.text, 3); got.Place != c.want {
			t.Errorf("%s: %s, want %s", name, got.Place, c.want)
		}
		testload.Within(t, name, began, 2*time.Second)
	}
}

func TestPlacesOfLinesAreThoseOfASearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ab := rapid.SampledFrom([]string{"a", "b"})
		lines, part := rapid.SliceOfN(ab, 0, 20).Draw(t, "lines"), rapid.SliceOfN(ab, 1, 5).Draw(t, "part")
		var want []int
		for i := 0; i+len(part) <= len(lines); i++ {
			if slices.Equal(lines[i:i+len(part)], part) {
				want = append(want, i+1)
			}
		}
		if got := places(lines, part); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
