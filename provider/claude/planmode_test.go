package claude

import (
	"testing"

	"github.com/runnel-dev/runnel"
)

// The model enters the plan mode without a question. There, a model of the API
// would decide about each call instead of a person.
func TestNoModelDecidesAboutCallsInPlanMode(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		for _, mode := range []runnel.PermissionMode{runnel.ModeDefault, runnel.ModePlan} {
			t.Run(string(mode), func(t *testing.T) {
				planning := *r.Rig
				planning.T, planning.Conn = t, nil
				planning.Opt.PermissionMode = mode
				r := &rig{&planning}
				r.Open()
				r.Play(calls(use("EnterPlanMode", args{})), says("ok"))
				r.Finish(deny)
				asksBefore(r)
				if err := r.Conn.(runnel.ToolDisallower).SetDisallowedTools(t.Context(), []string{"WebSearch"}); err != nil {
					t.Fatal(err)
				}
				asksBefore(r)
				r.Close()
			})
		}
	})
}

// asksBefore lets the model call a command that the agent's other modes ask about.
func asksBefore(r *rig) {
	r.T.Helper()
	r.Play(calls(bash("touch made", "Make a file")), says("ok"))
	if evs, asked := r.DenyAll(); asked != 1 || exists(r.File("made")) {
		r.T.Errorf("the agent asked %d times: %q", asked, results(evs))
	}
}
