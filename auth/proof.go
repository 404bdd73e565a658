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

// While a server is down, another program may listen on its port. An open tab
// therefore sends nothing until the program at its address has proved that it
// is the server to which the browser logged in.
//
// The proof is an HMAC over the tab's nonce and its origin. Its key is derived
// from the stored hash of the browser's secret. Server and browser have known
// it since the login, and it has no other use.

// ProofKey returns the key, in hexadecimal, with which the server proves its
// identity to the browser of id.
func ProofKey(id Identity) string { return hex.EncodeToString(proofKey(id.hash)) }

func proofKey(hash [32]byte) []byte { return code(hash[:], "runnel proof key") }

// Prove returns the proof, in hexadecimal, for the browser whose credential has
// the id login. It returns ErrInvalid if there is no such credential.
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

// code returns the HMAC-SHA256 of a text.
func code(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, text) // never fails
	return mac.Sum(nil)
}
