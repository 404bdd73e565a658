package codex

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A client can end plan mode by changing only the option sandbox. The settings then
// belong to no permission mode, and the session must not be reported as in plan mode.
func TestOptionSandboxEndsPlanMode(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{workspace: "default", readOnly: ""} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Opt.PermissionMode = runnel.ModePlan
			r.Send("Say something")
			r.FinishTurn("")
			if err := r.Conn.(*conn).SetConfig(t.Context(), optionSandbox, value); err != nil {
				t.Fatal(err)
			}
			r.Send("Go on")
			var modes []string
			for _, ev := range r.FinishTurn("") {
				if b, ok := ev.Body.(event.SessionUpdated); ok && b.PermissionMode != "" {
					modes = append(modes, b.PermissionMode)
				}
			}
			if got := strings.Join(modes, " "); got != want {
				t.Errorf("the mode becomes %q, want %q", got, want)
			}
		})
	}
}

// If an option is changed alone in plan mode, the session reports another mode. That
// mode must not promise more questions than the agent asks.
func TestModeOfOptionsThatWereChangedInPlan(t *testing.T) {
	for s, want := range map[mode]runnel.PermissionMode{
		{onRequest, readOnly, true}:   runnel.ModePlan,
		{never, readOnly, true}:       runnel.ModePlan,
		{onRequest, workspace, true}:  runnel.ModeDefault,
		{untrusted, workspace, true}:  runnel.ModeDefault,
		{never, workspace, true}:      runnel.ModeDontAsk,
		{onRequest, fullAccess, true}: runnel.ModeBypass,
		{never, fullAccess, true}:     runnel.ModeBypass,
		{onRequest, "", true}:         "",
	} {
		got := (&settings{Approval: s.approval, Sandbox: s.sandbox, Plan: s.plan, Asked: string(runnel.ModePlan)}).permissionMode()
		if got != string(want) {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}
