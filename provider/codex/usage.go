package codex

import (
	"strconv"

	"github.com/runnel-dev/runnel/event"
)

// usage counts the tokens of a turn. The agent reports totals of the thread.
type usage struct {
	base  *tokens // the thread's total before the turn; nil if not known yet
	used  tokens
	known bool // used has a value
}

// add processes a report of the thread's total.
func (u *usage) add(n tokenUsage) {
	if u.base == nil { // a resumed conversation has no report from before the turn
		before := n.Total.minus(n.Last)
		u.base = &before
	}
	u.used, u.known = n.Total.minus(*u.base), true
}

// event returns the turn's usage so far, nil if the agent has not reported any.
func (u *usage) event() *event.Usage {
	if !u.known {
		return nil
	}
	n := u.used
	return &event.Usage{
		InputTokens: max(n.Input-n.Cached-n.CacheWrite, 0), OutputTokens: max(n.Output, 0),
		CacheReadInputTokens: max(n.Cached, 0), CacheCreationInputTokens: max(n.CacheWrite, 0), ReasoningTokens: max(n.Reasoning, 0),
	}
}

func (a tokens) minus(b tokens) tokens {
	return tokens{
		Total: a.Total - b.Total, Input: a.Input - b.Input, Cached: a.Cached - b.Cached, CacheWrite: a.CacheWrite - b.CacheWrite,
		Output: a.Output - b.Output, Reasoning: a.Reasoning - b.Reasoning,
	}
}

// limits are the rate limits of the account.
type limits struct{ last event.RateLimit }

// nearLimit is the used part of a limit, from 0 to 1, at which users are
// warned.
const nearLimit = 0.8

// update processes a report of the account's limits. It returns the most used
// limit, and whether it changed.
func (l *limits) update(n *rateLimits) (event.RateLimit, bool) {
	if n == nil {
		return l.last, false
	}
	var most limitWindow
	for _, w := range []*limitWindow{n.Primary, n.Secondary} {
		if w != nil && w.Used >= most.Used {
			most = *w
		}
	}
	if most == (limitWindow{}) && n.Reached == "" {
		return l.last, false
	}
	before := l.last
	l.last = event.RateLimit{Status: "allowed", Kind: window(most.Minutes), Utilization: min(max(most.Used/100, 0), 1), ResetsAt: max(most.ResetsAt, 0)}
	switch {
	case n.Reached != "":
		l.last.Status = "rejected"
	case l.last.Utilization >= nearLimit:
		l.last.Status = "allowed_warning"
	}
	return l.last, l.last != before
}

// window returns the name of a limit with a duration.
func window(minutes int64) string {
	switch {
	case minutes <= 0:
		return ""
	case minutes == 5*60:
		return "five_hour"
	case minutes == 7*24*60:
		return "seven_day"
	case minutes%60 == 0:
		return strconv.FormatInt(minutes/60, 10) + "_hour"
	}
	return strconv.FormatInt(minutes, 10) + "_minute"
}
