package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel/provider/providertest"
)

var (
	seedFlag = flag.Uint64("sim.seed", 0, "the first seed; default 1, and for one run if -sim.runs is not given (SIM_SEED)")
	runsFlag = flag.Int("sim.runs", 0, "how many seeds (SIM_RUNS)")
	traceAll = flag.Bool("sim.trace", false, "print what happened also where nothing is wrong")
)

// slower divides the default number of runs. It is greater than 1 in builds
// whose runs take longer, such as those with the race detector.
var slower = 1

// long reports whether to run many more seeds and every mutant.
func long() bool { return os.Getenv("RUNNEL_LONG") != "" }

// seeds returns the first seed and the number of runs. The default number is n,
// which the mode of the test run scales.
func seeds(t *testing.T, n int) (first uint64, runs int) {
	first, runs = *seedFlag, *runsFlag
	if v := os.Getenv("SIM_SEED"); v != "" && first == 0 {
		first, _ = strconv.ParseUint(v, 10, 64)
	}
	if v := os.Getenv("SIM_RUNS"); v != "" && runs == 0 {
		runs, _ = strconv.Atoi(v)
	}
	switch {
	case runs == 0 && first != 0:
		runs = 1
	case runs == 0 && long():
		runs = 40 * n
	case runs == 0 && slower > 1: // also in short tests
		runs = n / slower
	case runs == 0 && testing.Short():
		runs = n / 10
	case runs == 0:
		runs = n / 5
	}
	if first == 0 {
		first = 1
	}
	return first, runs
}

// run runs the world of a seed. It fails the test with the violations and the
// story if anything went wrong.
func run(t *testing.T, seed uint64, p plan) *world {
	var w *world
	broken := false // CheckLog has found a broken rule of turns
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(seed, p)
		w.live()
		providertest.CheckLog(t, &diskLog{w.disk, 0}, session)
		broken = t.Failed()
	})
	if len(w.wrong) > 0 || broken || *traceAll {
		t.Errorf("seed %d, plan %+v:\n%s\n%s", seed, p, strings.Join(w.wrong, "\n"), w.story())
	}
	return w
}

// story returns the trace of the run and the resulting log, cut after about
// 40 KiB.
func (w *world) story() string {
	var b strings.Builder
	lines := w.trace
	for _, ev := range w.disk.snapshot() {
		lines = append(lines, fmt.Sprintf("%s %.8s %s", ev.At.Format("05.000000"), ev.Turn, show(ev)))
	}
	for _, l := range lines {
		if b.Len() > 40<<10 {
			return b.String() + "…"
		}
		b.WriteString("\t" + l + "\n")
	}
	return b.String()
}

// spread runs seeds in parallel on all processors until one of them fails. With
// at least 500 runs, it fails if one of kinds never happened, because the runs
// then test less than they should.
func spread(t *testing.T, n int, plan func(seed uint64) plan, kinds ...string) {
	first, runs := seeds(t, n)
	began, counts := time.Now(), make([]map[string]int, runtime.GOMAXPROCS(0))
	var failed atomic.Bool
	t.Run("seeds", func(t *testing.T) {
		for shard := range counts {
			counts[shard] = make(map[string]int)
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				defer func() {
					if t.Failed() {
						failed.Store(true)
					}
				}()
				for i := shard; i < runs && !t.Failed() && !failed.Load(); i += len(counts) {
					seed := first + uint64(i)
					for what, n := range run(t, seed, plan(seed)).counts {
						counts[shard][what] += n
					}
				}
			})
		}
	})
	sum := make(map[string]int)
	for _, c := range counts {
		for what, n := range c {
			sum[what] += n
		}
	}
	t.Logf("%d seeds from %d, %v: %v", runs, first, time.Since(began).Round(time.Millisecond), sum)
	for _, what := range kinds {
		if sum[what] == 0 && runs >= 500 {
			t.Errorf("in %d runs there was no %q", runs, what)
		}
	}
}

// TestRandomSchedulesKeepTheInvariants runs the core through random schedules
// of requests, crashes and faults.
func TestRandomSchedulesKeepTheInvariants(t *testing.T) {
	spread(t, 5_000, makePlan,
		"process killed", "process powerless", "process fenced", "process detached", "agent adopted", "sync failed",
		"send ok", "send busy", "send unknown", "decide ok", "decide gone", "decide unknown", "cancel ok",
		"resolved by user", "resolved by timeout", "resolved by agent", "resolved by policy",
		"turn completed", "turn cancelled", "turn ended as AGENT_ERROR", "turn ended as PROCESS_CRASH")
}

// TestReconnectingClientsMissNothing runs the core with very short connections
// and with processes that end again and again.
func TestReconnectingClientsMissNothing(t *testing.T) {
	spread(t, 5_000, func(seed uint64) plan {
		p := makePlan(seed + 1<<32)
		p.faults, p.unstable, p.kinds = false, p.unstable/10, nil
		for range 1 + seed%5 {
			p.kinds = append(p.kinds, []fate{killed, killed, detached, powerless}[seed/5%4])
			seed = seed/4 + 7*seed
		}
		return p
	})
}
