package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

func TestReaderLearnsThatTheServerIsBusy(t *testing.T) {
	var said []string
	l := serverLink{say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	calls := 0
	err := l.retryBusy(t.Context(), func() error {
		if calls++; calls < 3 {
			return runnel.Fail(runnel.RateLimited, "too many requests")
		}
		return nil
	})
	if err != nil || len(said) != 2 || !strings.Contains(said[0], "too many requests (RATE_LIMITED)") || !strings.Contains(said[1], "answers again") {
		t.Errorf("%v %q", err, said)
	}
}
