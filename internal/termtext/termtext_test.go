package termtext

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"text", "Grüße, 世界 👍\n\tx", "Grüße, 世界 👍\n\tx"},
		{"c0", "a\x00b\x07c\x08d\re", "abcde"},
		{"del and c1", "a\x7fb\u0085c\u0080d", "abcd"},
		{"csi", "a\x1b[31mred\x1b[0m\x1b[2J\x1b[1;1Hb", "aredb"},
		{"csi eight bit", "a\u009b31mb", "ab"},
		{"csi cut by newline", "a\x1b[31\nb", "a\nb"},
		{"clipboard", "a\x1b]52;c;cm0gLXJm\x07b", "ab"},
		{"title and st", "a\x1b]0;title\x1b\\b", "ab"},
		{"hyperlink", "\x1b]8;;http://x\x1b\\here\x1b]8;;\x1b\\", "here"},
		{"dcs", "a\x1bP1$r0m\x1b\\b", "ab"},
		{"apc eight bit", "a\u009fpayload\u009cb", "ab"},
		{"unterminated hides one line at most", "a\x1b]0;x y z\nshown", "a\nshown"},
		{"string cut by a sequence", "\x1b]0;x\x1b[31mred", "red"},
		{"charset", "a\x1b(0b\x1b%Gc", "abc"},
		{"reset", "a\x1bcb", "ab"},
		{"lone escape", "a\x1b\nb\x1b", "a\nb"},
		{"escape escape", "a\x1b\x1b[31mb", "ab"},
		{"bidi", "a\u202eb\u2066c\u2069d\u200fe\u061cf", "abcdef"},
		{"zero width", "a\u200bb\u200dc\ufeffd\u2060e", "abcde"},
		{"fillers", "a\u3164b\uffa0c\u115fd\u034fe\u17b4f", "abcdef"},
		{"variation selectors", "a\ufe00b\ufe0dc\u180bd\U000e0100e", "abcde"},
		{"variation selector of an emoji", "\u26a0\ufe0f x", "\u26a0\ufe0f x"},
		{"tags", "a\U000e0041\U000e0061b", "ab"},
		{"separators", "a\u2028b\u2029c", "a\nb\nc"},
		{"not utf-8", "a\xffb\x9b31mc\xe4\xb8", "a�b�31mc��"},
	} {
		if got := Clean(c.in); got != c.want {
			t.Errorf("%s: Clean(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

func TestOneTextCannotSwallowTheNext(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, text := range []string{"first\x1b]0;", "second\xe4", "third"} {
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.String(), "firstsecond�third"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzCleanTextHoldsNoControlCharacters(f *testing.F) {
	for _, s := range []string{
		"plain\ttext\n", "\x1b[31mred\x1b[0m", "\x1b]52;c;eA==\x07", "\x1bP\x1b\\", "\u009b1m", "\u202eabc\u200b",
		"\xe4\xb8\x96", "\xff\xfe", "\x1b]0;\xe4", "\x1b(\x1b[", "\u2028", "\xf0\x1b[", "\xe2\x80\x1b]x",
	} {
		f.Add([]byte(s), 1)
		f.Add([]byte(s), len(s)/2)
	}
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		out := Clean(string(in))
		if !utf8.ValidString(out) {
			t.Fatalf("%q: output %q is not UTF-8", in, out)
		}
		for _, r := range out {
			if r != '\t' && r != '\n' && (r < 0x20 || r >= 0x7f && r <= 0x9f ||
				r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r >= 0x200b && r <= 0x200f || r == 0xfeff) {
				t.Fatalf("%q: output %q holds %U", in, out, r)
			}
		}
		if again := Clean(out); again != out {
			t.Fatalf("%q: cleaned once %q, twice %q", in, out, again)
		}
		var cutOut strings.Builder
		w := NewWriter(&cutOut)
		if len(in) > 0 {
			cut = int(uint(cut) % uint(len(in)))
		} else {
			cut = 0
		}
		for _, piece := range [][]byte{in[:cut], in[cut:]} {
			if _, err := w.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if cutOut.String() != out {
			t.Fatalf("%q: whole %q, cut at %d %q", in, out, cut, cutOut.String())
		}
	})
}
