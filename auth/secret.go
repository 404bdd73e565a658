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

// Halves are the secret of a browser. A browser sends a cookie to every port of
// a host, so a cookie alone proves little: whatever listens on another port may
// have received it. The page keeps the other half, which no other origin can
// read and which it sends nowhere else. Each is worth nothing without the
// other.
type Halves struct {
	Cookie string
	Key    string
}

// Secret returns the whole that [Keyring.Check] judges.
func (h Halves) Secret() string { return h.Cookie + "." + h.Key }

// SplitHalves returns what [Halves.Secret] made a whole of.
func SplitHalves(secret string) Halves {
	cookie, key, _ := strings.Cut(secret, ".")
	return Halves{cookie, key}
}

// digest returns what is kept of a secret, or of the two halves of one. ok is
// false for what cannot be one, before anything is hashed or looked up.
func digest(secret string) (hash [32]byte, ok bool) {
	first, second, two := strings.Cut(secret, ".")
	if !IsSecret(first) || two && !IsSecret(second) {
		return hash, false
	}
	return sha256.Sum256([]byte(secret)), true
}

// IsSecret reports whether a text has the form of a secret of this package.
func IsSecret(secret string) bool {
	if len(secret) != secretLen || !strings.HasPrefix(secret, prefix) {
		return false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(secret[len(prefix):])
	return err == nil
}
