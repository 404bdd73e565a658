package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/internal/text"
)

// Limits of a value.
const (
	maxDepth = 64
	MaxKeys  = 10_000 // members of one object

	// MaxElements is the maximum number of elements of an array, except in
	// values that are passed on unparsed.
	MaxElements = 10_000
)

// Check accepts exactly one JSON value that every JSON parser understands in
// the same way: valid UTF-8 without lone surrogates, no duplicate keys in an
// object, numbers that fit a float64, no NUL in any string, bounded depth, and
// nothing after the value. It checks all of data, including the parts that
// callers pass on unparsed.
func Check(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("the body is not valid UTF-8")
	}
	s := &scanner{data: data}
	if err := s.value(0); err != nil {
		return err
	}
	s.space()
	if s.pos != len(data) {
		return s.bad("something follows the JSON value")
	}
	return nil
}

type scanner struct {
	data []byte
	pos  int
}

func (s *scanner) bad(why string) error {
	return fmt.Errorf("%s, at byte %d", why, s.pos)
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte that is not white space; zero at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos == len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

func (s *scanner) value(depth int) error {
	if depth > maxDepth {
		return s.bad(fmt.Sprintf("nested deeper than %d", maxDepth))
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
			s.pos += len(word)
			return nil
		}
	}
	return s.bad("not JSON")
}

func (s *scanner) object(depth int) error {
	s.pos++
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	seen := make(map[string]struct{})
	for {
		if s.peek() != '"' {
			return s.bad("a key is missing")
		}
		key, err := s.str()
		if err != nil {
			return err
		}
		if _, dup := seen[key]; dup {
			return s.bad("the key " + Quote(key) + " is there twice")
		}
		if seen[key] = struct{}{}; len(seen) > MaxKeys {
			return s.bad("an object has too many members")
		}
		if s.peek() != ':' {
			return s.bad("not JSON")
		}
		s.pos++
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if end, err := s.next('}'); end || err != nil {
			return err
		}
	}
}

func (s *scanner) array(depth int) error {
	s.pos++
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if end, err := s.next(']'); end || err != nil {
			return err
		}
	}
}

// next consumes the comma after a member or an element, or the closing
// character.
func (s *scanner) next(end byte) (ended bool, err error) {
	switch s.peek() {
	case ',':
		s.pos++
		return false, nil
	case end:
		s.pos++
		return true, nil
	}
	return false, s.bad("not JSON")
}

func (s *scanner) number() error {
	from := s.pos
	for s.pos < len(s.data) && strings.IndexByte("+-.0123456789eE", s.data[s.pos]) >= 0 {
		s.pos++
	}
	text := string(s.data[from:s.pos])
	if !validNumber(text) {
		return s.bad("not a JSON number")
	}
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return s.bad("a number is too big")
	}
	return nil
}

// validNumber checks the rules of JSON that strconv does not have: no leading
// zeros or plus, and digits on both sides of a point.
func validNumber(t string) bool {
	t = strings.TrimPrefix(t, "-")
	whole, rest := digits(t)
	if whole == 0 || whole > 1 && t[0] == '0' {
		return false
	}
	if strings.HasPrefix(rest, ".") {
		var n int
		if n, rest = digits(rest[1:]); n == 0 {
			return false
		}
	}
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		rest = rest[1:]
		if rest != "" && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		var n int
		if n, rest = digits(rest); n == 0 {
			return false
		}
	}
	return rest == ""
}

func digits(t string) (n int, rest string) {
	for n < len(t) && t[n] >= '0' && t[n] <= '9' {
		n++
	}
	return n, t[n:]
}

// str consumes a string and returns its value.
func (s *scanner) str() (string, error) {
	s.pos++
	from, plain := s.pos, true
	var out []byte
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			text := string(s.data[from:s.pos])
			s.pos++
			if plain {
				return text, nil
			}
			return string(append(out, text...)), nil
		case c < 0x20:
			return "", s.bad("a control character stands unescaped in a string")
		case c == '\\':
			out = append(out, s.data[from:s.pos]...)
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			out, plain, from = utf8.AppendRune(out, r), false, s.pos
		default:
			s.pos++
		}
	}
	return "", s.bad("a string does not end")
}

func (s *scanner) escape() (rune, error) {
	if s.pos+1 >= len(s.data) {
		return 0, s.bad("a string does not end")
	}
	c := s.data[s.pos+1]
	if c == 'u' {
		return s.unicode()
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return 0, s.bad("unknown escape")
	}
	s.pos += 2
	return rune("\"\\/\b\f\n\r\t"[i]), nil
}

func (s *scanner) unicode() (rune, error) {
	r, ok := s.hex()
	switch {
	case !ok:
		return 0, s.bad("unknown escape")
	case r == 0:
		return 0, s.bad("a string holds a NUL character, which agents refuse; remove it")
	case r < 0xD800 || r > 0xDFFF:
		return r, nil
	}
	low, ok := s.hex()
	if r > 0xDBFF || !ok || low < 0xDC00 || low > 0xDFFF {
		return 0, s.bad("a string holds half of a surrogate pair, which is no character")
	}
	return 0x10000 + (r-0xD800)<<10 + (low - 0xDC00), nil
}

// hex consumes \uXXXX.
func (s *scanner) hex() (rune, bool) {
	if s.pos+6 > len(s.data) || s.data[s.pos] != '\\' || s.data[s.pos+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.data[s.pos+2:s.pos+6]), 16, 16)
	if err != nil {
		return 0, false
	}
	s.pos += 6
	return rune(n), true
}

// Quote quotes a word of the client for an error. It shortens long words.
func Quote(s string) string {
	return strconv.QuoteToASCII(text.Shorten(s, 64))
}
