package sqlite

import (
	"database/sql"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// usageEvents are reports of several turns: replaced, partial, out of bounds,
// and without a time.
func usageEvents(session string) []event.Event {
	cost := func(c float64) *float64 { return &c }
	at := time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC)
	bodies := []struct {
		turn string
		at   time.Time
		body event.Body
	}{
		{"t1", at, event.UsageUpdated{Usage: &event.Usage{InputTokens: 1, CacheReadInputTokens: 2}, CostUSD: cost(9)}},
		{"t1", at, event.UsageUpdated{Usage: &event.Usage{InputTokens: 10, OutputTokens: 3, CacheCreationInputTokens: 4, ReasoningTokens: 5}}},
		{"t1", at.Add(time.Second), event.UsageUpdated{CostUSD: cost(0.125)}},
		{"t1", at, event.ResponseDone{Status: event.StatusCompleted}},
		{"t2", at.Add(-48 * time.Hour), event.ResponseDone{Status: event.StatusCompleted, Usage: &event.Usage{OutputTokens: 7}}},
		{"t3", time.Time{}, event.UsageUpdated{Usage: &event.Usage{InputTokens: math.MaxInt64, OutputTokens: -1}, CostUSD: cost(1e300)}},
		{"t4", at, event.UsageUpdated{CostUSD: cost(0)}},
		{"t5", at, event.UsageUpdated{ContextTokens: 100}},
		{"", at, event.UsageUpdated{CostUSD: cost(5)}},
	}
	evs := make([]event.Event, len(bodies))
	for i, b := range bodies {
		evs[i] = event.Event{Session: session, Seq: int64(i) + 1, Turn: b.turn, At: b.at, Body: b.body}
	}
	return evs
}

func usageOf(t *testing.T, s *Store, f store.UsageFilter) []store.Usage {
	t.Helper()
	got, err := s.Usage(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// wantUsage is the usage of usageEvents by day.
var wantUsage = []store.Usage{
	{Key: "2026-11-24", Turns: 2, CostUSD: 0.125, Tokens: event.Usage{InputTokens: 10, OutputTokens: 3, CacheCreationInputTokens: 4, ReasoningTokens: 5}},
	{Key: "2026-11-22", Turns: 1, Unpriced: 1, Tokens: event.Usage{OutputTokens: 7}},
	{Turns: 1, CostUSD: 1e9, Tokens: event.Usage{InputTokens: 1 << 40}},
}

// TestUsageOfOlderSchemaIsTotalled opens a database of schema version 11, which
// had no totals. The upgrade computes them from the events.
func TestUsageOfOlderSchemaIsTotalled(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	if err := s.PutSession(t.Context(), fixtureSession); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), "s", 0, usageEvents("s")...); err != nil {
		t.Fatal(err)
	}
	byDay := store.UsageFilter{By: store.UsageByDay}
	if d := cmp.Diff(wantUsage, usageOf(t, s, byDay)); d != "" {
		t.Fatalf("written (-want +got):\n%s", d)
	}
	inWriter(t, s, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(t.Context(), undo15+"DROP TABLE usage; ALTER TABLE reports DROP COLUMN commands; DROP TABLE push_subscriptions; DROP TABLE push_key; PRAGMA user_version = 11")
		return err
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, dir, small)
	if d := cmp.Diff(wantUsage, usageOf(t, s, byDay)); d != "" {
		t.Errorf("upgraded (-want +got):\n%s", d)
	}
}

// TestUsageSurvivesCrash copies the files of a store whose last reports are
// only in the journal, as a killed process leaves them, and opens the copy.
func TestUsageSurvivesCrash(t *testing.T) {
	dir, left := ownDir(t), ownDir(t)
	s := openTest(t, dir, small)
	if err := s.PutSession(t.Context(), fixtureSession); err != nil {
		t.Fatal(err)
	}
	for i, ev := range usageEvents("s") {
		if err := s.Append(t.Context(), "s", int64(i), ev); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"runnel.db", "runnel.db-wal", filepath.Base(journalPath(""))} {
		if err := os.WriteFile(filepath.Join(left, name), readFile(t, filepath.Join(dir, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = openTest(t, left, small)
	if d := cmp.Diff(wantUsage, usageOf(t, s, store.UsageFilter{By: store.UsageByDay})); d != "" {
		t.Errorf("after the crash (-want +got):\n%s", d)
	}
}

// TestDeletedSessionLeavesNoUsage deletes a session. Its row keys may be used
// again, so no row about its usage may stay.
func TestDeletedSessionLeavesNoUsage(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	if err := s.PutSession(t.Context(), fixtureSession); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), "s", 0, usageEvents("s")...); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteSession(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if got := usageOf(t, s, store.UsageFilter{}); len(got) != 0 {
		t.Errorf("usage of a deleted session: %+v", got)
	}
	s.keeper.stop()
	s.finishDeletions()
	inWriter(t, s, func(conn *sql.Conn) error {
		var rows int
		err := conn.QueryRowContext(t.Context(), "SELECT count(*) FROM usage").Scan(&rows)
		if rows != 0 {
			t.Errorf("%d rows are left", rows)
		}
		return err
	})
}
