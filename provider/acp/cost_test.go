package acp

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/internal/translate"
)

// TestResumedCostIsNotCountedTwice reads recordings of a turn after a
// resumption. The earlier turn cost more than the recorded turn could. 0.100.0
// reports the cost of both turns, so the cost of the recorded one is unknown.
func TestResumedCostIsNotCountedTwice(t *testing.T) {
	for name, want := range map[string][]float64{"resume@0.49.0": {0.0055}, "resume@0.100.0": nil} {
		arc, err := txtar.ParseFile(filepath.Join("testdata", "claude-agent-acp", name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, b := range bodies[event.UsageUpdated](recordtest.Translated(t, New(agents[slices.IndexFunc(agents, func(a Agent) bool { return a.Name == "claude-agent-acp" })]).(runnel.Translator), section(arc, "in"))) {
			if b.CostUSD != nil {
				got = append(got, *b.CostUSD)
			}
		}
		if len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
			t.Errorf("%s: costs %v, want %v", name, got, want)
		}
	}
}

// Turns after the first one of a resumed conversation have their cost, also if
// a restarted server continues from a checkpoint.
func TestCostIsKnownAfterFirstTurnOfResumedConversation(t *testing.T) {
	ts := &turns{session: &session{q: &quirks{}}, emitter: new(translate.Emitter), costUnknown: true}
	report := func(amount float64) *float64 {
		ts.usageUpdated(update{Cost: &cost{Amount: amount, Currency: "USD"}}, true)
		var last *float64
		for _, b := range bodies[event.UsageUpdated](ts.emitter.Take()) {
			last = b.CostUSD
		}
		return last
	}
	ts.begin("t1", true)
	if got := report(5); got != nil {
		t.Errorf("first turn: %v", *got)
	}
	if got := report(5.5); got != nil {
		t.Errorf("first turn, second report: %v", *got)
	}
	ts.begin("t2", true)
	if got := report(5.75); got == nil || *got != 0.25 {
		t.Errorf("second turn: %v", got)
	}
}
