package gateway

import (
	"log/slog"
	"os"
	"testing"

	"github.com/runnel-dev/runnel"
)

// A connection of a deleted session may end after the session's record was
// removed.
func TestAttemptAfterTheRemovalOfItsRecordIsDropped(t *testing.T) {
	rs := newEgressRecords(t.TempDir(), slog.New(slog.DiscardHandler))
	report := rs.reached("s", runnel.Options{})
	report(runnel.EgressAttempt{ID: "1", Host: "example.com", Port: 443, Open: true})
	if _, err := os.Stat(rs.path("s")); err != nil {
		t.Fatal(err)
	}
	if err := rs.remove("s"); err != nil {
		t.Fatal(err)
	}
	report(runnel.EgressAttempt{ID: "1", Host: "example.com", Port: 443})
	if _, err := os.Stat(rs.path("s")); err == nil {
		t.Error("the record of a deleted session was written again")
	}
}
