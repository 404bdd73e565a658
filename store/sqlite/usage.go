package sqlite

import (
	"context"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/store"
)

// Statement that stores what an event reports about the usage of its turn. A
// later report replaces the values that it contains.
const putUsage = `INSERT INTO usage (turn, session, at, input, output, cache_read, cache_creation, reasoning, cost)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (turn) DO UPDATE SET at = excluded.at,
	input = coalesce(excluded.input, input), output = coalesce(excluded.output, output),
	cache_read = coalesce(excluded.cache_read, cache_read), cache_creation = coalesce(excluded.cache_creation, cache_creation),
	reasoning = coalesce(excluded.reasoning, reasoning), cost = coalesce(excluded.cost, cost)`

// noteUsage stores what the event of r reports about the usage of its turn, in
// the transaction that inserts the event. log is logs.key; turn is turns.key or
// nil.
func (w *writer) noteUsage(log, turn any, r row) error {
	tokens, cost := store.Reported(r.Body)
	if turn == nil || tokens == nil && cost == nil {
		return nil
	}
	args := make([]any, 9)
	args[0], args[1] = turn, log
	if at, ok := encodeTime(r.At).(int64); ok {
		args[2] = at
	}
	if tokens != nil {
		args[3], args[4], args[5] = tokens.InputTokens, tokens.OutputTokens, tokens.CacheReadInputTokens
		args[6], args[7] = tokens.CacheCreationInputTokens, tokens.ReasoningTokens
	}
	if cost != nil {
		args[8] = *cost
	}
	_, err := w.conn.ExecContext(context.Background(), putUsage, args...)
	return err
}

// usageKeys are the expressions of the groups.
var usageKeys = map[store.UsageKey]string{
	"":                   "''",
	store.UsageBySession: "s.id",
	store.UsageByProject: "s.project_dir",
	store.UsageByAgent:   "s.cli_type",
	store.UsageByDay:     "coalesce(date(u.at / 1000000000, 'unixepoch'), '')",
}

// Usage implements [store.Usages]. Events that are only in the journal, which
// are at most a second old, are missing. The end of a turn is never among them.
func (s *Store) Usage(ctx context.Context, f store.UsageFilter) ([]store.Usage, error) {
	if s.closed() {
		return nil, errClosed()
	}
	where, args := []string{"TRUE"}, []any{}
	for _, c := range []struct {
		wanted bool
		text   string
		arg    any
	}{
		{f.Session != "", "s.id = ?", f.Session},
		{f.ProjectDir != "", "s.project_dir = ?", f.ProjectDir},
		{f.CLIType != "", "s.cli_type = ?", f.CLIType},
		{!f.From.IsZero(), "u.at >= ?", nanos(f.From)},
		{!f.To.IsZero(), "u.at < ?", nanos(f.To)},
	} {
		if c.wanted {
			where, args = append(where, c.text), append(args, c.arg)
		}
	}
	order, limit := "spent DESC, tokens DESC, named", -1
	if f.By == store.UsageByDay {
		order = "named DESC"
	}
	if f.Limit > 0 {
		limit = f.Limit
	}
	scan := func(row scanner) (u store.Usage, err error) {
		var tokens int64
		t := &u.Tokens
		err = row.Scan(&u.Key, &u.Turns, &u.Unpriced, &u.CostUSD, &tokens, &t.InputTokens, &t.OutputTokens, &t.CacheReadInputTokens, &t.CacheCreationInputTokens, &t.ReasoningTokens)
		return u, err
	}
	return all(ctx, s, scan, "SELECT "+usageKeys[f.By]+` AS named, count(*), count(*) - count(u.cost), total(u.cost) AS spent,
		coalesce(sum(u.input), 0) + coalesce(sum(u.output), 0) AS tokens, coalesce(sum(u.input), 0), coalesce(sum(u.output), 0),
		coalesce(sum(u.cache_read), 0), coalesce(sum(u.cache_creation), 0), coalesce(sum(u.reasoning), 0)
		FROM usage u JOIN logs l ON l.key = u.session JOIN sessions s ON s.id = l.session JOIN turns t ON t.key = u.turn
		WHERE l.deleted = 0 AND NOT EXISTS (SELECT 1 FROM turns o JOIN logs p ON p.key = o.session
			WHERE o.turn = t.turn AND o.key < t.key AND p.deleted = 0)
		AND `+strings.Join(where, " AND ")+" GROUP BY named HAVING count(*) > 0 ORDER BY "+order+" LIMIT ?", append(args, limit)...)
}

// nanos returns t in the form of the column at, within its range.
func nanos(t time.Time) int64 {
	if at, ok := encodeTime(t).(int64); ok {
		return at
	}
	if t.Year() <= 1970 {
		return -1 << 63
	}
	return 1<<63 - 1
}
