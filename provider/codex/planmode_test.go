package codex

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// The option sandbox can end the mode plan alone. No permission mode has these
// settings then, and the session must not be said to be in plan.
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
