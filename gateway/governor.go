package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/policy"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/profile"
)

// Codes of the notices about profiles and delegation.
const (
	ForbiddenToolRan  = "FORBIDDEN_TOOL_RAN"
	DelegationAllowed = "DELEGATION_ALLOWED"
	DelegationRefused = "DELEGATION_REFUSED"
)

// A governor enforces a session's profile and decides, by the gates of package
// profile, whether the session may delegate to a subagent. It is safe for
// concurrent use and never blocks.
type governor struct {
	log     *slog.Logger
	session string
	tools   []string // tools with which the agent starts subagents
	key     string   // argument in which they name the subagent; "": any of subagentKeys

	mu            sync.Mutex // guards the rest
	rules         constraints
	turn          turnRules
	startUnlogged bool                      // no notice about rules.start has been logged yet
	permits       map[string]profile.Permit // decided delegations, by id of the approval and by id of the call
	watched       map[string]string         // tools of calls that should not run, by id of the call
}

// maxWatched limits how many calls of a session a governor remembers.
const maxWatched = 1000

// constraints are the rules under which a session's agent was started.
type constraints struct {
	profile    *profile.Profile    // nil: none
	lost       bool                // the session's profile cannot be read, so people decide every approval
	governed   bool                // the session has governed delegation
	on         bool                // Config.GovernedDelegation
	governance *profile.Governance // limits of the session's delegation; nil: none, and nothing is delegated
	targets    map[string]target   // by name, the subagents that profile lists
	asks       bool                // the agent asks before each delegation
	start      *profile.Permit     // whether the agent gets its tools for subagents; nil: the session asked for no delegation
}

// A target is the profile of a subagent, or the error with which reading it
// failed.
type target struct {
	profile *profile.Profile
	err     error
}

// turnRules are the rules of one turn. They apply in addition to the session's.
type turnRules struct {
	Turn       string              `json:"turn"`
	Persona    string              `json:"persona,omitzero"`
	Governance *profile.Governance `json:"subagentGovernance,omitzero"`
	Unattended bool                `json:"unattended,omitzero"`
	Budget     runnel.Budget       `json:"budget,omitzero"`

	profile *profile.Profile
}

func newGovernor(log *slog.Logger, session string, p runnel.Provider) *governor {
	g := &governor{log: log, session: session, permits: make(map[string]profile.Permit), watched: make(map[string]string)}
	if t, ok := p.(runnel.OptionTaker); ok {
		g.tools, g.key = t.Takes().SubagentTools, t.Takes().SubagentKey
	}
	return g
}

// begin sets the rules of an agent that is about to start.
func (g *governor) begin(r constraints) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules, g.startUnlogged = r, r.start != nil
	if r.start != nil {
		logPermit(context.Background(), g.log, g.session, "", *r.start)
	}
}

// beginTurn sets the rules of a turn that is about to start.
func (g *governor) beginTurn(t turnRules) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn = t
}

// endTurn removes the rules of a turn.
func (g *governor) endTurn(turn string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turn.Turn == turn {
		g.turn = turnRules{}
	}
}

// budget returns the budget of a turn of its own.
func (g *governor) budget(turn string) runnel.Budget {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turn.Turn != turn {
		return runnel.Budget{}
	}
	return g.turn.Budget
}

// sources returns s with the sources that the governor provides.
func (g *governor) sources(s policy.Sources) policy.Sources {
	s.Forbidden, s.Delegation, s.AutoApprove = g.forbids, g.delegates, g.approves
	return s
}

// enforced returns the rules of the session's and the turn's profile; g.mu is
// held.
func (g *governor) enforced() profile.Enforced {
	return profile.Enforced{Session: g.rules.profile, Turn: g.turn.profile}
}

func (g *governor) forbids(_ context.Context, c policy.Call) (policy.Verdict, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rules.lost {
		return policy.Verdict{Ask: true, Source: "profile", Reason: "the session's profile cannot be read"}, true
	}
	why, ok := g.enforced().Forbids(c.Approval.ToolName)
	return policy.Verdict{Source: "profile", Reason: why}, ok
}

