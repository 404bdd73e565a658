package store

import (
	"context"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// Usages totals what the agents of sessions have reported about their usage.
// The totals are part of the log: a total contains a turn's usage if and only
// if the log contains the event that reports it.
type Usages interface {
	// Usage returns the totals that f selects. It groups them by f.By. Days are
	// sorted newest first, other groups by their cost, highest first, and then
	// by their tokens.
	//
	// A turn that several sessions contain, because a session was forked or a
	// conversation was imported twice, counts once: for the oldest of them.
	Usage(ctx context.Context, f UsageFilter) ([]Usage, error)
}

// A UsageKey is a property of turns by which their usage is grouped.
type UsageKey string

// The properties of turns.
const (
	UsageBySession UsageKey = "session" // id of the session
	UsageByProject UsageKey = "project" // Session.ProjectDir
	UsageByAgent   UsageKey = "agent"   // Session.CLIType
	UsageByDay     UsageKey = "day"     // UTC day of the turn's last report, such as 2026-11-24
)

// A UsageFilter selects turns and groups them. The zero value selects all turns
// as one group.
type UsageFilter struct {
	By         UsageKey  // Default: one group with the key ""
	Session    string    // "" for all
	ProjectDir string    // "" for all
	CLIType    string    // "" for all
	From, To   time.Time // time of the turn's last report: From or later, and before To. Zero: no bound
	Limit      int       // maximum number of groups. Default: no limit
}

// A Usage is the usage of a group of turns.
type Usage struct {
	Key      string
	Turns    int64       // turns whose agent reported tokens or a cost
	Unpriced int64       // turns among them whose agent reported no cost
	Tokens   event.Usage // sum over the turns
	CostUSD  float64     // sum over the turns that have a cost
}

// Bounds of what a turn can contribute, so that a sum of untrusted reports
// cannot overflow.
const (
	maxTurnTokens  = 1 << 40
	maxTurnCostUSD = 1e9
)

// Reported returns what b reports about the usage of its turn so far. tokens or
// costUSD is nil if b does not report it. Both values are bounded and not
// negative.
func Reported(b event.Body) (tokens *event.Usage, costUSD *float64) {
	switch b := b.(type) {
	case event.UsageUpdated:
		tokens, costUSD = b.Usage, b.CostUSD
	case event.ResponseDone:
		tokens = b.Usage
	}
	if tokens != nil {
		t := *tokens
		for _, n := range []*int64{&t.InputTokens, &t.OutputTokens, &t.CacheReadInputTokens, &t.CacheCreationInputTokens, &t.ReasoningTokens} {
			*n = min(max(*n, 0), maxTurnTokens)
		}
		tokens = &t
	}
	if costUSD != nil {
		c := min(max(*costUSD, 0), maxTurnCostUSD)
		costUSD = &c
	}
	return tokens, costUSD
}
