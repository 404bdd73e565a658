package acp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// derive makes a UUID from what is the same each time.
func derive(native string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("acp "+native)).String()
}

// key makes a native id fit to be part of one of ours.
func key(native string) string {
	if len(native) > 100 || strings.ContainsFunc(native, func(r rune) bool { return r <= ' ' || r == '/' || r > '~' }) {
		return derive(native)
	}
	return native
}

// digest is the hex SHA-256 of arguments.
func digest(arguments []byte) string {
	sum := sha256.Sum256(arguments)
	return hex.EncodeToString(sum[:])
}

// oneLine makes text of the agent's fit for a title: one line of printable
// characters, at most max bytes.
func oneLine(s string, max int) string {
	s, _ = cut(s, 4*max) // so that huge input costs nothing
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	s = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) { // direction marks and other invisible ones
			return -1
		}
		return r
	}, s)
	if len(s) <= max {
		return s
	}
	s, _ = cut(s, max-len("…"))
	return s + "…"
}

// cut returns at most max bytes of s, whole runes only, and whether that is less.
func cut(s string, max int) (string, bool) {
	if len(s) <= max {
		return s, false
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max], true
}
