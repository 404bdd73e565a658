// Package seal encrypts secrets that are stored among readable data. The key is
// in a separate file.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/runnel-dev/runnel/internal/private"
)

// A Key encrypts and decrypts. Its methods are safe for concurrent use.
type Key struct {
	path string
	id   string // identifies the key without revealing it
	text string // content of the file
	aead cipher.AEAD
}

const keySize = 32 // bytes, for AES-256

// Load returns the key in the file at path. If the file does not exist, Load
// creates it with a new key. It fails if other users can read or replace the
// file.
func Load(path string) (*Key, error) {
	text, err := private.ReadFile(path, private.Nothing, 2*keySize+1)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(path); err != nil {
			return nil, fmt.Errorf("make the key %s: %w", path, err)
		}
		text, err = private.ReadFile(path, private.Nothing, 2*keySize+1)
	}
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	secret, err := hex.DecodeString(string(text))
	if err != nil || len(secret) != keySize {
		return nil, fmt.Errorf("%s is no key of runnel, which has %d hexadecimal digits; name another file", path, 2*keySize)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte("runnel key id "), secret...))
	return &Key{path: path, id: hex.EncodeToString(sum[:4]), text: string(text), aead: aead}, nil
}

// makeKey writes a new key to a file. If another process creates the file first,
// that file stays.
func makeKey(path string) error {
	var secret [keySize]byte
	rand.Read(secret[:]) // never fails; on an error crypto/rand crashes the process
	return private.Create(path, []byte(hex.EncodeToString(secret[:])+"\n"))
}

// Text returns the key as its file contains it. Callers redact it from output.
func (k *Key) Text() string { return k.text }

// prefix begins each result of Seal. The id of the key and a dot follow.
const prefix = "sealed:"

// Seal encrypts plain. The result is text without quotes or control characters.
func (k *Key) Seal(plain []byte) string {
	return prefix + k.id + "." + base64.RawURLEncoding.EncodeToString(k.aead.Seal(nil, nil, plain, []byte(prefix)))
}

// Open decrypts a result of [Key.Seal]. If another key encrypted it, the error
// names that key.
func (k *Key) Open(sealed string) ([]byte, error) {
	id, text, ok := strings.Cut(strings.TrimPrefix(sealed, prefix), ".")
	if !ok || !strings.HasPrefix(sealed, prefix) {
		return nil, errors.New("it is not encrypted as runnel does")
	}
	if id != k.id {
		return nil, fmt.Errorf("it is encrypted with the key %s, and %s holds the key %s; put the other file back", id, k.path, k.id)
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("it is damaged")
	}
	plain, err := k.aead.Open(nil, nil, data, []byte(prefix))
	if err != nil {
		return nil, errors.New("it is damaged")
	}
	return plain, nil
}
