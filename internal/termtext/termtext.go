// Package termtext makes text that others wrote safe to show on a terminal.
//
// What an agent prints may move the cursor, repaint a question, write the
// clipboard or reverse the order of what is read. This package removes
// everything that is not plain text: control characters but tab and newline,
// escape sequences and control strings with what they carry, and characters
// that are invisible or change the direction of others.
package termtext

import (
	"io"
	"unicode"
	"unicode/utf8"
)

// Clean returns s as plain text. Bytes that are not UTF-8 become U+FFFD.
func Clean(s string) string {
	var f filter
	out := f.append(make([]byte, 0, len(s)), []byte(s))
	return string(f.end(out))
}

// A Writer passes plain text on to another writer. Its input may be cut
// anywhere, also within a character or an escape sequence.
type Writer struct {
	w   io.Writer
	f   filter
	buf []byte
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	w.buf = w.f.append(w.buf[:0], p)
	if len(w.buf) > 0 {
		if _, err := w.w.Write(w.buf); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close ends the text; it does not close the writer below. An unfinished
// escape sequence ends with it, so one text cannot swallow the next.
func (w *Writer) Close() error {
	w.buf = w.f.end(w.buf[:0])
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.w.Write(w.buf)
	return err
}

// state is where in an escape sequence the filter is.
type state int

const (
	plain    state = iota
	escape         // after ESC: intermediates, then one final character
	control        // after CSI: parameters and intermediates, then one final character
	str            // in OSC, DCS, APC, PM or SOS: until ST, BEL, CAN or SUB, or the end of the line
	strEnd         // in a control string, after ESC
	escapeIn       // after ESC and at least one intermediate
)

// A filter is the text's state between two pieces. The zero value begins a
// text.
type filter struct {
	state state
	held  [utf8.UTFMax]byte // beginning of a character that the next piece ends
	n     int
}

func (f *filter) append(dst, src []byte) []byte {
	for f.n > 0 && len(src) > 0 {
		f.held[f.n] = src[0]
		f.n++
		src = src[1:]
		if n := f.n; utf8.FullRune(f.held[:n]) {
			// A character, or bytes that cannot become one; of those only the
			// first is spent, and run may hold the others again.
			held := f.held
			f.n = 0
			dst = f.run(dst, held[:n])
		}
	}
	return f.run(dst, src)
}

// run filters src, which begins at the start of a character.
func (f *filter) run(dst, src []byte) []byte {
	for len(src) > 0 {
		if !utf8.FullRune(src) {
			f.n = copy(f.held[:], src)
			return dst
		}
		r, size := utf8.DecodeRune(src)
		src = src[size:]
		dst = f.rune(dst, r)
	}
	return dst
}

func (f *filter) end(dst []byte) []byte {
	for range f.n {
		dst = f.rune(dst, utf8.RuneError)
	}
	*f = filter{}
	return dst
}

// rune moves the state on by r and appends r if it is text.
func (f *filter) rune(dst []byte, r rune) []byte {
	switch f.state {
	case plain:
	case escape, escapeIn:
		if f.escaped(r) {
			return dst
		}
	case control:
		if r >= 0x20 && r <= 0x3f {
			return dst
		}
		f.state = plain
		if r >= 0x40 && r <= 0x7e {
			return dst
		}
	case str, strEnd:
		if f.inString(r) {
			return dst
		}
	}
	if f.introduces(r) {
		return dst
	}
	switch {
	case r == '\u2028' || r == '\u2029': // line and paragraph separator
		return append(dst, '\n')
	case isText(r):
		return utf8.AppendRune(dst, r)
	}
	return dst
}

// escaped handles r after ESC, and reports whether r is part of the sequence.
func (f *filter) escaped(r rune) bool {
	first := f.state == escape
	f.state = plain
	switch {
	case first && r == '[':
		f.state = control
	case first && (r == ']' || r == 'P' || r == '_' || r == '^' || r == 'X'):
		f.state = str
	case r >= 0x20 && r <= 0x2f:
		f.state = escapeIn
	case r >= 0x30 && r <= 0x7e:
	default:
		return false // not a sequence after all; r is looked at by itself
	}
	return true
}

// inString handles r in a control string, and reports whether it is part of it.
func (f *filter) inString(r rune) bool {
	ended := f.state == strEnd
	switch {
	case ended && r == '\\', r == '\a', r == '\u009c', r == 0x18, r == 0x1a:
		f.state = plain
		return true
	case r == '\n': // a terminal would go on; the text that it hides may be long
		f.state = plain
		return false
	case r == 0x1b:
		f.state = strEnd
	case ended: // ESC and something else: the string was cut short
		f.state = escape
		if !f.escaped(r) {
			return false
		}
	}
	return true
}

// introduces reports whether r begins a sequence, and remembers which.
func (f *filter) introduces(r rune) bool {
	switch r {
	case 0x1b:
		f.state = escape
	case 0x9b: // CSI
		f.state = control
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f: // DCS, SOS, OSC, PM, APC
		f.state = str
	default:
		return false
	}
	return true
}

// isText reports whether a terminal shows r and does nothing else with it.
func isText(r rune) bool {
	switch {
	case r == '\t' || r == '\n':
		return true
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r): // C0, DEL, C1; bidi controls, zero-width, tags
		return false
	case r >= 0xE0000 && r <= 0xE0FFF: // invisible, also where unassigned
		return false
	}
	return true
}
