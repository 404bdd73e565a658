package proc

import "testing"

// BenchmarkRoundTrip sends a line through the outbox to a child, which returns
// it.
func BenchmarkRoundTrip(b *testing.B) {
	p := start(b, command("echo"))
	line, back := []byte("{\"type\":\"keep_alive\"}\n"), make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Send(line); err != nil {
			b.Fatal(err)
		}
		for n := 0; n < len(line); {
			m, err := p.Stdout().Read(back)
			if err != nil {
				b.Fatal(err)
			}
			n += m
		}
	}
}

// BenchmarkStartToDone includes the time in which the child runs, which is most
// of it.
func BenchmarkStartToDone(b *testing.B) {
	for b.Loop() {
		p, err := Start(b.Context(), command("exit", "0"))
		if err != nil {
			b.Fatal(err)
		}
		<-p.Done()
	}
}
