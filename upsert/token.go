package upsert

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// longRun is the maximum length in bytes of a run of non-space characters that
// counts as one token. A longer run (CJK text, base64) counts one token per
// four bytes.
const longRun = 16

// A counter counts the tokens of a text that arrives in pieces. The result does
// not depend on the boundaries of the pieces. The zero value is ready to use.
type counter struct {
	total int
	run   int    // bytes in the run of non-space characters at the end of the text
	carry string // first bytes of a rune that the next piece completes
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

// weight returns the number of tokens in a run of n bytes.
func weight(n int) int {
	switch {
	case n == 0:
		return 0
	case n <= longRun:
		return 1
	}
	return (n + 3) / 4
}
