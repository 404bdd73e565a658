package supervisor

import (
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/runnel-dev/runnel/internal/proc"
)

// An agent starts with no signal ignored. Its children would inherit an ignored
// signal, and a shell cannot restore it.
func TestAgentIgnoresNoSignals(t *testing.T) {
	a := start(t, proc.Command{Path: "/bin/cat", Args: []string{"/proc/self/status"}}, Takeover{})
	status, err := io.ReadAll(a.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE, syscall.SIGTERM, syscall.SIGCHLD} { // the program that started the tests may ignore other signals
				if mask&(1<<(sig-1)) != 0 {
					t.Errorf("%v is ignored", sig)
				}
			}
			return
		}
	}
	t.Error("it does not say which")
}
