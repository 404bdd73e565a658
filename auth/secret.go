package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// prefix lets secret scanners and our own redaction recognise a secret.
const prefix = "rnl_"

const secretLen = len(prefix) + 43 // 32 bytes in unpadded base64url

// newSecret returns a new secret of 32 random bytes, in text form.
func newSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Halves are the two halves of a browser's secret. Neither is valid without the
// other.
//
// A browser sends a cookie to every port of a host, so a program on another
// port may have received the cookie. The page stores the other half, which no
// other origin can read, and sends it only to the server.
type Halves struct {
	Cookie string
	Key    string
}

// Secret returns the complete secret, for [Keyring.Check].
func (h Halves) Secret() string { return h.Cookie + "." + h.Key }

// SplitHalves is the inverse of [Halves.Secret].
func SplitHalves(secret string) Halves {
	cookie, key, _ := strings.Cut(secret, ".")
	return Halves{cookie, key}
}

// digest returns the hash that is stored of a secret, which may consist of two
// halves. ok is false if the text cannot be a secret; it is then neither hashed
// nor looked up.
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
