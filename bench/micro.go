package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// microRows runs the Go benchmarks of the code that the other rows measure
// together.
func (b *bench) microRows(ctx context.Context) error {
	if !b.size.micro {
		b.report.add(row{What: "Go benchmarks", Target: "not worse than the last table", Ours: unmeasured, Note: "left out of a small run"})
		return nil
	}
	for _, m := range []struct{ pkg, pattern string }{
		{"./store/sqlite", "^Benchmark(Append|AppendByManyWriters|Follow)$"},
		{"./provider/claude", "^BenchmarkTranslate$"},
		{"./internal/proc", "^BenchmarkRoundTrip$"},
	} {
		b.w.logf("Go benchmarks of %s", m.pkg)
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", m.pattern, "-benchtime", "1s", m.pkg)
		cmd.Dir = b.w.root
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("benchmarks of %s: %w\n%s", m.pkg, err, out)
		}
		for _, w := range microCells(m.pkg, string(out)) {
			for i, n := range w.Numbers {
				w.Numbers[i] = b.report.notWorse(w.ID, n)
			}
			b.report.add(w)
		}
	}
	return nil
}

// microCells parses the output of `go test -bench`. A line has a name, a count,
// and values with their units.
func microCells(pkg, out string) (rows []row) {
	for line := range strings.Lines(out) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), "\t")
		fields := strings.Fields(rest)
		if !ok || !strings.HasPrefix(name, "Benchmark") || len(fields) < 3 {
			continue
		}
		w := row{What: strings.TrimPrefix(pkg, "./") + " " + strings.TrimSpace(name)}
		w.ID = processors.ReplaceAllString(w.What, "")
		for i := 1; i+1 < len(fields); i += 2 {
			w.Ours = join(w.Ours, fields[i]+" "+fields[i+1])
			if n, ok := microNumber(fields[i], fields[i+1]); ok {
				w.Numbers = append(w.Numbers, n)
			}
		}
		rows = append(rows, w)
	}
	return rows
}

// processors is the number of processors at the end of a benchmark's name.
var processors = regexp.MustCompile(`-\d+$`)

// Margins of Go benchmarks. Allocations do not depend on the machine.
const (
	timeMargin  = 0.3
	allocMargin = 0.05
)

// microNumber returns a value of a Go benchmark with the margin of its unit.
// The percentiles of a benchmark vary too much to be compared.
func microNumber(value, unit string) (n number, ok bool) {
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || strings.HasPrefix(unit, "p") {
		return n, false
	}
	n = lower(unit, v, "")
	if strings.HasSuffix(unit, "/s") {
		n.Better = betterHigher
	}
	if strings.HasSuffix(unit, "/op") && !strings.HasPrefix(unit, "ns") {
		return n.noiseFree(allocMargin), true
	}
	n.Margin = timeMargin
	return n, true
}
