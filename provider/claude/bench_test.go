package claude

import (
	"strings"
	"testing"
)

func TestDeltaTakesFewAllocations(t *testing.T) {
	tr := newTranslator()
	tr.Sent([]byte(promptLine("go")), fixtureStart)
	for _, l := range []string{initLine, startLine, blockLine} {
		tr.Printed([]byte(l), fixtureStart)
	}
	line := []byte(strings.Replace(deltaLine, `"text":"hi"`, `"text":"The quick\nbrown fox \u00e9"`, 1))
	const golden = 2 // the text and the body of the event
	if got := testing.AllocsPerRun(1000, func() {
		if evs, _ := tr.Printed(line, fixtureStart); len(evs) != 1 {
			t.Fatal(len(evs))
		}
	}); got > golden {
		t.Errorf("%v allocations for a delta, want %v", got, golden)
	}
}

// BenchmarkTranslate measures the translation of one streamed delta.
func BenchmarkTranslate(b *testing.B) {
	tr := newTranslator()
	tr.Sent([]byte(promptLine("go")), fixtureStart)
	for _, l := range []string{initLine, startLine, blockLine} {
		tr.Printed([]byte(l), fixtureStart)
	}
	line := []byte(strings.Replace(deltaLine, `"text":"hi"`, `"text":"The quick brown fox jumps over"`, 1))
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if evs, _ := tr.Printed(line, fixtureStart); len(evs) != 1 {
			b.Fatal(len(evs))
		}
	}
}
