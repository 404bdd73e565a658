package supervisor

import (
	"io"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/proc"
)

// An agent begins with no signal ignored: what it starts would inherit that, and a shell could not even undo it.
func TestAgentIgnoresNoSignals(t *testing.T) {
	a := start(t, proc.Command{Path: "/bin/cat", Args: []string{"/proc/self/status"}}, Keep{})
	status, err := io.ReadAll(a.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			if strings.Trim(rest, "0\t\n") != "" {
				t.Errorf("ignored are %s", rest)
			}
			return
		}
	}
	t.Error("it does not say which")
}
