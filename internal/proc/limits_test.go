package proc

import (
	"strings"
	"testing"
)

func TestReachedNamesTheLimitThatEndedAChild(t *testing.T) {
	both := Limits{MemoryMiB: 512, Processes: 50}
	for _, c := range []struct {
		limits Limits
		st     ExitStatus
		want   string
	}{
		{both, ExitStatus{Code: -1, Signal: "SIGKILL", MemoryKills: 1}, memoryLimit},
		{both, ExitStatus{Code: 137, MemoryKills: 2, RefusedForks: 3}, memoryLimit},
		{both, ExitStatus{Code: 1, RefusedForks: 3}, processesLimit},
		{both, ExitStatus{MemoryKills: 1, RefusedForks: 1}, ""}, // a tool was killed, and the agent ended by itself
		{both, ExitStatus{Code: -1, Signal: "SIGKILL"}, ""},
		{Limits{}, ExitStatus{Code: -1, MemoryKills: 1}, ""},
	} {
		got := c.limits.Reached(c.st)
		if got.Limit != c.want || !strings.Contains(got.Text, c.want) {
			t.Errorf("%+v: %+v, want %q", c.st, got, c.want)
		}
	}
}
