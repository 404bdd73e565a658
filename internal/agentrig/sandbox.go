package agentrig

import (
	"net/url"
	"os"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/sandbox"
)

// NeedSandbox skips the test if this machine can make no sandboxes.
func NeedSandbox(t testing.TB) {
	t.Helper()
	if err := sandbox.Check(t.Context()); err != nil {
		t.Skip(err)
	}
}

// NeedLong skips a test that repeats others, unless RUNNEL_LONG=1 is set.
func NeedLong(t testing.TB) {
	t.Helper()
	if os.Getenv("RUNNEL_LONG") == "" {
		t.Skip("repeats other tests: RUNNEL_LONG=1")
	}
}

// Enclose makes the agent start in a sandbox, which reaches the rig's model.
func (r *Rig) Enclose(box runnel.Sandbox) {
	r.T.Helper()
	r.Opt.Sandbox = box
	if box != runnel.SandboxProject {
		return
	}
	model, err := url.Parse(r.Model.URL())
	if err != nil {
		r.T.Fatal(err)
	}
	r.Opt.Egress.Allow = append(r.Opt.Egress.Allow, "localhost:"+model.Port())
}
