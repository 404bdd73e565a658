package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/runnel-dev/runnel/store"
)

// While a server is down, another program may have its port. So an open tab
// sends nothing before the program at its address has proved that it is the
// server that the browser logged in to: by a code over the tab's nonce and its
// origin, with a key that both have known since the login. The key is made of
// the hash that is kept of the browser's secret, and is of no other use.

// ProofKey returns the key with which the server proves to the browser of id
// that it is the server, in hexadecimal.
func ProofKey(id Identity) string { return hex.EncodeToString(proofKey(id.hash)) }

func proofKey(hash [32]byte) []byte { return code(hash[:], "runnel proof key") }

// Prove returns the proof for the browser with the credential login, in
// hexadecimal. It returns ErrInvalid if there is no such credential.
func (k *Keyring) Prove(ctx context.Context, login, origin, nonce string) (string, error) {
	ts, err := k.tokens.Tokens(ctx, store.TokenBrowser)
	if err != nil {
		return "", fmt.Errorf("look up credential: %w", err)
	}
	now := time.Now()
	for _, t := range ts {
		if t.ID == login && !expired(t, now) {
			return hex.EncodeToString(code(proofKey(t.Hash), "runnel proof\n"+origin+"\n"+nonce)), nil
		}
	}
	return "", ErrInvalid
}

// code authenticates a text.
func code(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, text) // never fails
	return mac.Sum(nil)
}
