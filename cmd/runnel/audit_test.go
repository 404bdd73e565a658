package main

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/audit"
)

// A program that can write to the data directory can put anything into the
// entries that the command prints.
func TestAuditPrintsNoControlSequencesOfChangedEntries(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		a := &app{out: &out}
		if err := a.printAuditEntry(audit.Record{N: 1, Kind: "\u009b2J", Who: "\u202eresu", What: "\x7f\x1b]0;title\a", Session: "\u2066"}, asJSON); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSuffix(out.String(), "\n"); strings.ContainsAny(got, "\u009b\u202e\u2066\x7f\x1b\a\n") {
			t.Errorf("JSON %v: printed %q", asJSON, got)
		}
	}
}
