// Package jsonscan reads small JSON objects of a known form without allocation.
//
// A [Scanner] accepts less than encoding/json does, and never more: each object
// has only members that the caller names, each at most once. The caller decodes
// an object that the Scanner does not accept with encoding/json, so a line means
// the same in both ways.
package jsonscan

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a value that Skip accepts.
const maxDepth = 32

// A Scanner reads one JSON value. After the first failure its methods return
// zero values, and Done returns false.
type Scanner struct {
	data   []byte
	at     int
	failed bool
}

// New returns a Scanner at the beginning of data.
func New(data []byte) Scanner { return Scanner{data: data} }

// Fail rejects the data. The caller uses it for a value that it does not
// expect.
func (s *Scanner) Fail() { s.failed = true }

// Done reports whether the whole data was read without a failure.
func (s *Scanner) Done() bool {
	s.space()
	return !s.failed && s.at == len(s.data)
}

// Object reads an object. For each member it calls value with the index of the
// member's name in names, and value must read the member's value. Object fails
// on a name that is not in names, and on a name that occurs twice. names has at
// most 64 elements.
func (s *Scanner) Object(names []string, value func(i int)) {
	if !s.take('{') {
		return
	}
	if s.peek() == '}' {
		s.at++
		return
	}
	for seen := uint64(0); !s.failed; {
		i := s.name(names)
		if i < 0 || seen&(1<<i) != 0 || !s.take(':') {
			s.failed = true
			return
		}
		seen |= 1 << i
		value(i)
		if s.peek() != ',' {
			s.take('}')
			return
		}
		s.at++
	}
}

// name reads a member's name and returns its index in names, or -1.
func (s *Scanner) name(names []string) int {
	key := s.Text()
	for i, name := range names {
		if key.Is(name) {
			return i
		}
	}
	return -1
}

// Null reads null and returns true if the next value is null. Otherwise it
// reads nothing.
func (s *Scanner) Null() bool {
	return s.peek() == 'n' && s.word("null")
}

// Int reads a whole number that is not negative.
func (s *Scanner) Int() int {
	s.space()
	begin := s.at
	s.digits()
	n, err := strconv.Atoi(string(s.data[begin:s.at]))
	if err != nil || s.data[begin] == '0' && s.at > begin+1 || s.more('.', 'e', 'E') {
		s.failed = true
		return 0
	}
	return n
}

// A Text is a string in JSON, as it is written.
type Text struct {
	raw     []byte // between the quotation marks; valid UTF-8
	escaped bool
}

// Is reports whether t is written like the plain text want.
func (t Text) Is(want string) bool { return !t.escaped && string(t.raw) == want }

// Text reads a string. The result refers to the data of the Scanner.
func (s *Scanner) Text() (t Text) {
	if !s.take('"') {
		return Text{}
	}
	begin, ascii := s.at, true
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			t.raw = s.data[begin:s.at]
			s.at++
			if !ascii && !utf8.Valid(t.raw) {
				s.failed = true
				return Text{}
			}
			return t
		case c == '\\':
			t.escaped = true
			if !s.escape() {
				s.failed = true
				return Text{}
			}
			continue
		case c < ' ':
			s.failed = true
			return Text{}
		case c >= utf8.RuneSelf:
			ascii = false
		}
		s.at++
	}
	s.failed = true
	return Text{}
}

// escape moves past an escape sequence. It returns false if the sequence is not
// valid.
func (s *Scanner) escape() bool {
	rest := s.data[s.at:]
	if len(rest) < 2 {
		return false
	}
	switch rest[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return true
	case 'u':
		if _, ok := unit(rest); ok {
			s.at += 6
			return true
		}
	}
	return false
}

// unit returns the UTF-16 code unit of the escape \uXXXX at the start of b.
func unit(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// String returns the text that t stands for.
func (t Text) String() string {
	if !t.escaped {
		return string(t.raw)
	}
	var short [512]byte // on the stack: most texts need one allocation only
	return string(t.unescape(short[:0]))
}

// Known returns known if t stands for it and is written like it, and otherwise
// what String returns. It saves the copy of a text that the caller expects.
func (t Text) Known(known string) string {
	if t.Is(known) {
		return known
	}
	return t.String()
}

// simple maps the character after a backslash to the one that it stands for.
var simple = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (t Text) unescape(out []byte) []byte {
	for b := t.raw; len(b) > 0; {
		switch {
		case b[0] != '\\':
			out = append(out, b[0])
			b = b[1:]
		case b[1] != 'u':
			out = append(out, simple[b[1]])
			b = b[2:]
		default:
			r, _ := unit(b)
			b = b[6:]
			if utf16.IsSurrogate(r) {
				second, _ := unit(b)
				if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
					b = b[6:]
				}
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// Skip reads a value of any type.
func (s *Scanner) Skip() { s.skip(maxDepth) }

func (s *Scanner) skip(depth int) {
	switch c := s.peek(); {
	case depth == 0:
		s.failed = true
	case c == '"':
		s.Text()
	case c == '{':
		s.list(depth, '}', true)
	case c == '[':
		s.list(depth, ']', false)
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	default:
		s.number()
	}
}

// list reads an object or an array.
func (s *Scanner) list(depth int, end byte, named bool) {
	s.at++
	if s.peek() == end {
		s.at++
		return
	}
	for !s.failed {
		if named {
			s.Text()
			s.take(':')
		}
		s.skip(depth - 1)
		if s.peek() != ',' {
			s.take(end)
			return
		}
		s.at++
	}
}

func (s *Scanner) number() {
	if s.more('-') {
		s.at++
	}
	if s.more('0') {
		s.at++
	} else {
		s.digits()
	}
	if s.more('.') {
		s.at++
		s.digits()
	}
	if s.more('e', 'E') {
		s.at++
		if s.more('+', '-') {
			s.at++
		}
		s.digits()
	}
}

// digits reads at least one digit.
func (s *Scanner) digits() {
	begin := s.at
	for s.at < len(s.data) && '0' <= s.data[s.at] && s.data[s.at] <= '9' {
		s.at++
	}
	if s.at == begin {
		s.failed = true
	}
}

// more reports whether the next byte is one of set.
func (s *Scanner) more(set ...byte) bool {
	if s.at < len(s.data) {
		for _, c := range set {
			if s.data[s.at] == c {
				return true
			}
		}
	}
	return false
}

func (s *Scanner) word(w string) bool {
	if len(s.data)-s.at < len(w) || string(s.data[s.at:s.at+len(w)]) != w {
		s.failed = true
		return false
	}
	s.at += len(w)
	return true
}

// take reads white space and then the byte c.
func (s *Scanner) take(c byte) bool {
	if s.peek() != c {
		s.failed = true
		return false
	}
	s.at++
	return true
}

// peek reads white space and returns the next byte, or 0 after a failure or at
// the end.
func (s *Scanner) peek() byte {
	s.space()
	if s.failed || s.at == len(s.data) {
		return 0
	}
	return s.data[s.at]
}

func (s *Scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}
