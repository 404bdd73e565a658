package acp

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// The adapter for Claude Code requests summaries of the reasoning, unless the
// session omits them, as in TestAdapterPassesOptionsOfAStartOn. Without
// RUNNEL_LONG=1, TestMCPServersCanBeUsed checks the default.
func TestAdapterAsksForReasoning(t *testing.T) {
	agentrig.NeedLong(t)
	for _, display := range []runnel.ThinkingDisplay{"", runnel.ThinkingSummarized} {
		r := newRig(t, "claude-agent-acp")
		r.Opt.ThinkingDisplay = display
		r.Play(fakemodel.Step{Text: "Done."})
		r.Finish("")
		if asked := r.requestedDisplays(); !slices.Contains(asked, "summarized") {
			t.Errorf("%q: the model was asked for %q", display, asked)
		}
		r.Close()
	}
}

// requestedDisplays returns the displays of reasoning in the requests to the
// model.
func (r *rig) requestedDisplays() (displays []string) {
	for _, q := range r.Model.Requests() {
		var body struct{ Thinking *struct{ Display string } }
		if q.Method == "POST" && json.Unmarshal(q.Body, &body) == nil && body.Thinking != nil {
			displays = append(displays, body.Thinking.Display)
		}
	}
	return displays
}
