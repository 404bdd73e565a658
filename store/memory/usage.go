package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A turnUsage is what the agent of a session reported about a turn.
type turnUsage struct {
	at     time.Time // of the last report
	tokens event.Usage
	cost   *float64
}

// Usage implements [store.Usages]. It reads the logs of all sessions.
func (c *Catalogue) Usage(ctx context.Context, f store.UsageFilter) ([]store.Usage, error) {
	if c.log == nil {
		return nil, nil
	}
	all, err := c.Sessions(ctx, store.SessionFilter{Dead: true})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b store.Session) int { return a.CreatedAt.Compare(b.CreatedAt) })
	groups, counted := make(map[string]*store.Usage), make(map[string]bool)
	for _, s := range all {
		turns, err := c.reported(ctx, s.ID)
		if err != nil {
			return nil, err
		}
		for id, t := range turns {
			first := !counted[id]
			counted[id] = true
			if !first || f.Session != "" && f.Session != s.ID || f.ProjectDir != "" && f.ProjectDir != s.ProjectDir ||
				f.CLIType != "" && f.CLIType != s.CLIType || !f.From.IsZero() && t.at.Before(f.From) || !f.To.IsZero() && !t.at.Before(f.To) {
				continue
			}
			key := usageKey(f.By, s, t.at)
			if groups[key] == nil {
				groups[key] = &store.Usage{Key: key}
			}
			t.addTo(groups[key])
		}
	}
	return sortedUsage(groups, f), nil
}

// reported returns what the log of a session has about the usage of its turns.
func (c *Catalogue) reported(ctx context.Context, session string) (map[string]turnUsage, error) {
	turns := make(map[string]turnUsage)
	for ev, err := range c.log.Read(ctx, session, 0) {
		if err != nil {
			return nil, err
		}
		tokens, cost := store.Reported(ev.Body)
		if ev.Turn == "" || tokens == nil && cost == nil {
			continue
		}
		t := turns[ev.Turn]
		t.at = ev.At
		if tokens != nil {
			t.tokens = *tokens
		}
		if cost != nil {
			t.cost = cost
		}
		turns[ev.Turn] = t
	}
	return turns, nil
}

func usageKey(by store.UsageKey, s store.Session, at time.Time) string {
	switch by {
	case store.UsageBySession:
		return s.ID
	case store.UsageByProject:
		return s.ProjectDir
	case store.UsageByAgent:
		return s.CLIType
	case store.UsageByDay:
		if at.IsZero() {
			return ""
		}
		return at.UTC().Format(time.DateOnly)
	}
	return ""
}

func (t turnUsage) addTo(u *store.Usage) {
	u.Turns++
	if t.cost == nil {
		u.Unpriced++
	} else {
		u.CostUSD += *t.cost
	}
	u.Tokens.InputTokens += t.tokens.InputTokens
	u.Tokens.OutputTokens += t.tokens.OutputTokens
	u.Tokens.CacheReadInputTokens += t.tokens.CacheReadInputTokens
	u.Tokens.CacheCreationInputTokens += t.tokens.CacheCreationInputTokens
	u.Tokens.ReasoningTokens += t.tokens.ReasoningTokens
}

func sortedUsage(groups map[string]*store.Usage, f store.UsageFilter) []store.Usage {
	var list []store.Usage
	for _, u := range groups {
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b store.Usage) int {
		if f.By == store.UsageByDay {
			return cmp.Compare(b.Key, a.Key)
		}
		return cmp.Or(cmp.Compare(b.CostUSD, a.CostUSD),
			cmp.Compare(b.Tokens.InputTokens+b.Tokens.OutputTokens, a.Tokens.InputTokens+a.Tokens.OutputTokens), cmp.Compare(a.Key, b.Key))
	})
	if f.Limit > 0 && len(list) > f.Limit {
		list = list[:f.Limit]
	}
	return list
}
