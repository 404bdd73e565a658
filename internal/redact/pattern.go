package redact

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/event"
)

// A scanner is the stage that finds well-known kinds of keys by their form. It
// holds back at most the bytes that decide about one candidate.
type scanner struct {
	held   []byte
	before [6]byte // the bytes before held
	body   *class  // bytes of the secret that is being skipped
	key    *pem    // the private key that is being skipped
	size   int     // bytes of the text so far
}

// class is a set of bytes.
type class [256]bool

func chars(s string) *class {
	c := new(class)
	for i := range len(s) {
		c[s[i]] = true
	}
	return c
}

const (
	digits  = "0123456789"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters = upper + "abcdefghijklmnopqrstuvwxyz"
)

var (
	alnum  = chars(letters + digits)
	word   = chars(letters + digits + "_")
	dashed = chars(letters + digits + "-")
	token  = chars(letters + digits + "_-")
	dotted = chars(letters + digits + "_-.=")
	label  = chars(upper + digits + " ")
	hexes  = chars(digits + "abcdefABCDEF")

	// value is the set of bytes in a header's secret.
	value = func() *class {
		c := new(class)
		for b := '!'; b <= '~'; b++ {
			c[b] = !strings.ContainsRune("\"'`\\,;<>(){}", b)
		}
		return c
	}()
)

// A verdict is the result of a check at one position.
type verdict int

const (
	no   verdict = iota
	more         // more text is required to decide
	yes
)

func (s *scanner) append(dst, p []byte) []byte {
	s.size += len(p)
	return s.scan(dst, p, false)
}

// bounded is the size from which a text may have been cut at its end. The bound
// of an event cuts a text without an ellipsis.
const bounded = event.MaxOutput - utf8.UTFMax

func (s *scanner) end(dst []byte) []byte {
	if s.size > bounded {
		before := len(dst)
		dst = s.scan(dst, []byte(ellipsis), true)
		if s.key == nil { // a private key has consumed the ellipsis
			dst = dst[:max(before, len(dst)-len(ellipsis))]
		}
	} else {
		dst = s.scan(dst, nil, true)
	}
	*s = scanner{held: s.held[:0]}
	return dst
}

func (s *scanner) scan(dst, p []byte, final bool) []byte {
	buf := p
	if len(s.held) > 0 {
		s.held = append(s.held, p...)
		buf = s.held
	}
	i := 0
	for i < len(buf) {
		if s.body != nil || s.key != nil {
			i = s.skip(buf, i)
			continue
		}
		j := i
		for j < len(buf) && !mayBegin(buf, j) {
			j++
		}
		dst = append(dst, buf[i:j]...)
		if i = j; j == len(buf) {
			break
		}
		v, keep, past := s.judge(buf, j, final)
		if v == more {
			break
		}
		if v == no {
			dst = append(dst, buf[j])
			i++
			continue
		}
		dst = append(append(dst, buf[j:j+keep]...), Marker...)
		i = j + past
	}
	s.remember(buf[:i])
	s.held = append(s.held[:0], buf[i:]...)
	return dst
}

// skip skips the rest of a secret and returns the index of its end.
func (s *scanner) skip(buf []byte, i int) int {
	if s.key != nil {
		for ; i < len(buf); i++ {
			if s.key.ends(buf[i]) {
				s.key = nil
				return i + 1
			}
		}
		return i
	}
	for i < len(buf) && s.body[buf[i]] {
		i++
	}
	if i < len(buf) {
		s.body = nil
	}
	return i
}

func (s *scanner) remember(gone []byte) {
	for _, b := range gone[max(0, len(gone)-len(s.before)):] {
		copy(s.before[:], s.before[1:])
		s.before[len(s.before)-1] = b
	}
}

// judge decides whether a secret begins at buf[at]. If so, the first keep bytes
// are not secret, and s.body or s.key describes what follows the first past
// bytes.
func (s *scanner) judge(buf []byte, at int, final bool) (v verdict, keep, past int) {
	text := buf[at:]
	undecided := false
	for _, l := range byFirst[text[0]] {
		switch v, past := l.at(text, final); v {
		case yes:
			if l.alone && s.inWord(buf, at) {
				continue
			}
			s.body = l.body
			return yes, 0, past
		case more:
			undecided = undecided || !l.alone || !s.inWord(buf, at)
		}
	}
	if text[0] == '-' {
		v := beginsKey(text, final)
		if v == yes {
			s.key = new(pem)
		}
		return v, 0, 0
	}
	switch {
	case text[0] == ':':
		return address(text, final)
	case text[0] == 'e' && !s.inWord(buf, at):
		v, past := webToken(text, final)
		if v == yes {
			s.body = dotted
		}
		if v != no {
			return v, 0, past
		}
	}
	for _, h := range headers {
		switch v, keep := header(text, h, final); v {
		case yes:
			s.body = value
			return yes, keep, keep
		case more:
			undecided = true
		}
	}
	if undecided {
		return more, 0, 0
	}
	return no, 0, 0
}

