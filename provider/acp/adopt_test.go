package acp

import (
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel/internal/recordtest"
)

// TestCheckpointHoldsAllThatATurnNeeds starts a second translator at every turn
// of every recording, from the checkpoint before the turn.
func TestCheckpointHoldsAllThatATurnNeeds(t *testing.T) {
	points := 0
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, _ string, arc *txtar.Archive) {
		points += recordtest.Checkpoints(t, section(arc, "in"), func() *translator { return newTranslator(a) })
	})
	if points < 20 {
		t.Errorf("only %d turns were begun at a checkpoint", points)
	}
}

// TestRelivedIsWhatWasLived simulates takeovers at every line of every
// recording. The events and the due replies must be the same as without a
// takeover.
func TestRelivedIsWhatWasLived(t *testing.T) {
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, _ string, arc *txtar.Archive) {
		recordtest.CheckTakeovers(t, section(arc, "in"), func() *translator { return newTranslator(a) })
	})
}
