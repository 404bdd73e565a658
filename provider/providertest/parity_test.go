package providertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/event"
)

func TestFactsMatchPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, fact string
		want          bool
	}{
		{"turn 1: end", "turn 1: end", true}, {"turn 1: end", "turn 1: ends", false}, {"turn *: cost: only live", "turn 12: cost: only live", true},
		{"*approvals: only live", "approvals: only live", true}, {"*approvals: only live", "turn 2: approvals: only stored", false},
		{"turn *: item *: only live", "turn 1: item c/1:0: only live", true}, {"turn *: item *: only live", "turn 1: usage: only live", false}, {"a*a", "a", false},
	} {
		if got := matches(c.pattern, c.fact); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.fact, got)
		}
	}
}

func TestDifferencesAreNamedByTheirFact(t *testing.T) {
	message := func(turn, id, text string) []event.Event {
		return []event.Event{
			{Turn: turn, Body: event.ItemStart{ItemID: turn + ":" + id, ItemType: event.TypeMessage}},
			{Turn: turn, Body: event.ItemDone{ItemID: turn + ":" + id, FinalItem: event.Message{Content: text, Origin: event.OriginAgent}}},
		}
	}
	end := func(turn string, s event.TurnStatus) event.Event {
		return event.Event{Turn: turn, Body: event.ResponseDone{Status: s}}
	}
	file := event.Event{Body: event.SessionUpdated{Files: []event.AgentFile{{Path: "/plans/p.md", Kind: "plan"}}}}
	notice := event.Event{Turn: "a", Body: event.Notice{Code: "N", Message: "n"}}
	live := append(append(append(message("a", "1:0", "x"), message("a", "2:0", "same")...), end("a", event.StatusCompleted), file, notice), message("b", "1:0", "y")...)
	stored := append(append(append(message("a", "2:0", "same"), message("a", "1:0", "z")...), end("a", event.StatusCancelled)), message("c", "1:0", "y")...)
	var got []string
	for _, d := range differ(readFacts(live), readFacts(stored)) {
		got = append(got, d.fact)
	}
	if d := cmp.Diff([]string{
		"file plan p.md: only live", "turn 1: end", "turn 1: item 1:0: content", "turn 1: notice N: only live", "turn 1: order of items",
		"turn 2: only live", "turn 2: only stored",
	}, got); d != "" {
		t.Error(d)
	}
}
