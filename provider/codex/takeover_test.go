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

// TestRestoredTranslatorContinuesIdentically checks, for every turn of every
// recording, that a translator restored from the checkpoint before the turn
// emits the same events.
func TestRestoredTranslatorContinuesIdentically(t *testing.T) {
	recordtest.AllCheckpoints(t, 40, eachRecording, newTranslator)
}

// TestTakeoverRepeatsRecordedEvents takes over an agent after parts of every
// recording. The events and the due replies must equal those of an undisturbed
// session. The backlog must contain the turns whose prompts the agent received.
func TestTakeoverRepeatsRecordedEvents(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		back := recordtest.CheckTakeovers(t, section(a, "in"), newTranslator)
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
