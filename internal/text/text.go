// Package text shortens text without breaking characters.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const ellipsis = "…"

// Cut returns the first max bytes of s, fewer if max would split a character,
// and whether anything is missing. Invalid UTF-8 is cut at max exactly, so the
// result is empty only if not even the first character fits.
func Cut(s string, max int) (string, bool) {
	if len(s) <= max {
		return s, false
	}
	if max <= 0 {
		return "", true
	}
	for i := max; i >= 0 && i > max-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i], true
		}
	}
	return s[:max], true
}

// TrimPartial returns s without an incomplete character at its end. Reading a
// stream can stop in the middle of a character.
func TrimPartial(s string) string {
	for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return s[:i]
			}
			break
		}
	}
	return s
}

// Shorten returns s if it has at most max bytes. Otherwise it returns the
// beginning of s and "…", at most max bytes together. Without room for "…" it
// returns the beginning only.
func Shorten(s string, max int) string {
	if len(s) <= max {
		return s
	}
	if max < len(ellipsis) {
		s, _ = Cut(s, max)
		return s
	}
	s, _ = Cut(s, max-len(ellipsis))
	return s + ellipsis
}

// ShortenRunes is [Shorten] with a limit in characters instead of bytes, for
// columns of a terminal.
func ShortenRunes(s string, max int) string {
	if max <= 0 {
		return ""
	}
	n, last := 0, 0 // characters so far; start of the last one that fits
	for i := range s {
		if n++; n == max {
			last = i
		}
		if n > max {
			return s[:last] + ellipsis
		}
	}
	return s
}

// OneLine returns s as one line for a title, at most max bytes. Each run of
// spaces and control characters becomes one space. Invisible characters such as
// direction marks are removed. Longer text is shortened as by [Shorten].
//
// OneLine reads at most the first 4*max bytes of s. If text is missing, the
// line ends with "…". Package redact uses this mark to find secrets that are
// cut off.
func OneLine(s string, max int) string {
	s, more := Cut(s, 4*max)
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	s = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
	if more && len(s) <= max { // text is missing, but s fits, so Shorten would add no "…"
		s += ellipsis
	}
	return Shorten(s, max)
}
