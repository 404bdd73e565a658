package livescreen

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel/internal/testload"
)

func join(lines []Line) string {
	var out []string
	for _, l := range lines {
		out = append(out, l.String())
	}
	return strings.Join(out, "\n")
}

func TestWrapBreaksBetweenWords(t *testing.T) {
	for name, c := range map[string]struct {
		line   Line
		width  int
		indent string
		want   string
	}{
		"fits":                     {Text("one two", Plain), 7, "", "one two"},
		"two lines":                {Text("one two three", Plain), 8, "", "one two\nthree"},
		"indent":                   {Text("- one two three", Plain), 9, "  ", "- one two\n  three"},
		"long word":                {Text("a abcdefghij b", Plain), 4, "", "a\nabcd\nefgh\nij b"},
		"wide characters":          {Text("世界你好 ok", Plain), 5, "", "世界\n你好\nok"},
		"word in several styles":   {Line{{"one ", Plain}, {"tw", Bold}, {"o", Plain}}, 5, "", "one\ntwo"},
		"leading space stays":      {Text("    code here", Plain), 8, "", "    code\nhere"},
		"empty":                    {nil, 5, "", ""},
		"character wider than all": {Text("世", Plain), 1, "", "世"},
	} {
		if got := join(c.line.Wrap(c.width, c.indent)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestWrapKeepsAllWordsWithinTheWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(2, 30).Draw(t, "width")
		var line Line
		for range rapid.IntRange(0, 4).Draw(t, "spans") {
			line = append(line, Span{rapid.StringOfN(rapid.RuneFrom([]rune("ab  世é-")), 0, 20, -1).Draw(t, "text"), Style(rapid.IntRange(0, 3).Draw(t, "style"))})
		}
		indent := strings.Repeat(" ", rapid.IntRange(0, 4).Draw(t, "indent"))
		got := line.Wrap(width, indent)
		for _, l := range got {
			if l.Width() > width {
				t.Fatalf("%d cells, want at most %d: %q", l.Width(), width, l)
			}
		}
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if squeeze(join(got)) != squeeze(line.String()) {
			t.Fatalf("the text changed: %q became %q", line, join(got))
		}
	})
}

func TestCutMarksWhatIsMissing(t *testing.T) {
	line := Line{{"one ", Bold}, {"世界 three", Plain}}
	for width, want := range map[int]string{20: "one 世界 three", 14: "one 世界 three", 13: "one 世界 thr…", 7: "one 世…", 6: "one …", 1: "…", 0: ""} {
		if got := line.Cut(width).String(); got != want || Width(got) > width {
			t.Errorf("cut to %d: got %q, want %q", width, got, want)
		}
	}
	for width, want := range map[int]string{20: "/home/世界/app", 8: "…界/app", 5: "…/app", 1: "…", 0: ""} {
		if got := CutStart("/home/世界/app", width); got != want {
			t.Errorf("cut the start to %d: got %q, want %q", width, got, want)
		}
	}
}

func TestUntabAlignsText(t *testing.T) {
	if got := Untab("\ta\tbcd\t世\t."); got != "    a   bcd 世  ." {
		t.Errorf("got %q", got)
	}
}

// An agent streams such texts, and each frame wraps them again.
func TestLongWordIsWrappedSoon(t *testing.T) {
	long := Line{{strings.Repeat("x", 400_000), Plain}}
	for range 100_000 {
		long = append(long, Span{"y", Bold}, Span{"z", Plain})
	}
	began := time.Now()
	if got := len(long.Wrap(80, "")); got != 600_000/80 {
		t.Errorf("%d lines", got)
	}
	testload.Within(t, "the wrapping", began, time.Second)
}
