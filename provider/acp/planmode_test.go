package acp

import (
	"testing"

	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// The model enters the plan mode without a question. There, a model of the API
// would decide about each call instead of a person.
func TestNoModelDecidesAboutCallsInPlanMode(t *testing.T) {
	eachOf(t, []string{"claude-agent-acp"}, func(t *testing.T, r *rig) {
		r.Open()
		r.Play(calls(fakemodel.Call("EnterPlanMode", args{})), said)
		r.DenyAll()
		r.Play(calls(r.words().Shell("touch made")), said)
		if evs, asked := r.DenyAll(); asked != 1 || agentrig.Exists(r.File("made")) {
			t.Errorf("the agent asked %d times: %s", asked, agentrig.Dump(evs))
		}
	})
}
