package runnel

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/runnel-dev/runnel/event"
)

// maxReachCounted is how many decisions of rules Config.Decided gets one by one
// in a turn, or outside of turns from one agent. A program in a sandbox chooses
// hosts and ports, and must not flood the audit log, which removes old entries.
const maxReachCounted = 50

// reachCount is what Config.Decided got of the decisions of rules in a turn, or
// outside of turns from one agent: the first one of each host, port and rule, up
// to maxReachCounted, and at the end the number of further ones. Only the actor
// uses it.
type reachCount struct {
	passed map[string]bool // by host, port and rule
	rest   []reachRest
}

// reachRest counts decisions with the same choice and maker that Config.Decided
// does not get one by one.
type reachRest struct {
	last Decided
	n    int
}

// add reports whether Config.Decided gets a decision at once.
func (c *reachCount) add(d Decided, key string) bool {
	switch {
	case c.passed[key]:
		return false
	case len(c.passed) < maxReachCounted:
		if c.passed == nil {
			c.passed = make(map[string]bool)
		}
		c.passed[key] = true
		return true
	}
	i := slices.IndexFunc(c.rest, func(r reachRest) bool {
		return r.last.Resolved.Choice == d.Resolved.Choice && r.last.Maker.Name == d.Maker.Name
	})
	if i < 0 {
		i, c.rest = len(c.rest), append(c.rest, reachRest{})
	}
	c.rest[i] = reachRest{d, c.rest[i].n + 1}
	return false
}

// end returns one entry for the further decisions of each choice and maker.
func (c *reachCount) end() (out []Decided) {
	for _, r := range c.rest {
		d := r.last
		d.Approval = event.Approval{
			Kind: d.Approval.Kind, ToolName: d.Approval.ToolName, Choices: d.Approval.Choices,
			Title: fmt.Sprintf("Reach hosts in %d more connections", r.n),
		}
		d.Resolved = event.ApprovalResolved{Choice: d.Resolved.Choice, By: d.Resolved.By, Reason: fmt.Sprintf("only the first %d are recorded one by one", maxReachCounted)}
		d.Maker = Maker{Name: d.Maker.Name}
		out = append(out, d)
	}
	c.rest = nil
	return out
}

// countReach passes a decision of a rule to Config.Decided, or counts it.
func (s *Session) countReach(l *link, d Decided, key string) {
	c := &l.counted
	if lt := s.reachingTurn(); lt != nil {
		c, d.Turn = &lt.reach.counted, lt.rules.turn
	}
	if s.cfg.Decided != nil && c.add(d, key+" "+strconv.FormatInt(d.Maker.Rule, 10)) {
		s.cfg.Decided(d)
	}
}

// endCount passes the number of further decisions to Config.Decided.
func (s *Session) endCount(c *reachCount) {
	for _, d := range c.end() {
		s.cfg.Decided(d)
	}
}
