package codex

import (
	"strconv"

	"github.com/runnel-dev/runnel/event"
)

// usage is what a turn used. The agent reports totals of the thread.
type usage struct {
	base  *tokens // used before the turn; nil: not known yet
	used  tokens
	known bool // used is known
}

// add takes what the thread has used.
func (u *usage) add(n tokenUsage) {
	if u.base == nil { // the conversation was resumed: what it used before is not reported
		before := n.Total.minus(n.Last)
		u.base = &before
	}
	u.used, u.known = n.Total.minus(*u.base), true
}

// event is what the turn used so far; nil if nothing was reported.
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

// limits are those of the account.
type limits struct{ last event.RateLimit }

// nearLimit is from how much of a limit on it counts as nearly used up.
const nearLimit = 0.8

// update takes what the account has used of its limits. It returns the one that
// is used most, and whether that has changed.
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

// window names a limit by how long it lasts.
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