// inWord reports whether the character before buf[at] belongs to a word. The
// end of an escape sequence such as \n, %20 or \u003d does not belong to one.
func (s *scanner) inWord(buf []byte, at int) bool {
	prev := func(n int) byte {
		if at-n >= 0 {
			return buf[at-n]
		}
		return s.before[len(s.before)+at-n]
	}
	switch {
	case !alnum[prev(1)], prev(2) == '\\', prev(3) == '%' && hexes[prev(2)] && hexes[prev(1)]:
		return false
	}
	return prev(6) != '\\' || prev(5) != 'u' || !hexes[prev(4)] || !hexes[prev(3)] || !hexes[prev(2)] || !hexes[prev(1)]
}

// leastCutOff is the minimum length of a key's body before an ellipsis to count
// as a secret. A shorter part is useless to an attacker.
const leastCutOff = 6

// cutOff decides whether an ellipsis at the beginning of rest has cut a
// possible secret of n bytes.
func cutOff(n int, rest []byte, final bool) verdict {
	switch {
	case n < leastCutOff:
		return no
	case bytes.HasPrefix(rest, []byte(ellipsis)):
		return yes
	case !final && strings.HasPrefix(ellipsis, string(rest)):
		return more
	}
	return no
}

// at decides whether text begins with a key of this kind. past is the number of
// bytes that decided it.
func (l keyKind) at(text []byte, final bool) (v verdict, past int) {
	n := min(len(text), len(l.prefix))
	if string(text[:n]) != l.prefix[:n] {
		return no, 0
	}
	for n < len(text) && n-len(l.prefix) < l.min && l.body[text[n]] {
		n++
	}
	switch {
	case n-len(l.prefix) >= l.min:
		return yes, n
	case n == len(text) && !final:
		return more, 0
	}
	return cutOff(n-len(l.prefix), text[n:], final), n
}

// The minimum lengths of a header's secret. Ordinary prose can follow a colon
// too.
const (
	minBare    = 16
	minSchemed = 6
	maxQuotes  = 4 // quotes, spaces and backslashes around the colon
)

// header decides whether text begins with the named header and a secret, which
// begins after keep bytes.
func header(text []byte, name string, final bool) (v verdict, keep int) {
	open := no
	if !final {
		open = more
	}
	for i := range len(name) {
		if i == len(text) {
			return open, 0
		}
		if text[i]|0x20 != name[i] {
			return no, 0
		}
	}
	i := quotes(text, len(name))
	if i == len(text) {
		return open, 0
	}
	if text[i] != ':' && text[i] != '=' {
		return no, 0
	}
	i = quotes(text, i+1)
	need := minBare
	for _, scheme := range []string{"bearer", "basic", "token"} {
		n := 0
		for n < len(scheme) && i+n < len(text) && text[i+n]|0x20 == scheme[n] {
			n++
		}
		if i+n == len(text) {
			return open, 0
		}
		if n == len(scheme) && text[i+n] == ' ' {
			need, i = minSchemed, i+n+1
			break
		}
	}
	n := 0
	for n < need && i+n < len(text) && value[text[i+n]] {
		n++
	}
	switch {
	case n > 0 && text[i] == '$': // a variable name
		return no, 0
	case n == need:
		return yes, i
	case i+n == len(text):
		return open, 0
	}
	return cutOff(n, text[i+n:], final), i
}

func quotes(text []byte, i int) int {
	for n := 0; n < maxQuotes && i < len(text) && strings.IndexByte("\"' \t\\", text[i]) >= 0; n++ {
		i++
	}
	return i
}

// pem finds the end of a private key.
type pem struct {
	dashes int // in a row
	end    int // number of matched letters of "END" after five dashes
	ending int // bytes since "END"
	run    int // length of the current run of key characters
	idle   int // bytes since the last long run
}

const (
	pemBegin = "-----BEGIN "
	maxLabel = 48
	longRun  = 24
	// maxIdle bounds the bytes without a run of key characters, such as the
	// headers of an encrypted key. Beyond it the text only mentions keys.
	maxIdle = 160
)

func beginsKey(text []byte, final bool) verdict {
	open := no
	if !final {
		open = more
	}
	n := min(len(text), len(pemBegin))
	if string(text[:n]) != pemBegin[:n] {
		return no
	}
	if n < len(pemBegin) {
		return open
	}
	for n-len(pemBegin) < maxLabel && n < len(text) && label[text[n]] {
		n++
	}
	switch name := strings.TrimSuffix(string(text[len(pemBegin):n]), " BLOCK"); {
	case n == len(text):
		return open
	case text[n] == '-' && strings.HasSuffix(name, "PRIVATE KEY"):
		return yes
	}
	return no
}

// ends reports whether b is the last byte of the key.
func (k *pem) ends(b byte) bool {
	if k.ending > 0 { // in "-----END … PRIVATE KEY-----"
		k.ending++
		if b == '-' {
			k.dashes++
		}
		return k.dashes == 5 || k.ending > maxLabel+8
	}
	if alnum[b] || b == '+' || b == '/' || b == '=' {
		k.run++
	} else {
		k.run = 0
	}
	if k.idle++; k.run >= longRun {
		k.idle = 0
	}
	switch {
	case b == '-':
		k.dashes, k.end = k.dashes+1, 0
	case k.dashes >= 5 && b == "END"[k.end]:
		if k.end++; k.end == 3 {
			k.ending, k.dashes = 1, 0
		}
	default:
		k.dashes, k.end = 0, 0
	}
	return k.idle > maxIdle
}