func (g *governor) approves(_ context.Context, c policy.Call) (policy.Verdict, bool) {
	if c.Approval.Kind != event.ApprovalTool {
		return policy.Verdict{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	why, ok := g.enforced().Approves(c.Approval.ToolName)
	return policy.Verdict{Allow: true, Source: "profile", Reason: why}, ok
}

func (g *governor) delegates(ctx context.Context, c policy.Call) (policy.Verdict, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.rules.governed || !slices.Contains(g.tools, c.Approval.ToolName) {
		return policy.Verdict{}, false
	}
	p := g.decide(ctx, subagentIn(c.Approval.Arguments, g.key))
	g.remember(c.Approval.ID, p)
	g.remember(c.Approval.CallID, p)
	return policy.Verdict{Allow: p.Allowed, Source: "delegation", Reason: reasonOf(p)}, true
}

// markUnreadable records that the session's rules cannot be read. From then on
// people decide every approval.
func (g *governor) markUnreadable() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules.lost = true
}

// decide decides whether the session may delegate to a subagent, and logs the
// decision; g.mu is held.
func (g *governor) decide(ctx context.Context, subagent string) profile.Permit {
	governance := g.rules.governance.Tighten(g.turn.Governance)
	p := g.rules.ask(subagent, governance)
	if p.Allowed && g.turn.profile != nil { // a turn's profile can only restrict the session's
		less := g.rules
		less.profile = g.turn.profile
		p = less.ask(subagent, governance)
	}
	logPermit(ctx, g.log, g.session, subagent, p)
	return p
}

func logPermit(ctx context.Context, log *slog.Logger, session, subagent string, p profile.Permit) {
	log.LogAttrs(ctx, slog.LevelInfo, "delegation decided", slog.String("session", session), slog.String("subagent", text.OneLine(subagent, 100)),
		slog.Bool("allowed", p.Allowed), slog.String("gate", string(p.Gate)), slog.String("reason", p.Reason), slog.String("warning", p.Warning))
}

func (g *governor) remember(id string, p profile.Permit) {
	if len(g.permits) >= 2*maxWatched { // entries of calls that never ended
		clear(g.permits)
	}
	if id != "" {
		g.permits[id] = p
	}
}

// subagentKeys are the arguments in which different agents name the subagent of
// a call.
var subagentKeys = []string{"subagent_type", "agent_type", "agent_name", "subagent", "agent"}

// subagentIn returns the name of the subagent in the arguments of a call, or ""
// if there is none. own is the argument that the agent reads; "" if that is not
// known.
func subagentIn(args json.RawMessage, own string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) != nil {
		return ""
	}
	keys := subagentKeys
	if own != "" {
		keys = []string{own}
	}
	for _, key := range keys {
		var name string
		if json.Unmarshal(fields[key], &name) == nil && name != "" {
			return name
		}
	}
	return ""
}

// reasonOf returns the reason for a decision about delegation as text. People
// read it in a notice, and the agent receives it with a refusal.
func reasonOf(p profile.Permit) string {
	switch {
	case p.Allowed && p.Warning != "":
		return "delegation allowed: " + p.Reason + "; " + p.Warning
	case p.Allowed:
		return "delegation allowed: " + p.Reason
	}
	return "delegation refused at the gate " + string(p.Gate) + ": " + p.Reason
}

func permitNotice(p profile.Permit, then string) event.Notice {
	n := event.Notice{Level: event.LevelInfo, Code: DelegationAllowed, Message: reasonOf(p) + then}
	if !p.Allowed {
		n.Code = DelegationRefused
	}
	if !p.Allowed || p.Warning != "" {
		n.Level = event.LevelWarning
	}
	return n
}

// annotate implements runnel.Config.Annotate. It reports decisions about
// delegation, and calls that ran although they are forbidden.
func (g *governor) annotate(ev event.Event) []event.Notice {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch b := ev.Body.(type) {
	case event.ResponseStart:
		if !g.startUnlogged {
			return nil
		}
		g.startUnlogged = false
		switch {
		case g.rules.start.Allowed && g.rules.asks:
			return []event.Notice{permitNotice(*g.rules.start, "; the agent asks before each delegation")}
		case g.rules.start.Allowed:
			return []event.Notice{permitNotice(*g.rules.start, "; the gates decide again when the agent asks, and a delegation without asking is reported")}
		}
		return []event.Notice{permitNotice(*g.rules.start, "; the agent was started without its tools for subagents, if it supports that")}
	case event.ApprovalResolved:
		p, ok := g.permits[b.ApprovalID]
		delete(g.permits, b.ApprovalID)
		if ok && b.By == event.ByPolicy && b.Choice != event.ChoiceWithdrawn {
			return []event.Notice{permitNotice(p, "")}
		}
	case event.ItemStart:
		if b.ItemType == event.TypeFunctionCall {
			g.watch(b.CallID, b.Name)
		}
	case event.ItemDone:
		return g.finished(b.FinalItem)
	}
	return nil
}

// watch remembers a call if it should not run; g.mu is held.
func (g *governor) watch(call, name string) {
	_, forbidden := g.enforced().Forbids(name)
	if forbidden || g.rules.governed && slices.Contains(g.tools, name) {
		g.expect(call, name)
	}
}

// expect remembers that a call should not run; g.mu is held. If the call runs
// nevertheless, finished returns a notice about it.
func (g *governor) expect(call, name string) {
	if len(g.watched) >= maxWatched { // entries of calls that never ended
		clear(g.watched)
	}
	g.watched[call] = name
}

// finished returns the notices for a completed item; g.mu is held.
func (g *governor) finished(item event.FinalItem) []event.Notice {
	switch f := item.(type) {
	case event.FunctionCall:
		if f.Kind == event.KindDelegate && g.rules.governed {
			g.expect(f.CallID, f.Name)
		}
	case event.FunctionCallOutput:
		name, watched := g.watched[f.CallID]
		permit := g.permits[f.CallID]
		delete(g.watched, f.CallID)
		delete(g.permits, f.CallID)
		if !watched || permit.Allowed || !ran(f) {
			return nil
		}
		why, forbidden := g.enforced().Forbids(name)
		if !forbidden {
			why = "the session's delegation is governed, and " + name + " was not allowed"
		}
		g.log.LogAttrs(context.Background(), slog.LevelWarn, "a forbidden tool ran", slog.String("session", g.session), slog.String("tool", text.OneLine(name, 100)), slog.String("reason", why))
		return []event.Notice{{Level: event.LevelError, Code: ForbiddenToolRan, Message: strconv.Quote(text.OneLine(name, 200)) + " ran without asking: " + why}}
	}
	return nil
}

// ran reports whether a call was executed. A refused call has an error, and
// neither an exit code nor changes.
func ran(out event.FunctionCallOutput) bool {
	return !out.IsError || out.ExitCode != nil || len(out.Changes) > 0
}
