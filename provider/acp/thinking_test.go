package acp

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// The adapter for Claude Code requests the reasoning display that the session
// selects. The default is summaries.
func TestAdapterAsksForReasoning(t *testing.T) {
	for _, tt := range []struct {
		display runnel.ThinkingDisplay
		summary bool
	}{{"", true}, {runnel.ThinkingSummarized, true}, {runnel.ThinkingOmitted, false}} {
		r := newRig(t, "claude-agent-acp")
		r.Opt.ThinkingDisplay = tt.display
		r.Play(fakemodel.Step{Text: "Done."})
		r.Finish("")
		var asked []string
		for _, q := range r.Model.Requests() {
			var body struct{ Thinking *struct{ Display string } }
			if q.Method == "POST" && json.Unmarshal(q.Body, &body) == nil && body.Thinking != nil {
				asked = append(asked, body.Thinking.Display)
			}
		}
		if len(asked) == 0 || slices.Contains(asked, "summarized") != tt.summary {
			t.Errorf("%q: the model was asked for %q", tt.display, asked)
		}
		r.Close()
	}
}
