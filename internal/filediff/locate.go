package filediff

import (
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// A Place tells how the line numbers of an intended change were found.
type Place string

// The places of an intended change.
const (
	PlaceAgent   Place = "agent"   // the agent reported the line numbers, and the file has these lines there
	PlaceFound   Place = "found"   // the file has the old text once, or every occurrence is replaced
	PlaceWhole   Place = "whole"   // the change replaces or removes the whole file, or creates it
	PlaceSeveral Place = "several" // the file has the old text more than once
	PlaceMissing Place = "missing" // the file does not have the old text
	PlaceUnknown Place = "unknown" // the file was not read or is too long to search, or the agent did not report the change
)

// maxPlaces is the maximum number of places in [Located.Lines].
const maxPlaces = 20

// maxCompared bounds the lines that are compared to find the places of the hunks
// of one change. It takes some tenths of a second.
const maxCompared = 20_000_000

// Located is a change that an agent intends to make, with the place that it has
// in the file as the file is now.
type Located struct {
	event.Change
	Place Place
	Lines []int // numbers of the lines where the old text begins, if Place is PlaceSeveral; at most maxPlaces
}

// Locate returns the change c with the line numbers that it has in the current
// file. current is the text of the file, or nil if the file does not exist. The
// result has hunks with up to context unchanged lines around each difference.
// If the place cannot be determined, the result has the hunks of c.
func Locate(c event.Change, current *string, context int) Located {
	out := Located{Change: c, Place: PlaceUnknown}
	switch text := ""; {
	case c.Kind == event.ChangeDelete && current != nil:
		out.Hunks, out.Place = Hunks(*current, "", context), PlaceWhole
		return out
	case len(c.Edits) > 0:
		if current != nil {
			text = *current
		}
		return locateEdits(out, text, current != nil, context)
	case c.NewText != nil && c.Kind != event.ChangeDelete && c.Kind != event.ChangeMove:
		out.Place, out.Kind = PlaceWhole, event.ChangeCreate
		if current != nil {
			text, out.Kind = *current, event.ChangeUpdate
		}
		out.Hunks = Hunks(text, *c.NewText, context)
		return out
	case len(c.Hunks) > 0 && current != nil:
		return locateHunks(out, *current, context)
	case len(c.Hunks) > 0 && c.Kind != event.ChangeCreate:
		out.Place = PlaceMissing
	}
	return out
}

// locateEdits applies the edits to the text, one after the other.
func locateEdits(out Located, text string, exists bool, context int) Located {
	after := text
	for _, e := range out.Edits {
		if e.Old == "" && after == "" {
			after = e.New
			continue
		}
		old, repl := e.Old, e.New
		if !strings.Contains(after, old) && strings.Contains(after, "\r\n") {
			old, repl = crlf(old), crlf(repl) // agents read such a file with plain newlines
		}
		n := 0
		if old != "" {
			n = strings.Count(after, old)
		}
		switch {
		case n == 0:
			out.Place = PlaceMissing
			return out
		case n > 1 && !e.All:
			out.Place, out.Lines = PlaceSeveral, linesOf(after, old)
			return out
		}
		after = strings.ReplaceAll(after, old, repl)
	}
	out.Place = PlaceFound
	if !exists {
		out.Place, out.Kind = PlaceWhole, event.ChangeCreate
	}
	out.Hunks = Hunks(text, after, context)
	return out
}

func crlf(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// linesOf returns the numbers of the lines in which the occurrences of part
// begin.
func linesOf(text, part string) (out []int) {
	line := 1
	for len(out) < maxPlaces {
		i := strings.Index(text, part)
		if i < 0 {
			break
		}
		line += strings.Count(text[:i], "\n")
		out = append(out, line)
		line += strings.Count(text[i:i+len(part)], "\n")
		text = text[i+len(part):]
	}
	return slices.Compact(out)
}

// locateHunks verifies hunks that have line numbers, and finds the place of
// those that have none.
func locateHunks(out Located, text string, context int) Located {
	lines := Split(text)
	hunks := slices.Clone(out.Hunks)
	out.Place = PlaceAgent
	compared := 0
	for i, h := range hunks {
		if placed(h) {
			continue
		}
		old := oldLines(h)
		if compared += len(lines) + len(old); compared > maxCompared {
			out.Place = PlaceUnknown
			return out
		}
		at := places(lines, old)
		switch {
		case len(at) == 0:
			out.Place = PlaceMissing
			return out
		case len(at) > 1:
			out.Place, out.Lines = PlaceSeveral, at[:min(len(at), maxPlaces)]
			return out
		}
		out.Place = PlaceFound
		hunks[i].OldStart, hunks[i].OldLines = at[0], len(old)
	}
	slices.SortStableFunc(hunks, func(a, b event.Hunk) int { return a.OldStart - b.OldStart })
	s := sheetOf(lines)
	if !s.apply(hunks) {
		out.Place = PlaceMissing
		return out
	}
	out.Hunks = s.hunks(context)
	return out
}

// oldLines returns the lines of the old text in a hunk.
func oldLines(h event.Hunk) (out []string) {
	for _, l := range h.Lines {
		if mark, body := cut(l); mark == '-' || mark == ' ' {
			out = append(out, body)
		}
	}
	return out
}

// places returns the numbers of the lines where part begins in lines; at most one
// more than maxPlaces. It compares each line about twice (Knuth, Morris and
// Pratt), because agents write both.
func places(lines, part []string) (out []int) {
	if len(part) == 0 || len(part) > len(lines) {
		return nil
	}
	borders := make([]int, len(part)) // for each beginning of part: the length of the longest shorter one with which it ends
	n := 0
	match := func(line string) {
		for n > 0 && (n == len(part) || part[n] != line) {
			n = borders[n-1]
		}
		if part[n] == line {
			n++
		}
	}
	for i, line := range part[1:] {
		match(line)
		borders[i+1] = n
	}
	n = 0
	for i, line := range lines {
		if match(line); n == len(part) {
			if out = append(out, i+2-n); len(out) > maxPlaces {
				break
			}
		}
	}
	return out
}
