package filediff

import (
	"regexp"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// Redact removes secrets from the lines of a hunk as from one text, because a
// key may span several lines. It replaces a line that clean removes by the
// marker, so the number of lines stays the same. clean replaces secrets in a
// text. A key may begin before the hunk: then the end of the key is removed.
func Redact(h event.Hunk, clean func(string) string, marker string) event.Hunk {
	bare := make([]string, len(h.Lines))
	for i, l := range h.Lines {
		bare[i] = l[min(1, len(l)):]
	}
	cut := endsOfKeys(bare, clean)
	whole := strings.Join(bare, "\n")
	left := clean(whole)
	if left == whole && cut == nil {
		return h
	}
	lines := make(map[string]bool)
	for l := range strings.SplitSeq(left, "\n") {
		lines[l] = true
	}
	out := make([]string, len(h.Lines))
	for i, l := range h.Lines {
		text := clean(bare[i])
		if !lines[text] || cut[i] {
			text = marker
		}
		out[i] = l[:min(1, len(l))] + text
	}
	h.Lines = out
	return h
}

// The last line of a private key, and a line of its content.
var (
	endOfKey = regexp.MustCompile(`^\s*-----END ([A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----`)
	inKey    = regexp.MustCompile(`^\s*[A-Za-z0-9+/=]+\s*$`)
)

// endsOfKeys returns the lines of private keys that end in the lines and begin
// before them, or nil if there are none. It asks clean whether they are part of
// a key.
func endsOfKeys(lines []string, clean func(string) string) (cut map[int]bool) {
	for end, l := range lines {
		m := endOfKey.FindStringSubmatch(l)
		start := end
		for m != nil && start > 0 && inKey.MatchString(lines[start-1]) {
			start--
		}
		if start == end {
			continue
		}
		key := "-----BEGIN " + m[1] + "-----\n" + strings.Join(lines[start:end+1], "\n")
		if clean(key) == key {
			continue
		}
		if cut == nil {
			cut = make(map[int]bool)
		}
		for i := start; i <= end; i++ {
			cut[i] = true
		}
	}
	return cut
}
