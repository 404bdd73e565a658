package proc

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

const (
	esc = 0x1b
	bel = 0x07
)

// clean returns a copy of text as valid UTF-8 that is safe to show in a
// terminal. It removes control characters except tab and newline, escape
// sequences with their contents, and characters that are invisible or change
// the writing direction. A lone carriage return becomes a newline.
func clean(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == esc:
			n += escape(text[n:])
		case r == 0x9b: // the one-character forms of ESC [ and of the other introducers
			n += control(text[n:])
		case r == 0x90, r == 0x98, r == 0x9d, r == 0x9e, r == 0x9f:
			n += osCommand(text[n:])
		case r == '\r' && (len(text) == n || text[n] != '\n'):
			out = append(out, '\n')
		case r == '\n' || r == '\t' || visible(r):
			out = utf8.AppendRune(out, r) // invalid bytes become U+FFFD
		}
		text = text[n:]
	}
	return out
}

func visible(r rune) bool {
	return !unicode.Is(unicode.C, r) || r == utf8.RuneError || unicode.Is(unicode.Co, r)
}

// escape returns the length of an escape sequence after its ESC.
func escape(s []byte) int {
	if len(s) == 0 {
		return 0
	}
	switch s[0] {
	case '[':
		return 1 + control(s[1:])
	case ']', 'P', 'X', '^', '_':
		return 1 + osCommand(s[1:])
	}
	n := 0
	for n < len(s) && s[n] >= 0x20 && s[n] <= 0x2f {
		n++
	}
	if n < len(s) && s[n] >= 0x30 && s[n] <= 0x7e {
		n++
	}
	return n
}

// control returns the length of a control sequence after its introducer: its
// parameters and its final character.
func control(s []byte) int {
	n := 0
	for n < len(s) && s[n] >= 0x20 && s[n] <= 0x3f {
		n++
	}
	if n < len(s) && s[n] >= 0x40 && s[n] <= 0x7e {
		n++
	}
	return n
}

// osCommand returns the length of a string command after its introducer,
// including its terminator. A command without a terminator ends at the end of
// its line.
func osCommand(s []byte) int {
	for i := range s {
		switch {
		case s[i] == '\n':
			return i
		case s[i] == bel:
			return i + 1
		case s[i] == esc && i+1 < len(s) && s[i+1] == '\\', bytes.HasPrefix(s[i:], []byte("\u009c")):
			return i + 2
		}
	}
	return len(s)
}
