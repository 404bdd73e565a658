package turnview

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/livescreen"
)

// lineCount counts the lines that changes add and remove.
type lineCount struct{ added, removed int }

func countLines(changes []event.Change) (n lineCount) {
	for _, c := range changes {
		for _, h := range hunksOf(c) {
			for _, line := range h.Lines {
				switch {
				case strings.HasPrefix(line, "+"):
					n.added++
				case strings.HasPrefix(line, "-"):
					n.removed++
				}
			}
		}
	}
	return n
}

// spans returns the count in the colours of a diff, such as "+5 −1".
func (n lineCount) spans() livescreen.Line {
	var out livescreen.Line
	if n.added > 0 {
		out = append(out, livescreen.Span{Text: " +" + strconv.Itoa(n.added), Style: livescreen.Green})
	}
	if n.removed > 0 {
		out = append(out, livescreen.Span{Text: " −" + strconv.Itoa(n.removed), Style: livescreen.Red})
	}
	return out
}

// hunksOf returns the hunks of a change. A change without hunks, such as of a
// created file, becomes one hunk with its whole text.
func hunksOf(c event.Change) []event.Hunk {
	switch {
	case len(c.Hunks) > 0:
		return c.Hunks
	case c.OldText == nil && c.NewText == nil:
		return nil
	}
	h := event.Hunk{OldStart: 1, NewStart: 1}
	if c.OldText != nil && c.NewText != nil && *c.OldText == *c.NewText {
		return nil
	}
	if c.OldText != nil {
		h.Lines = signed("-", *c.OldText)
		h.OldLines = len(h.Lines)
	}
	if c.NewText != nil {
		added := signed("+", *c.NewText)
		h.Lines, h.NewLines = append(h.Lines, added...), len(added)
	}
	if len(h.Lines) == 0 {
		return nil
	}
	return []event.Hunk{h}
}

func signed(sign, text string) (out []string) {
	for line := range strings.Lines(text) {
		out = append(out, sign+strings.TrimSuffix(line, "\n"))
	}
	return out
}

// maxDiff is the number of lines of a diff that are shown.
const maxDiff = 16

// diffLines returns the beginning of the diff of changes, in colours and with
// the numbers of lines, each of at most width cells.
func diffLines(changes []event.Change, dir string, width int) (out []livescreen.Line) {
	left := 0 // lines that are not shown
	for _, c := range changes {
		if len(changes) > 1 && len(out) < maxDiff {
			head := livescreen.Line{{Text: "  " + oneLine(shortPath(c.Path, dir), maxObject), Style: livescreen.Faint}}
			out = append(out, append(head, countLines([]event.Change{c}).spans()...).Cut(width))
		}
		for i, h := range hunksOf(c) {
			if i > 0 && len(out) < maxDiff {
				out = append(out, livescreen.Text("  ⋮", livescreen.Faint))
			}
			shown, more := hunkLines(h, maxDiff-len(out), width)
			out, left = append(out, shown...), left+more
		}
	}
	if left > 0 {
		out = append(out, livescreen.Text(fmt.Sprintf("  … %s more", plural(left, "line")), livescreen.Faint))
	}
	return out
}

// hunkLines returns at most limit lines of a hunk, and the number of its other
// lines.
func hunkLines(h event.Hunk, limit, width int) (out []livescreen.Line, more int) {
	digits := len(strconv.Itoa(max(h.OldStart+h.OldLines, h.NewStart+h.NewLines)))
	before, after := h.OldStart, h.NewStart
	for i, line := range h.Lines {
		if i >= limit {
			return out, len(h.Lines) - max(limit, 0)
		}
		sign, text := " ", line
		if line != "" {
			sign, text = line[:1], line[1:]
		}
		number, style := after, livescreen.Plain
		switch sign {
		case "-":
			number, style = before, livescreen.Red
			before++
		case "+":
			style = livescreen.Green
			after++
		default:
			before++
			after++
		}
		margin := "  "
		if h.OldStart+h.NewStart > 0 { // otherwise the agent did not report where the hunk is
			margin = fmt.Sprintf("  %*d ", digits, number)
		}
		text = strings.Join(rows(text), " ")
		out = append(out, livescreen.Line{{Text: margin, Style: livescreen.Faint}, {Text: sign + " " + text, Style: style}}.Cut(width))
	}
	return out, 0
}
