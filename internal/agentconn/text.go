package agentconn

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/internal/text"
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

// OneLine is [text.OneLine].
func OneLine(s string, max int) string { return text.OneLine(s, max) }

// Cut is [text.Cut].
func Cut(s string, max int) (string, bool) { return text.Cut(s, max) }
