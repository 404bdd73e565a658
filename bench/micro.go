package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// microRows runs the Go benchmarks of the code that the other rows measure
// together.
func (b *bench) microRows(ctx context.Context) error {
	if !b.size.micro {
		b.report.add(row{what: "Go benchmarks", ours: "left out of a small run"})
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
		b.report.add(microCells(m.pkg, string(out))...)
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
		w := row{what: strings.TrimPrefix(pkg, "./") + " " + strings.TrimSpace(name)}
		for i := 1; i+1 < len(fields); i += 2 {
			w.ours = join(w.ours, fields[i]+" "+fields[i+1])
		}
		rows = append(rows, w)
	}
	return rows
}
