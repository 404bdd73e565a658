package runnel_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/script"
)

// BenchmarkTurn plays turns of 2,000 deltas to several readers, in memory.
func BenchmarkTurn(b *testing.B) {
	for _, readers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			ctx := context.Background()
			p := &script.Provider{Script: script.Script{Steps: []script.Step{{Text: "four ", Repeat: 2000}}}}
			events, read := 0, 0
			for b.Loop() {
				s, err := runnel.Open(ctx, p, runnel.Options{}, runnel.Config{Log: new(runnel.Memory)})
				if err != nil {
					b.Fatal(err)
				}
				turn, err := s.Send(ctx, runnel.Text("hi"))
				if err != nil {
					b.Fatal(err)
				}
				done := make(chan int)
				for range readers {
					go func() {
						n := 0
						for range turn.Events(ctx) {
							n++
						}
						done <- n
					}()
				}
				for range readers {
					n := <-done
					events = max(events, n)
					read += n
				}
				_ = s.Close()
			}
			b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "deliveries/s")
		})
	}
}
