package main

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testload"
)

// The probe for user namespaces is this program, whichever it is. A test that
// was started with a command instead ran all of its tests again.
func TestNamespaceProbeDoesNothing(t *testing.T) {
	began := time.Now()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{namespaceProbe}
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("it says %q, %v", out, err)
	}
	hasUserNamespaces(context.Background())
	testload.Within(t, "the check for user namespaces", began, 2*namespaceTime)
}
