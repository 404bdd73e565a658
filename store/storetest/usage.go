package storetest

import (
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// spend appends a turn whose agent reports twice; the second report replaces
// the first. costUSD is not reported if it is negative.
func spend(t *testing.T, log runnel.Log, session, turn string, day time.Time, input, output int64, costUSD float64) {
	t.Helper()
	st, err := log.State(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	last := event.UsageUpdated{Usage: &event.Usage{InputTokens: input, OutputTokens: output, ReasoningTokens: 1}}
	if costUSD >= 0 {
		last.CostUSD = &costUSD
	}
	evs := numbered(session, turn, st.Head,
		event.ResponseStart{ProviderID: "script"},
		event.UsageUpdated{Usage: &event.Usage{InputTokens: 7}, CostUSD: ptr(99.0)},
		last,
		event.UsageUpdated{ContextTokens: 5}, // reports no usage
		event.ResponseDone{Status: event.StatusCompleted, Usage: last.Usage},
	)
	if costUSD < 0 {
		evs[1].Body = event.UsageUpdated{Usage: &event.Usage{InputTokens: 7}}
	}
	for i := range evs {
		evs[i].At = day
	}
	if err := log.Append(t.Context(), session, st.Head, evs...); err != nil {
		t.Fatal(err)
	}
}

func usage(t *testing.T, c store.Catalogue, f store.UsageFilter) []store.Usage {
	t.Helper()
	return must[[]store.Usage](t)(c.Usage(t.Context(), f))
}

func testUsage(t *testing.T, log runnel.Log, c store.Catalogue) {
	if got := usage(t, c, store.UsageFilter{}); len(got) != 0 {
		t.Errorf("the usage of no turn is %+v", got)
	}
	a, b := full("a"), full("b")
	b.ProjectDir, b.CLIType, b.CreatedAt = "/q", "codex", at.Add(time.Hour)
	put(t, c, a, b)
	day := time.Date(2026, 11, 23, 23, 59, 59, 0, time.UTC)
	spend(t, log, "a", "t1", day, 100, 10, 0.5)
	spend(t, log, "a", "t2", day.Add(time.Second), 200, 20, 0.25)
	spend(t, log, "b", "t3", day.Add(time.Second), 1000, 100, -1)
	spend(t, log, "nobody", "t4", day, 1, 1, 1) // has no record

	group := func(key string, turns, unpriced, in, out int64, cost float64) store.Usage {
		return store.Usage{Key: key, Turns: turns, Unpriced: unpriced, CostUSD: cost, Tokens: event.Usage{InputTokens: in, OutputTokens: out, ReasoningTokens: turns}}
	}
	allOfA, allOfB := group("a", 2, 0, 300, 30, 0.75), group("b", 1, 1, 1000, 100, 0)
	named := func(u store.Usage, key string) store.Usage { u.Key = key; return u }
	equal(t, "total", usage(t, c, store.UsageFilter{}), []store.Usage{group("", 3, 1, 1300, 130, 0.75)})
	equal(t, "by session", usage(t, c, store.UsageFilter{By: store.UsageBySession}), []store.Usage{allOfA, allOfB})
	equal(t, "by project", usage(t, c, store.UsageFilter{By: store.UsageByProject}), []store.Usage{named(allOfA, "/p"), named(allOfB, "/q")})
	equal(t, "by agent", usage(t, c, store.UsageFilter{By: store.UsageByAgent}), []store.Usage{named(allOfA, "claude-code"), named(allOfB, "codex")})
	equal(t, "by day", usage(t, c, store.UsageFilter{By: store.UsageByDay}), []store.Usage{
		group("2026-11-24", 2, 1, 1200, 120, 0.25), group("2026-11-23", 1, 0, 100, 10, 0.5),
	})
	for name, f := range map[string]store.UsageFilter{"project": {ProjectDir: "/q"}, "agent": {CLIType: "codex"}, "session": {Session: "b"}} {
		equal(t, "of one "+name, usage(t, c, f), []store.Usage{named(allOfB, "")})
	}
	equal(t, "limited", usage(t, c, store.UsageFilter{By: store.UsageBySession, Limit: 1}), []store.Usage{allOfA})
	equal(t, "from", usage(t, c, store.UsageFilter{From: day.Add(time.Second), Session: "a"}), []store.Usage{group("", 1, 0, 200, 20, 0.25)})
	equal(t, "to", usage(t, c, store.UsageFilter{To: day.Add(time.Second)}), []store.Usage{group("", 1, 0, 100, 10, 0.5)})
	equal(t, "none", len(usage(t, c, store.UsageFilter{Session: "a", CLIType: "codex"})), 0)
	if err := c.DeleteSession(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	equal(t, "after the deletion", usage(t, c, store.UsageFilter{}), []store.Usage{named(allOfB, "")})
}

// A copy of a session contains the turns of the original. They count once.
func testUsageOfCopies(t *testing.T, log runnel.Log, c store.Catalogue) {
	original, copied := full("a"), full("copy")
	copied.CreatedAt = at.Add(time.Hour)
	put(t, c, original, copied)
	spend(t, log, "a", "t1", at, 100, 10, 0.5)
	spend(t, log, "copy", "t1", at, 100, 10, 0.5)
	spend(t, log, "copy", "t2", at, 1, 2, 0.25)
	got := usage(t, c, store.UsageFilter{By: store.UsageBySession})
	if len(got) != 2 || got[0].Key != "a" || got[0].Turns != 1 || got[1].Turns != 1 || got[1].CostUSD != 0.25 {
		t.Errorf("usage by session: %+v", got)
	}
	if got := usage(t, c, store.UsageFilter{}); got[0].CostUSD != 0.75 {
		t.Errorf("total: %+v", got)
	}
}

// Reports of agents are untrusted: no sum overflows, and none is negative.
func testUsageIsBounded(t *testing.T, log runnel.Log, c store.Catalogue) {
	put(t, c, full("a"))
	const most = 1<<63 - 1
	spend(t, log, "a", "t1", at, most, most, 1e308)
	spend(t, log, "a", "t2", at, most, most, 1e308)
	spend(t, log, "a", "t3", time.Time{}, -most, 5, 0)
	got := usage(t, c, store.UsageFilter{})
	if u := got[0]; u.Turns != 3 || u.Tokens.InputTokens != 2<<40 || u.Tokens.OutputTokens != 2<<40+5 || u.CostUSD != 2e9 {
		t.Errorf("usage: %+v", u)
	}
	if got := usage(t, c, store.UsageFilter{By: store.UsageByDay}); len(got) != 2 || got[1].Key != "" {
		t.Errorf("a turn without a time: %+v", got)
	}
}
