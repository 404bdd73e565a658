package codex

import (
	"bytes"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/internal/fakemodel"
)

func TestSystemPromptReachesTheModel(t *testing.T) {
	const text = "--settings={} Answer in plain words."
	r := newRig(t)
	r.Opt.SystemPromptAppend = text
	r.Send("hi")
	r.FinishTurn("")
	if !slices.ContainsFunc(r.Model.Requests(), func(q fakemodel.Request) bool { return bytes.Contains(q.Body, []byte(text)) }) {
		t.Error("the model did not receive the text")
	}
}
