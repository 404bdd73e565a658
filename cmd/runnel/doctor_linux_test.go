package main

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testload"
)

// The probe for user namespaces starts the running program, here the test
// binary. The probe must exit at once; otherwise the child would run all tests
// again.
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
