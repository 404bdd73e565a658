package acp

import (
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
)

// The agent would accept edits in its mode default, or ask about them, as it
// started.
func TestModesOfTheStartCannotChangeLater(t *testing.T) {
	eachOf(t, []string{"opencode", "qwen"}, func(t *testing.T, r *rig) {
		r.Opt.PermissionMode = runnel.ModeAcceptEdits
		r.Open()
		change := func(mode runnel.PermissionMode, want runnel.Code) {
			t.Helper()
			err := r.Conn.(runnel.ModeSetter).SetPermissionMode(t.Context(), mode)
			check := r.Conn.(runnel.SettingsChecker).CheckSettings(runnel.Settings{PermissionMode: mode})
			if runnel.CodeOf(err) != want || runnel.CodeOf(check) != want {
				t.Errorf("change to %q: %v, %v", mode, err, check)
			}
		}
		change(runnel.ModeAcceptEdits, "")
		change(runnel.ModeDefault, runnel.InvalidRequest)
		change(runnel.ModePlan, runnel.InvalidRequest)
		if err := r.Conn.(runnel.ConfigSetter).SetConfig(t.Context(), "mode", "plan"); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("plan: %v", err)
		}
		if got := r.Conn.(runnel.SettingsReporter).Settings().PermissionMode; got != runnel.ModeAcceptEdits {
			t.Errorf("the mode is %q", got)
		}
		r.Close()
		r.Opt.PermissionMode = ""
		r.Open()
		change(runnel.ModeAcceptEdits, runnel.InvalidRequest)
		if r.Agent.Name == "qwen" {
			if err := r.Conn.(runnel.ConfigSetter).SetConfig(t.Context(), "mode", "auto-edit"); runnel.CodeOf(err) != runnel.InvalidRequest {
				t.Errorf("auto-edit: %v", err)
			}
		}
		if in := r.Provider.(runnel.Prober).Probe(t.Context()); !slices.Contains(in.Modes, "acceptEdits") {
			t.Errorf("modes %v", in.Modes)
		}
	})
}
