package main

import (
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBench runs a small benchmark with the built server. It checks no times,
// only that nothing is lost and that every row has a value.
func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two servers and measures a little of everything")
	}
	older := filepath.Join(t.TempDir(), "runnel") // the same source, for the part "before"
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "..", "-o", older, "./cmd/runnel").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := &bench{size: little, before: older, report: &report{table: table{Command: "go -C bench test ."}, started: time.Now()}}
	if err := b.measure(t.Context(), "", "", t.Output()); err != nil {
		t.Fatal(err)
	}
	table := b.report.text()
	t.Log("\n" + table)
	seen := map[string]bool{}
	for _, w := range b.report.Rows {
		switch {
		case w.What == "" || w.Ours == "" || w.target() == "":
			t.Errorf("an empty cell: %+v", w)
		case slices.ContainsFunc(w.Numbers, func(n number) bool { return (n.Name == "lost" || n.Name == "duplicated") && n.Value > 0 }):
			t.Errorf("%s: %s", w.What, w.Ours)
		case w.verdict() == "no target":
			t.Errorf("%s: %s", w.What, w.verdict())
		case seen[w.ID]:
			t.Errorf("%s: its id %q is not its own", w.What, w.ID)
		}
		seen[w.ID] = true
		if strings.Contains(w.Note, "lost") && !strings.Contains(w.Note, "nothing lost") && w.Note != "0 lost, 0 duplicated" {
			t.Errorf("%s: %s", w.What, w.Note)
		}
	}
	for _, p := range parts() {
		if !slices.ContainsFunc(b.report.Rows, func(w row) bool { return w.Part == p.name }) {
			t.Errorf("%s made no row", p.name)
		}
	}
	if md := b.report.markdown(); !strings.Contains(md, "| what | target |") || strings.Count(md, "\n") < len(b.report.Rows) {
		t.Errorf("not a table:\n%s", md)
	}
}

func TestUnknownPart(t *testing.T) {
	if err := run(t.Context(), []string{"-only", "latency,typo"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "typo") {
		t.Error(err)
	}
}

func TestTally(t *testing.T) {
	tally := newTally(4)
	at := time.Now()
	for _, text := range []string{"0@1; 1@2; ", "1@2; ", "3@5; ", "9@9; "} {
		tally.add(message{at: at, delta: text})
	}
	if got := tally.faults(); got != "1 lost, 1 duplicated" {
		t.Error(got)
	}
	tally.add(message{final: "2@1; "})
	if tally.lost() != 0 || tally.got() != 3 {
		t.Errorf("a whole item counts: %d lost, %d deltas", tally.lost(), tally.got())
	}
	tally.add(message{at: at, delta: "2@1; "})
	if got := tally.faults(); got != "0 lost, 1 duplicated, 2 out of order" {
		t.Error(got)
	}
}

func TestMicroCells(t *testing.T) {
	got := microCells("./store", "goos: linux\nBenchmarkAppend/Shown-2 \t 1000\t 25.5 ns/op\t 9 p99-µs\t 3 allocs/op\nPASS\n")
	want := "store BenchmarkAppend/Shown-2; 25.5 ns/op; 9 p99-µs; 3 allocs/op"
	if len(got) != 1 || got[0].What+"; "+got[0].Ours != want || got[0].ID != "store BenchmarkAppend/Shown" {
		t.Fatalf("%+v", got)
	}
	if n := got[0].Numbers; len(n) != 2 || n[0].Name != "ns/op" || n[0].NoiseFree || n[1].Name != "allocs/op" || !n[1].NoiseFree {
		t.Errorf("%+v", n)
	}
}

func TestTargetFollowsOnlyBetterValues(t *testing.T) {
	r := &report{part: "micro"}
	at := func(v float64) number { return lower("ns/op", v, "").noiseFree(0.1) }
	for _, tt := range []struct{ value, want float64 }{{100, 110}, {105, 110}, {200, 110}, {50, 55}, {100, 55}} {
		n := r.notWorse("x", at(tt.value))
		if *n.Target != tt.want {
			t.Errorf("%v: target %v, want %v", tt.value, *n.Target, tt.want)
		}
		r.committed = &table{Rows: []row{{ID: "micro/x", Numbers: []number{n}}}}
	}
}

func TestPercentile(t *testing.T) {
	for _, tt := range []struct {
		of   []int
		p    float64
		want int
	}{{nil, 50, 0}, {[]int{7}, 99, 7}, {[]int{3, 1, 2}, 50, 2}, {[]int{1, 2, 3, 4}, 99, 4}, {[]int{1, 2, 3, 4}, 25, 1}} {
		if got := percentile(tt.of, tt.p); got != tt.want {
			t.Errorf("p%g of %v: %d, want %d", tt.p, tt.of, got, tt.want)
		}
	}
}
