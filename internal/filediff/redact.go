package filediff

import (
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// Redact removes secrets from the lines of a hunk as from one text, because a
// key may span several lines. It replaces a line that clean removes by the
// marker, so the number of lines stays the same. clean replaces secrets in a
// text.
func Redact(h event.Hunk, clean func(string) string, marker string) event.Hunk {
	bare := make([]string, len(h.Lines))
	for i, l := range h.Lines {
		bare[i] = l[min(1, len(l)):]
	}
	whole := strings.Join(bare, "\n")
	left := clean(whole)
	if left == whole {
		return h
	}
	lines := make(map[string]bool)
	for l := range strings.SplitSeq(left, "\n") {
		lines[l] = true
	}
	out := make([]string, len(h.Lines))
	for i, l := range h.Lines {
		text := clean(bare[i])
		if !lines[text] {
			text = marker
		}
		out[i] = l[:min(1, len(l))] + text
	}
	h.Lines = out
	return h
}
