package push

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"
)

func unb64(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The example of RFC 8291, section 5.
func TestEncryptionIsThatOfTheStandard(t *testing.T) {
	own, err := ecdh.P256().NewPrivateKey(unb64(t, "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
	if err != nil {
		t.Fatal(err)
	}
	sub := Subscription{
		P256dh: unb64(t, "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
		Auth:   unb64(t, "BTBZMqHH6r4Tts7J_aSIgg"),
	}
	got, err := encrypt([]byte("When I grow up, I want to be a watermelon"), sub, own, [16]byte(unb64(t, "DGv6ra1nlYgDCS1FRnbzlw")), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
	if b := base64.RawURLEncoding.EncodeToString(got); b != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

// A device is a browser that has subscribed.
type device struct {
	key *ecdh.PrivateKey
	Subscription
}

func newDevice(t *testing.T, endpoint string) device {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	auth := make([]byte, secretSize)
	rand.Read(auth)
	return device{key, Subscription{Endpoint: endpoint, P256dh: key.PublicKey().Bytes(), Auth: auth}}
}

// open decrypts a message as a browser does.
func (d device) open(t *testing.T, message []byte) string {
	t.Helper()
	if len(message) < 86 || message[20] != 65 {
		t.Fatalf("no message: %x", message)
	}
	salt, theirs, record := message[:16], message[21:86], message[86:]
	public, err := ecdh.P256().NewPublicKey(theirs)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := d.key.ECDH(public)
	if err != nil {
		t.Fatal(err)
	}
	derive := func(secret, salt []byte, info string, n int) []byte {
		key, err := hkdf.Key(sha256.New, secret, salt, info, n)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	master := derive(shared, d.Auth, "WebPush: info\x00"+string(d.P256dh)+string(theirs), 32)
	block, err := aes.NewCipher(derive(master, salt, "Content-Encoding: aes128gcm\x00", 16))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := aead.Open(nil, derive(master, salt, "Content-Encoding: nonce\x00", 12), record, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, padding, ok := strings.Cut(string(plain), "\x02")
	if !ok || strings.Trim(padding, "\x00") != "" {
		t.Errorf("padding %q", padding)
	}
	return text
}

func TestOnlyTheBrowserReadsANote(t *testing.T) {
	d := newDevice(t, "https://push.example/1")
	var sizes []int
	var seen []string
	for _, kind := range Kinds() {
		plain, err := encoded(kind)
		if err != nil {
			t.Fatal(err)
		}
		message, err := encryptFor(plain, d.Subscription)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := d.open(t, message), `{"kind":"`+string(kind)+`"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if bytes.Contains(message, []byte(kind)) {
			t.Errorf("%s is readable", kind)
		}
		sizes = append(sizes, len(message))
		seen = append(seen, topic(d.Subscription, kind))
	}
	if sizes[0] != sizes[1] {
		t.Error("the length of a note reveals its kind")
	}
	if seen[0] == seen[1] || len(seen[0]) != 32 || strings.Trim(seen[0], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("topics %v", seen)
	}
	if other := newDevice(t, d.Endpoint); topic(other.Subscription, NeedsYou) == seen[0] {
		t.Error("all browsers have the same topics")
	}
	if _, err := encrypt(make([]byte, recordSize), d.Subscription, d.key, [16]byte{}, 0); err == nil {
		t.Error("a note that fills more than a record was accepted")
	}
}

// verify checks the header Authorization as a push service does. It returns the
// public key in it.
func verify(t *testing.T, header, audience string) (public string) {
	t.Helper()
	token, public, ok := strings.Cut(strings.TrimPrefix(header, "vapid t="), ", k=")
	parts := strings.Split(token, ".")
	if !ok || len(parts) != 3 {
		t.Fatalf("Authorization: %s", header)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), unb64(t, public))
	if err != nil {
		t.Fatal(err)
	}
	digest, signature := sha256.Sum256([]byte(parts[0]+"."+parts[1])), unb64(t, parts[2])
	if len(signature) != 64 || !ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
		t.Error("the signature is wrong")
	}
	var head struct{ Typ, Alg string }
	var claims struct {
		Aud, Sub string
		Exp      int64
	}
	if err := json.Unmarshal(unb64(t, parts[0]), &head); err != nil || head.Typ != "JWT" || head.Alg != "ES256" {
		t.Errorf("head %+v: %v", head, err)
	}
	if err := json.Unmarshal(unb64(t, parts[1]), &claims); err != nil {
		t.Fatal(err)
	}
	if life := time.Until(time.Unix(claims.Exp, 0)); claims.Aud != audience || !strings.HasPrefix(claims.Sub, "https://") || life <= 0 || life > 24*time.Hour {
		t.Errorf("claims %+v", claims)
	}
	return public
}

func TestPushServicesRecogniseTheServer(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	want, err := publicOf(key)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 { // numbers in a signature may be short
		header, err := authorization(key, "https://push.example:443/a/b?c=d", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if got := verify(t, header, "https://push.example:443"); got != want {
			t.Errorf("public key %s, want %s", got, want)
		}
	}
}
