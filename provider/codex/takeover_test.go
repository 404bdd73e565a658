package codex

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// TestRestoredTranslatorContinuesIdentically begins every turn of every recording a
// second time, from its checkpoint.
func TestRestoredTranslatorContinuesIdentically(t *testing.T) {
	recordtest.AllCheckpoints(t, 40, eachRecording, newTranslator)
}

// TestTakeoverRepeatsRecordedEvents takes over from every recording: what was said and
// was due is as if nothing had happened, and who takes over learns which turns
// the agent was given.
func TestTakeoverRepeatsRecordedEvents(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		back := recordtest.Relive(t, section(a, "in"), newTranslator)
		var prompts []string
		for _, ev := range translated(t, a) {
			if b, ok := ev.Body.(event.ItemStart); ok && b.ItemID == runnel.UserItemID(ev.Turn) {
				prompts = append(prompts, ev.Turn)
			}
		}
		if d := cmp.Diff(prompts, back.Prompts, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	})
}
