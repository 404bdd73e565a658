package codex

import "testing"

// growing returns a translator with an open message, and a line with which the
// message grows.
func growing() (*translator, []byte) {
	tr := newTranslator()
	tr.thread = "t"
	for _, l := range []string{
		`{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}`,
		`{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"m"}}}`,
	} {
		tr.Printed([]byte(l), fixtureStart)
	}
	return tr, []byte(`{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"m","delta":"some words"},"emittedAtMs":1795302320000}`)
}

func TestDeltaTakesFewAllocations(t *testing.T) {
	tr, line := growing()
	const golden = 2 // the text and the body of the event
	if got := testing.AllocsPerRun(1000, func() {
		if evs, _ := tr.Printed(line, fixtureStart); len(evs) != 1 {
			t.Fatal(len(evs))
		}
	}); got > golden {
		t.Errorf("%v allocations for a delta, want %v", got, golden)
	}
}

// BenchmarkDelta measures the translation of one delta, from the line to the
// event.
func BenchmarkDelta(b *testing.B) {
	tr, line := growing()
	for b.Loop() {
		if evs, _ := tr.Printed(line, fixtureStart); len(evs) != 1 {
			b.Fatal(len(evs))
		}
	}
}
