package upsert

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel/internal/text"
)

func TestTokens(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"", 0}, {" \n\t", 0}, {"word", 1}, {" two  words\n", 2}, {"no\u00a0break", 2}, {"表\u3000格", 2},
		{strings.Repeat("x", 16), 1}, {strings.Repeat("x", 17), 5}, {strings.Repeat("x", 20), 5}, {strings.Repeat("x", 21), 6},
		{"世界世界世", 1}, {"世界世界世界", 5}, {"a " + strings.Repeat("A", 400) + " b", 102}, {"\xff\xfe \xff", 2},
	} {
		var n counter
		n.add(c.text)
		if n.total != c.want {
			t.Errorf("%q: %d tokens, want %d", c.text, n.total, c.want)
		}
	}
}

// count counts the tokens of a whole text by the rule that a counter applies to
// pieces.
func count(s string) (n int) {
	for _, run := range strings.FieldsFunc(s, unicode.IsSpace) {
		if n++; len(run) > 16 {
			n += (len(run)+3)/4 - 1
		}
	}
	return n
}

// The number of tokens does not depend on where a text is split into deltas,
// even within a rune.
func TestTokensAcrossDeltas(t *testing.T) {
	samples := rapid.StringOf(rapid.SampledFrom([]rune("ab  \n\u00a0\u3000\u0085é世😀")))
	rapid.Check(t, func(t *rapid.T) {
		s := samples.Draw(t, "text")
		var n counter
		for rest := s; rest != ""; {
			k := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			n.add(rest[:k])
			rest = rest[k:]
			if seen := text.TrimPartial(s[:len(s)-len(rest)]); n.total != count(seen) {
				t.Fatalf("%d tokens after %q, want %d", n.total, seen, count(seen))
			}
		}
	})
}

func FuzzTokens(f *testing.F) {
	f.Add("a b", 1)
	f.Add("\xe4\xb8", 1)
	f.Add("xxxxxxxxxxxxxxxxx\xf0\x9f\x98\x80", 19)
	f.Fuzz(func(t *testing.T, s string, cut int) {
		cut = max(0, min(cut, len(s)))
		var n counter
		n.add(s[:cut])
		n.add(s[cut:])
		if seen := text.TrimPartial(s); n.total != count(seen) {
			t.Fatalf("%d tokens, want %d", n.total, count(seen))
		}
	})
}
