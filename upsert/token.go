package upsert

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// longRun is the length in bytes up to which a run of non-space is one token.
// Longer ones (CJK text, base64) count a token for every four bytes.
const longRun = 16

// A counter counts the tokens of a text that arrives in pieces. Where the
// pieces are cut makes no difference. The zero value is ready to use.
type counter struct {
	total int
	run   int    // bytes of the run of non-space that the text ends in
	carry string // beginning of a rune that the next piece ends
}

func (c *counter) add(s string) {
	if c.carry != "" {
		s, c.carry = c.carry+s, ""
	}
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			if !utf8.FullRuneInString(s[i:]) {
				c.carry = strings.Clone(s[i:])
				return
			}
			r, n = utf8.DecodeRuneInString(s[i:])
		}
		i += n
		if unicode.IsSpace(r) {
			c.run = 0
			continue
		}
		before := weight(c.run)
		c.run += n
		c.total += weight(c.run) - before
	}
}

// weight is how many tokens a run of n bytes counts.
func weight(n int) int {
	switch {
	case n == 0:
		return 0
	case n <= longRun:
		return 1
	}
	return (n + 3) / 4
}
