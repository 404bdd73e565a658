package claude

import (
	"bufio"
	"io"
	"unicode/utf8"
)

// shortener reads lines of JSON and cuts long strings in them, so that a line
// with a string of any size fits into bounded memory. It does not check the
// JSON.
type shortener struct {
	src *bufio.Reader
	max int // bytes of a string that are kept, as written in the JSON

	inString bool
	escape   int  // state within an escape sequence, see escapeKind; 0 outside
	length   int  // bytes of the current string so far
	cut      bool // the rest of the string is dropped
}

func newShortener(r io.Reader, max int) *shortener {
	return &shortener{src: bufio.NewReaderSize(r, 64<<10), max: max}
}

// Read implements [io.Reader].
func (s *shortener) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if _, err := s.src.Peek(1); err != nil {
			return 0, err
		}
		in, err := s.src.Peek(min(s.src.Buffered(), len(p)))
		if err != nil {
			return 0, err
		}
		n := 0
		for _, b := range in {
			if s.keeps(b) {
				p[n] = b
				n++
			}
		}
		if _, err := s.src.Discard(len(in)); err != nil {
			return 0, err
		}
		if n > 0 {
			return n, nil
		}
	}
}

// keeps handles the next byte and reports whether to keep it.
func (s *shortener) keeps(b byte) bool {
	switch {
	case b == '\n': // a string never spans lines, so a damaged line does not affect the next one
		s.inString, s.escape = false, 0
		return true
	case !s.inString:
		if b == '"' {
			s.inString, s.length, s.cut = true, 0, false
		}
		return true
	case s.escape == 0 && b == '"':
		s.inString = false
		return true
	}
	// Cut only where a character begins.
	s.cut = s.cut || s.length >= s.max && s.escape == 0 && utf8.RuneStart(b)
	s.length++
	s.follow(b)
	return !s.cut
}

// escapeKind is the state after a backslash, before the byte that names the
// escape sequence. States 1 to 4 count the remaining digits of \u.
const escapeKind = 5

// follow updates the escape state with the next byte of a string.
func (s *shortener) follow(b byte) {
	switch {
	case s.escape == escapeKind && b == 'u':
		s.escape = 4
	case s.escape == escapeKind:
		s.escape = 0
	case s.escape > 0:
		s.escape--
	case b == '\\':
		s.escape = escapeKind
	}
}
