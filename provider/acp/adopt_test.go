package acp

import (
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel/internal/recordtest"
)

// TestCheckpointHoldsAllThatATurnNeeds begins every turn of every recording a
// second time, from its checkpoint.
func TestCheckpointHoldsAllThatATurnNeeds(t *testing.T) {
	points := 0
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, _ string, arc *txtar.Archive) {
		points += recordtest.Checkpoints(t, section(arc, "in"), func() *translator { return newTranslator(a) })
	})
	if points < 20 {
		t.Errorf("only %d turns were begun at a checkpoint", points)
	}
}

// TestRelivedIsWhatWasLived takes over from every recording: what was said and
// was due is as if nothing had happened.
func TestRelivedIsWhatWasLived(t *testing.T) {
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, _ string, arc *txtar.Archive) {
		recordtest.CheckTakeovers(t, section(arc, "in"), func() *translator { return newTranslator(a) })
	})
}
