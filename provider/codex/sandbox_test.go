package codex

import (
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
)

// TestAsksInSandboxAsConfigured runs Codex in a sandbox of Runnel. By default
// it asks before nothing there, because there is nothing outside of its limits.
func TestAsksInSandboxAsConfigured(t *testing.T) {
	agentrig.NeedSandbox(t)
	for name, c := range map[string]struct {
		mode runnel.PermissionMode
		conf runnel.Values
		asks int
	}{
		"default":          {"", nil, 0},
		"untrusted":        {"", runnel.Values{optionApproval: untrusted}, 1},
		"plan":             {runnel.ModePlan, nil, 1},
		"plan, never":      {runnel.ModePlan, runnel.Values{optionApproval: never}, 1},
		"plan, on-request": {runnel.ModePlan, runnel.Values{optionApproval: onRequest}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Enclose(runnel.SandboxProject)
			r.Opt.PermissionMode, r.Opt.Config = c.mode, c.conf
			r.Play(calls(shell("touch made")), says("Done."))
			evs, asked := r.DenyAll()
			if asked != c.asks || agentrig.Exists(r.File("made")) != (c.asks == 0) {
				t.Errorf("asked %d times, want %d\n%s", asked, c.asks, dump(evs))
			}
			if slices.ContainsFunc(bodies[event.Notice](evs), func(n event.Notice) bool { return n.Code == "PERMISSIONS_BYPASSED" }) {
				t.Error("warned that the agent runs without a sandbox")
			}
		})
	}
}
