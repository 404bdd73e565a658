package redact

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// whole returns a secret of each kind, and the length of its beginning that is
// not secret because all secrets of the kind have it.
func whole() map[string]int {
	all := map[string]int{
		"Authorization: Bearer " + mixed:                      len("Authorization: Bearer "),
		"X-Api-Key: " + mixed:                                 len("X-Api-Key: "),
		"postgres://me:" + mixed + "@db":                      len("postgres://me:"),
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2": len("eyJhbGciOiJIUzI1NiJ9.ey"),
	}
	for _, l := range keyKinds {
		var body strings.Builder
		for i := byte(0); body.Len() < l.min+8; i++ {
			if l.body[i] && i != '.' && i != '=' && i != '+' && i != '/' && i != '-' {
				body.WriteByte(i)
			}
		}
		all[l.prefix+body.String()] = len(l.prefix)
	}
	return all
}

// cuts returns s shortened in each way in which a text may be shortened before
// it is redacted. Each result keeps at most max bytes of s.
func cuts(s string, max int) map[string]string {
	all := map[string]string{
		"shortened": text.Shorten(s, max+len(ellipsis)),
		"one line":  text.OneLine(s, max+len(ellipsis)),
		"within":    `The tool "` + text.Shorten(s, max+len(ellipsis)) + `" ran.`,
	}
	if max%8 == 0 { // not for every max, because the text is a quarter of a megabyte
		all["bounded"] = strings.Repeat(" ", event.MaxOutput-max) + s[:max]
	}
	return all
}

// A text that is shortened within a secret, at any place, contains no part of
// the secret that is long enough to be useful.
func TestShortenedTextHoldsNoHalfSecret(t *testing.T) {
	const head = "The key is "
	for _, key := range slices.Sorted(maps.Keys(whole())) {
		open := whole()[key]
		for at := open + leastCutOff; at < len(key); at++ {
			for how, in := range cuts(head+key+" and more", len(head)+at) {
				got := new(Redactor).String(in)
				if strings.Contains(got, key[:open+leastCutOff]) || !strings.Contains(got, Marker) {
					t.Fatalf("%s after %d bytes of %q: became %q", how, at, key, strings.TrimSpace(got))
				}
			}
		}
	}
}

func TestShortenedTextHoldsNoHalfValue(t *testing.T) {
	for _, key := range []string{"correct-horse-battery-staple", "hunter2-x", "Tr0ub4dor…&3 and more"} {
		r := New(key)
		least := min(partial, max(leastPartial, (len(key)+1)/2))
		for at := least; at < len(key); at++ {
			if !strings.HasPrefix(key[at:], text.TrimPartial(key[at:])) || text.TrimPartial(key[:at]) != key[:at] {
				continue
			}
			for how, in := range cuts("It is "+key+" and more", len("It is ")+at) {
				if got := r.String(in); strings.Contains(got, key[:least]) || !strings.Contains(got, Marker) {
					t.Errorf("%s after %d bytes of %q: %q became %q", how, at, key, strings.TrimSpace(in), strings.TrimSpace(got))
				}
			}
		}
	}
}

// A text that is redacted in pieces gives the same result as the whole text.
func TestShortenedTextInPieces(t *testing.T) {
	r := New("correct-horse-battery", "…horse")
	for _, in := range []string{
		"correct-horse-b… and correct-… correct-horse-b\xe2\x80 correct-horse-battery…", "sk-ant-api03-ab… sk-abc…", "x://y:hunter2… http://h:8080…",
		"Authorization: Bearer abcdef…x", "correct-horse-…horse", "correct-horse-b\xe2", "sk-ant-api03\xe2\x80",
	} {
		want := r.String(in)
		for i := range len(in) {
			for j := i; j <= len(in); j++ {
				if got := inPieces(r, in, i, j); got != want {
					t.Fatalf("%q cut at %d and %d became %q, want %q", in, i, j, got, want)
				}
			}
		}
	}
}

func TestEllipsisBesideSecretsOnly(t *testing.T) {
	r := New("correct-horse-battery")
	for _, in := range []string{
		"Keys begin with sk-ant-…, sk-proj-… or ghp_…", "see http://localhost:8080… and https://me@host…", "Authorization: Bearer …",
		"It is correct…", "…", "a… b…", "sk-abcde…", "eyJhbGciOiJIUzI1NiJ9…", "npm_install", "sk-learn-contrib",
	} {
		if got := r.String(in); got != in {
			t.Errorf("%q became %q", in, got)
		}
	}
}
