package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// prefix makes a secret recognisable to scanners, and to our own redaction.
const prefix = "rnl_"

const secretLen = len(prefix) + 43 // 32 bytes in unpadded base64url

// newSecret returns 32 random bytes in the form in which they travel.
func newSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// digest returns what is kept of a secret. ok is false for what cannot be one,
// before anything is hashed or looked up.
func digest(secret string) (hash [32]byte, ok bool) {
	if len(secret) != secretLen || !strings.HasPrefix(secret, prefix) {
		return hash, false
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(secret[len(prefix):]); err != nil {
		return hash, false
	}
	return sha256.Sum256([]byte(secret)), true
}
