package proc

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\né 𝄞":                       "plain\ttext\né 𝄞",
		"a\x1b[1;31mb\x1b[0mc":                   "abc",
		"a\x1b]8;;http://evil\x1b\\b\x1b]0;x\ac": "abc",
		"a\x1bPq#0\x1b\\b\x1b_apc\x1b\\c":        "abc",
		"a\u009b31mb\u009dtitle\u009cc":          "abc",
		"a\x1b(Bb\x1b=c\x1bMd":                   "abcd",
		"a\x1b]never ends\nb":                    "a\nb",
		"a\x1b[":                                 "a",
		"a\x1b":                                  "a",
		"10%\r20%\r\nx\r":                        "10%\n20%\nx\n",
		"a\x00\x07\x08\x7fb\u0085":               "ab",
		"a\u202eb\u2066c\u200bd\ufeffe\u00adf":   "abcdef",
		"a\xffb\xe2\x80":                         "a\ufffdb\ufffd\ufffd",
		"\ue0b0 prompt":                          "\ue0b0 prompt", // private use: icons
		"\x1b[\x1b[31m\x1b]\x1b[0;31mdm":         "",
	} {
		if got := string(clean([]byte(in))); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"a\x1b[1mb", "\u009b\x1b]\x1b\\", "\r\r\n\xff", "\x1b\x1b[[mm", "\xc2\x1b\x9b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out := clean(in)
		if !utf8.Valid(out) {
			t.Errorf("%q is not UTF-8", out)
		}
		for _, r := range string(out) {
			if r != '\t' && r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Errorf("%q in %q", r, out)
			}
		}
		if again := clean(out); !bytes.Equal(again, out) {
			t.Errorf("%q became %q", out, again)
		}
	})
}

// feed gives a tail its input in pieces of size bytes.
func feed(t *tail, text string, size int) {
	for len(text) > 0 {
		n := min(size, len(text))
		t.add([]byte(text[:n]), false)
		text = text[n:]
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var all strings.Builder
	for all.Len() < 300<<10 {
		all.WriteString("line number " + strings.Repeat("x", all.Len()%97) + " é\n")
	}
	for _, length := range []int{0, 1, 100, 64 << 10, 72<<10 - 1, 72 << 10, 72<<10 + 1, 80 << 10, 144 << 10, 150_000, 300 << 10} {
		text := all.String()[:length]
		for _, size := range []int{1 << 10, 16 << 10, 100 << 10, 400 << 10} {
			tl := newTail(nil, 64<<10, nil)
			feed(tl, text, size)
			tl.add(nil, true)
			got, want := tl.text(), strings.ToValidUTF8(text, "\ufffd")
			if !strings.HasSuffix(want, got) {
				t.Fatalf("%d bytes in pieces of %d: not the end of it", length, size)
			}
			if len(got) > 64<<10 || len(got) < min(length, 63<<10) {
				t.Errorf("%d bytes in pieces of %d: %d kept", length, size, len(got))
			}
			if before := len(want) - len(got); before > 0 && want[before-1] != '\n' {
				t.Errorf("%d bytes in pieces of %d: begins within a line", length, size)
			}
		}
	}
}

// A tail never shows part of a secret: neither where the tail begins, nor while
// the child is still writing the secret.
func TestTailRedactsWholeSecrets(t *testing.T) {
	const secret = "sk-0123456789abcdefghijklmnopqrstuvwxyz"
	redact := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(secret), []byte("[redacted]")) }
	for fill := 72<<10 - 100; fill < 72<<10+100; fill++ {
		tl := newTail(nil, 64<<10, redact)
		feed(tl, secret+strings.Repeat("x", fill), 32<<10)
		tl.add([]byte("\n"), true)
		if got := tl.text(); strings.ContainsAny(got, "0123456789") {
			t.Fatalf("after %d bytes the tail begins with %.50q", fill, got)
		}
	}
	for cut := range len(secret) {
		tl := newTail(nil, 64<<10, redact)
		tl.add([]byte("line\nkey "+secret[:cut]), false)
		if got := tl.text(); got != "line\n" {
			t.Errorf("tail is %q", got)
		}
	}
	tl := newTail(nil, 64<<10, redact)
	tl.add([]byte("line\nkey "+secret), true)
	if got := tl.text(); got != "line\nkey [redacted]" {
		t.Errorf("tail is %q", got)
	}
}
