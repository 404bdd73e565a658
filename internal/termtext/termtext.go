// Package termtext makes untrusted text safe to show on a terminal.
//
// The output of an agent could move the cursor, overwrite a question, write to
// the clipboard or reverse the reading order. This package removes everything
// that is not plain text. That is control characters except tab and newline,
// escape sequences, control strings with their content, invisible characters,
// and characters that change the text direction.
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

// A Writer writes plain text to another writer. A write may end anywhere, even
// within a character or an escape sequence.
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

// Close ends the text. It drops an unfinished escape sequence, so that it
// cannot remove the beginning of the next text. It does not close the writer
// below.
func (w *Writer) Close() error {
	w.buf = w.f.end(w.buf[:0])
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.w.Write(w.buf)
	return err
}

// state is the position of the filter in an escape sequence.
type state int

const (
	plain    state = iota
	escape         // after ESC: intermediates, then one final character
	control        // after CSI: parameters and intermediates, then one final character
	str            // in OSC, DCS, APC, PM or SOS: until ST, BEL, CAN or SUB, or the end of the line
	strEnd         // in a control string, after ESC
	escapeIn       // after ESC and at least one intermediate
)

// A filter holds the state between two parts of a text. The zero value is the
// state at the start of a text.
type filter struct {
	state state
	held  [utf8.UTFMax]byte // start of a character whose end is in the next part
	n     int
}

func (f *filter) append(dst, src []byte) []byte {
	for f.n > 0 && len(src) > 0 {
		f.held[f.n] = src[0]
		f.n++
		src = src[1:]
		if n := f.n; utf8.FullRune(f.held[:n]) {
			// held is now a character, or bytes that cannot become one. In the
			// second case only the first byte is consumed, and run may hold the
			// others again.
			held := f.held
			f.n = 0
			dst = f.run(dst, held[:n])
		}
	}
	return f.run(dst, src)
}

// run filters src, which must begin at the start of a character.
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

// rune updates the state for r and appends r if it is text.
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
		return false // not an escape sequence; the caller handles r as other text
	}
	return true
}

// inString handles r in a control string, and reports whether r is part of it.
func (f *filter) inString(r rune) bool {
	ended := f.state == strEnd
	switch {
	case ended && r == '\\', r == '\a', r == '\u009c', r == 0x18, r == 0x1a:
		f.state = plain
		return true
	case r == '\n': // a terminal would continue the string, which could then hide a long text
		f.state = plain
		return false
	case r == 0x1b:
		f.state = strEnd
	case ended: // ESC without a backslash starts a new sequence and ends the string
		f.state = escape
		if !f.escaped(r) {
			return false
		}
	}
	return true
}

// introduces reports whether r begins a sequence, and sets the state
// accordingly.
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

// isText reports whether a terminal only displays r.
func isText(r rune) bool {
	switch {
	case r == '\t' || r == '\n':
		return true
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r): // C0, DEL, C1; bidi controls, zero-width, tags
		return false
	case r >= 0xE0000 && r <= 0xE0FFF: // invisible, including unassigned code points
		return false
	case r == 0xFE0E || r == 0xFE0F: // change how an emoji is drawn
		return true
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector): // fillers and others without a glyph
		return false
	}
	return true
}
