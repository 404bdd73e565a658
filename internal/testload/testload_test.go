package testload

import (
	"runtime"
	"testing"
	"time"
)

func TestFactor(t *testing.T) {
	for _, tt := range []struct {
		loadavg string
		cpus    int
		want    int
	}{
		{"0.00 0.00 0.00 1/179 11757\n", 2, 1},
		{"2.00 0.00 0.00 2/179 11757\n", 2, 1},
		{"2.01 0.00 0.00 1/179 11757\n", 2, 2},
		{"9.54 8.06 9.43 9/179 11757\n", 2, 5},
		{"0.10 0.00 0.00 12/179 11757\n", 2, 6},
		{"9.54 8.06 9.43 9/179 11757\n", 16, 1},
		{"", 2, unknown},
		{"much 0 0 1/2 3", 2, unknown},
		{"1 0 0 few 3", 2, unknown},
	} {
		if got := factor(tt.loadavg, tt.cpus); got != tt.want {
			t.Errorf("%q with %d processors: %d, want %d", tt.loadavg, tt.cpus, got, tt.want)
		}
	}
}

func TestWithinReportsOnlyWhatTookTooLong(t *testing.T) {
	for took, want := range map[time.Duration]bool{0: false, 24 * time.Hour: true} {
		got := &result{TB: t}
		Within(got, "it", time.Now().Add(-took), time.Second)
		if got.failed != want {
			t.Errorf("after %v: failed is %v", took, got.failed)
		}
	}
	if runtime.GOOS == "linux" && Room(time.Second) > time.Hour {
		t.Errorf("a second becomes %v", Room(time.Second))
	}
}

// A result records whether the test failed.
type result struct {
	testing.TB
	failed bool
}

func (r *result) Helper()               {}
func (r *result) Errorf(string, ...any) { r.failed = true }
