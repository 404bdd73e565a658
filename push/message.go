package push

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"
)

const (
	saltSize   = 16     // bytes
	secretSize = 16     // bytes of Subscription.Auth
	plainSize  = 128    // bytes of every note, padded, so that its length does not reveal its kind
	recordSize = 4096   // bytes; a push service must accept a message of this size
	gcmTagSize = 16     // bytes
	delimiter  = "\x02" // ends the content of the last record
	coding     = "aes128gcm"
)

// contact tells a push service where to learn about the sender. Some services
// reject messages without it.
const contact = "https://github.com/runnel-dev/runnel"

// tokenLife is how long a push service may accept a token. At most a day is
// allowed.
const tokenLife = 12 * time.Hour

func checkKeys(sub Subscription) error {
	if _, err := ecdh.P256().NewPublicKey(sub.P256dh); err != nil {
		return errors.New("p256dh: want an uncompressed point of the curve P-256, in base64url")
	}
	if len(sub.Auth) != secretSize {
		return fmt.Errorf("auth: want %d bytes, in base64url", secretSize)
	}
	return nil
}

// encoded returns the content of a note.
func encoded(kind NoteKind) ([]byte, error) {
	return json.Marshal(struct {
		Kind NoteKind `json:"kind"`
	}{kind})
}

// encryptFor encrypts a note for a browser, as RFC 8291 describes.
func encryptFor(plain []byte, sub Subscription) ([]byte, error) {
	own, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	var salt [saltSize]byte
	rand.Read(salt[:]) // never fails; on an error crypto/rand crashes the process
	return encrypt(plain, sub, own, salt, plainSize)
}

// encrypt returns one record of the content coding aes128gcm (RFC 8188) whose
// key is that of RFC 8291. It pads plain to size bytes. own and salt must be
// fresh.
func encrypt(plain []byte, sub Subscription, own *ecdh.PrivateKey, salt [saltSize]byte, size int) ([]byte, error) {
	browser, err := ecdh.P256().NewPublicKey(sub.P256dh)
	if err != nil {
		return nil, err
	}
	shared, err := own.ECDH(browser)
	if err != nil {
		return nil, err
	}
	public := own.PublicKey().Bytes()
	info := "WebPush: info\x00" + string(sub.P256dh) + string(public)
	master, err := hkdf.Key(sha256.New, shared, sub.Auth, info, 32)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, master, salt[:], "Content-Encoding: "+coding+"\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Key(sha256.New, master, salt[:], "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	padded := append([]byte(nil), plain...)
	padded = append(padded, delimiter...)
	padded = append(padded, make([]byte, max(0, size-len(plain)))...)
	if len(padded)+gcmTagSize > recordSize {
		return nil, errors.New("the note is too long")
	}
	out := append([]byte(nil), salt[:]...)
	out = binary.BigEndian.AppendUint32(out, recordSize)
	out = append(out, byte(len(public)))
	out = append(out, public...)
	return aead.Seal(out, nonce, padded, nil), nil
}

// authorization returns the header by which a push service recognises this
// server (RFC 8292).
func authorization(key *ecdsa.PrivateKey, endpoint string, now time.Time) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(struct {
		Audience string `json:"aud"`
		Expires  int64  `json:"exp"`
		Subject  string `json:"sub"`
	}{u.Scheme + "://" + u.Host, now.Add(tokenLife).Unix(), contact})
	if err != nil {
		return "", err
	}
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64([]byte(`{"typ":"JWT","alg":"ES256"}`)) + "." + b64(claims)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return "", err
	}
	var signature [64]byte
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	public, err := publicOf(key)
	if err != nil {
		return "", err
	}
	return "vapid t=" + text + "." + b64(signature[:]) + ", k=" + public, nil
}

// topic returns the name under which a push service replaces an undelivered
// note by the next of its kind. It tells the service nothing.
func topic(sub Subscription, kind NoteKind) string {
	sum := sha256.Sum256([]byte("runnel push topic\n" + string(sub.Auth) + "\n" + string(kind)))
	return base64.RawURLEncoding.EncodeToString(sum[:24]) // 32 characters, which is the maximum
}
