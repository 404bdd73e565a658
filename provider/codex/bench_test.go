package codex

import (
	"fmt"
	"testing"
)

// BenchmarkDelta measures the translation of one delta, from the line to the
// event.
func BenchmarkDelta(b *testing.B) {
	tr := newTranslator()
	tr.thread = "t"
	for _, l := range []string{
		`{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}`,
		`{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"m"}}}`,
	} {
		tr.Printed([]byte(l), fixtureStart)
	}
	line := fmt.Appendf(nil, `{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"m","delta":"some words"},"emittedAtMs":1795302320000}`)
	for b.Loop() {
		if evs, _ := tr.Printed(line, fixtureStart); len(evs) != 1 {
			b.Fatal(len(evs))
		}
	}
}
