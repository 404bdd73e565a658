package text_test

import (
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/internal/text"
)

func TestCutKeepsWholeCharacters(t *testing.T) {
	for _, c := range []struct {
		name, in string
		max      int
		want     string
		cut      bool
	}{
		{"empty", "", 0, "", false},
		{"fits", "word", 4, "word", false},
		{"ASCII", "words", 4, "word", true},
		{"zero", "word", 0, "", true},
		{"negative", "word", -1, "", true},
		{"two bytes", "éé", 3, "é", true},
		{"three bytes", "世世", 5, "世", true},
		{"four bytes", "🙂🙂", 7, "🙂", true},
		{"between characters", "🙂🙂", 4, "🙂", true},
		{"first character does not fit", "🙂", 3, "", true},
		{"invalid bytes are cut at the limit", strings.Repeat("\x80", 9), 5, "\x80\x80\x80\x80\x80", true},
		{"invalid bytes, small limit", "\x80\x80\x80", 1, "\x80", true},
		{"invalid byte before a character", "\xff世世", 5, "\xff世", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, cut := text.Cut(c.in, c.max); got != c.want || cut != c.cut {
				t.Errorf("Cut(%q, %d) is %q, %v; want %q, %v", c.in, c.max, got, cut, c.want, c.cut)
			}
		})
	}
}

// A caller that splits text with Cut in a loop must always advance.
func TestCutOfLongEnoughPrefixIsNeverEmpty(t *testing.T) {
	for _, s := range []string{"aaaaaaaa", "éééé", "世世世", "🙂🙂", strings.Repeat("\x80", 8), "\xf0\x9f\x9f\xf0\x9f\x9f"} {
		for max := utf8.UTFMax; max < len(s); max++ {
			if got, _ := text.Cut(s, max); got == "" {
				t.Errorf("Cut(%q, %d) is empty", s, max)
			}
		}
	}
}

func TestTrimPartialRemovesHalfACharacter(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "",
		"a":                    "a",
		"世":                    "世",
		"a世\xe4\xb8":           "a世",
		"a\xf0\x9f\x99":        "a",
		"🙂\xf0":                "🙂",
		"\xe4":                 "",
		"\x80\x80\x80\x80":     "\x80\x80\x80\x80",
		"a\xff":                "a\xff",
		"\xe4\xb8\x80\x80\x80": "\xe4\xb8\x80\x80\x80",
	} {
		if got := text.TrimPartial(in); got != want {
			t.Errorf("TrimPartial(%q) is %q, want %q", in, got, want)
		}
	}
}

func TestShortenStaysWithinBytes(t *testing.T) {
	for _, c := range []struct {
		name, in string
		max      int
		want     string
	}{
		{"empty", "", 5, ""},
		{"fits", "words", 5, "words"},
		{"ASCII", "more words", 8, "more …"},
		{"multi-byte", "世世世世", 8, "世…"},
		{"room for the ellipsis only", "words", 3, "…"},
		{"no room for the ellipsis", "words", 2, "wo"},
		{"no room for the ellipsis or a character", "世世", 2, ""},
		{"zero", "words", 0, ""},
		{"negative", "words", -3, ""},
		{"invalid", strings.Repeat("\x80", 9), 5, "\x80\x80…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := text.Shorten(c.in, c.max)
			if got != c.want {
				t.Errorf("Shorten(%q, %d) is %q, want %q", c.in, c.max, got, c.want)
			}
			if len(got) > max(c.max, 0) {
				t.Errorf("Shorten(%q, %d) has %d bytes", c.in, c.max, len(got))
			}
		})
	}
}

func TestShortenRunesCountsCharacters(t *testing.T) {
	for _, c := range []struct {
		name, in string
		max      int
		want     string
	}{
		{"empty", "", 3, ""},
		{"fits", "世世世", 3, "世世世"},
		{"too long", "世世世世", 3, "世世…"},
		{"ASCII", "words", 4, "wor…"},
		{"one", "words", 1, "…"},
		{"zero", "words", 0, ""},
		{"negative", "words", -1, ""},
		{"invalid bytes count as one character each", "\x80\x80\x80\x80", 3, "\x80\x80…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text.ShortenRunes(c.in, c.max); got != c.want {
				t.Errorf("ShortenRunes(%q, %d) is %q, want %q", c.in, c.max, got, c.want)
			}
		})
	}
}

func TestOneLineIsOnePrintableLine(t *testing.T) {
	for _, c := range []struct {
		name, in string
		max      int
		want     string
	}{
		{"empty", "", 10, ""},
		{"spaces and line breaks", "  a \r\n\tb\x00c ", 10, "a b c"},
		{"only spaces", " \n\t ", 10, ""},
		{"direction marks", "a\u202eb\u200bc", 10, "abc"},
		{"long", "one two three", 10, "one two…"},
		{"multi-byte", "世 世 世 世", 8, "世 …"},
		{"limit below the ellipsis", "words", 2, "wo"},
		{"zero", "words", 0, ""},
		{"invalid", "a\xffb", 10, "a\uFFFDb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := text.OneLine(c.in, c.max)
			if got != c.want {
				t.Errorf("OneLine(%q, %d) is %q, want %q", c.in, c.max, got, c.want)
			}
			if len(got) > max(c.max, 0) {
				t.Errorf("OneLine(%q, %d) has %d bytes", c.in, c.max, len(got))
			}
		})
	}
}

// The cost depends on the limit, not on the input: agents send megabytes.
func TestShorteningHugeInputAllocatesLittle(t *testing.T) {
	huge := strings.Repeat("世 \n", 4<<20)
	for name, f := range map[string]func() string{
		"Cut":          func() string { s, _ := text.Cut(huge, 100); return s },
		"Shorten":      func() string { return text.Shorten(huge, 100) },
		"ShortenRunes": func() string { return text.ShortenRunes(huge, 100) },
		"OneLine":      func() string { return text.OneLine(huge, 100) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		short := f()
		runtime.ReadMemStats(&after)
		if len(short) == 0 || len(short) > 400 {
			t.Errorf("%s returns %d bytes", name, len(short))
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s allocates %d bytes for %d bytes of input", name, n, len(huge))
		}
	}
}
