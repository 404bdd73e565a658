// Package testload scales the time limits of tests with the load of the
// machine, and leaves long tests out of make check.
//
// A test asserts the documented limit. That limit applies exactly on a machine
// with a free processor for every runnable task. On a busier machine each task
// gets only a share of a processor, so the limit grows in proportion. The test
// then measures the program and not other processes.
package testload

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TakesLong skips the test with -short, which make check uses. It is for tests
// that take a second or more; make test runs them.
func TakesLong(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}

// unknown is the factor for machines that do not report their load.
const unknown = 4

// Within fails the test if more time than bound, scaled with the load of the
// machine, has passed since began.
func Within(t testing.TB, what string, began time.Time, bound time.Duration) {
	t.Helper()
	took := time.Since(began)
	if took <= bound {
		return
	}
	if room := Room(bound); took > room {
		t.Errorf("%s took %v, more than %v (%v at the load of this machine)", what, took, bound, room)
	}
}

// Room returns bound scaled with the current load. It is bound itself unless
// the machine has more runnable tasks than processors.
func Room(bound time.Duration) time.Duration {
	loadavg, _ := os.ReadFile("/proc/loadavg") // exists on Linux only
	return bound * time.Duration(factor(string(loadavg), runtime.GOMAXPROCS(0)))
}

// factor returns the number of tasks per processor, rounded up and at least 1.
// It reads the text of /proc/loadavg: "9.54 8.06 9.43 9/179 11757". The first
// field is the load of the last minute, which lags behind a burst. The fourth
// begins with the number of tasks that are runnable now. factor uses the
// greater of the two.
func factor(loadavg string, cpus int) int {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return unknown
	}
	running, _, _ := strings.Cut(fields[3], "/")
	minute, err := strconv.ParseFloat(fields[0], 64)
	now, err2 := strconv.ParseFloat(running, 64)
	if err != nil || err2 != nil {
		return unknown
	}
	return max(1, int(math.Ceil(max(minute, now)/float64(cpus))))
}
