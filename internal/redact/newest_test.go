package redact

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Creating many credentials logs a text after each of them. Compiling all
// values for each text would take longer than everything else.
func TestTextWithoutSecretsCompilesOnlyTheNewestValues(t *testing.T) {
	r := New("first-secret")
	first := r.known.Load()
	for i := range maxNewest {
		r.Add(fmt.Sprintf("added-secret-%d", i))
		if got := r.String("a text without them"); got != "a text without them" {
			t.Errorf("got %q", got)
		}
		if r.known.Load() != first {
			t.Fatalf("all values were compiled after %d more", i+1)
		}
	}
	for _, text := range []string{"first-secret", "added-secret-7", "ghp_0123456789abcdefghij0123456789abcdef"} {
		if got := r.String("<" + text + ">"); got != "<"+Marker+">" {
			t.Errorf("%q became %q", text, got)
		}
	}
	r = New("first-secret")
	for i := range maxNewest + 1 {
		r.Add(fmt.Sprintf("added-secret-%d", i))
	}
	if r.String("a text without them"); r.isStale() {
		t.Error("more values than maxNewest were left to be compiled for each text")
	}
}

// A text is redacted in the same way whether values were added or known from the
// beginning.
func TestNewestValuesAreFoundAsAllOthers(t *testing.T) {
	values := []string{"abcdefgh1", "efgh1ijkl", "cdefgh1i", "x…hunter22…y", "12345678a12345678b", "one\ntwo-three"}
	pieces := []string{"<", "abcd", "efgh1", "ijkl", "…", "\n", "\r\n", "x", "hunter22", "y", "12345678a", "12345678", "b", "two-three", "one", "sk-ant-", " "}
	for _, v := range values {
		text := base64.StdEncoding.EncodeToString([]byte("to" + v + "end"))
		pieces = append(pieces, text[:len(text)/2], text[len(text)/2:], v)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var text strings.Builder
		for range 1 + random.IntN(6) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		known := random.IntN(len(values))
		r := New(values[:known]...)
		r.Add(values[known:]...)
		if got, want := r.String(text.String()), New(values...).String(text.String()); got != want {
			t.Fatalf("with %d known values %q became %q, want %q", known, text.String(), got, want)
		}
	}
}
