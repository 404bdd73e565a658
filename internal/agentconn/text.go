package agentconn

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Derive makes a UUID of ours from what an agent calls something, the same each time.
func Derive(provider, native string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(provider+" "+native)).String()
}

// Key makes a native id fit to be part of one of ours.
func Key(provider, native string) string {
	if len(native) > 100 || strings.ContainsFunc(native, func(r rune) bool { return r <= ' ' || r == '/' || r > '~' }) {
		return Derive(provider, native)
	}
	return native
}

// Digest is the hex SHA-256 of arguments.
func Digest(arguments []byte) string {
	sum := sha256.Sum256(arguments)
	return hex.EncodeToString(sum[:])
}

// OneLine makes text of an agent's fit for a title: one line of printable characters, at most max bytes.
func OneLine(s string, max int) string {
	s, _ = Cut(s, 4*max) // so that huge input costs nothing
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
	s, _ = Cut(s, max-len("…"))
	return s + "…"
}

// Cut returns at most max bytes of s, whole runes only, and whether that is less.
func Cut(s string, max int) (string, bool) {
	if len(s) <= max {
		return s, false
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max], true
}
