package gateway

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/store"
)

// The values of Choice.Delegation: what decides whether a session may delegate
// to subagents.
const (
	Governed = "governed" // the gates of package profile
	ByAgent  = "agent"    // the agent itself
)

// A Choice is what a client chooses for a new session in addition to the
// options of its agent.
type Choice struct {
	Persona    string              // name of a profile. Default: Config.Profile
	Delegation string              // Governed or ByAgent. Default: ByAgent
	Governance *profile.Governance // limits of governed delegation. Default: none, and the session may not delegate
	Worktree   bool                // the session gets a git worktree of its own

	// Unattended means that the client has no permission to answer approvals.
	// It then cannot choose a profile that approves tools in advance.
	Unattended bool
}

// kept is the part of a session's stored options that comes from its Choice.
type kept struct {
	Persona    string              `json:"persona,omitzero"`
	Delegation string              `json:"delegation,omitzero"` // Default: ByAgent
	Governance *profile.Governance `json:"subagentGovernance,omitzero"`
	Turn       *turnRules          `json:"turnRules,omitzero"` // rules of the last turn that had its own
	Unattended bool                `json:"unattended,omitzero"`
	Brokered   string              `json:"brokered,omitzero"` // what the audit log has about the broker of its API key
	Worktree   *changes.Worktree   `json:"worktree,omitzero"`
	keptCapture
	keptCare
}

// in returns the stored options with k merged into them.
func (k kept) in(options json.RawMessage) (json.RawMessage, error) {
	data, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	return withOptions(options, data)
}

func keptOf(options json.RawMessage) (k kept) {
	_ = json.Unmarshal(options, &k) // we wrote the JSON
	return k
}

// chosen checks the choice of a client and returns it in the form that the
// catalogue stores.
func (o *opener) chosen(dir string, c Choice) (kept, error) {
	k := kept{Persona: c.Persona, Delegation: c.Delegation, Governance: c.Governance, Unattended: c.Unattended}
	switch k.Delegation {
	case "", Governed:
	case ByAgent:
		k.Delegation = "" // the default, which is not stored
	default:
		return k, runnel.Fail(runnel.InvalidRequest, "delegation: unknown value; want governed or agent")
	}
	if k.Governance != nil && k.Delegation != Governed {
		return k, runnel.Fail(runnel.UnsupportedCapability, "subagentGovernance: this session leaves delegation to its agent; give delegation: governed, too")
	}
	if k.Persona == "" {
		k.Persona = o.cfg.Profile
		return k, nil
	}
	p, err := o.find(dir, k.Persona)
	if err == nil && c.Unattended && len(p.AutoApproveTools) > 0 {
		err = runnel.Fail(runnel.Forbidden, "persona: this profile approves tools in advance, and this credential lacks the scope \"approve\"")
	}
	return k, err
}

// find returns the profile with this name, for sessions in dir.
func (o *opener) find(dir, name string) (profile.Profile, error) {
	f := profile.Folders{Config: o.cfg.ProfilesDir}
	if o.projects.trusts(dir) {
		f.Project = dir
	}
	return profile.Find(f, name)
}

// choose is like find, but for an unattended client it removes the profile's
// AutoApproveTools. The file may have gained them since the client chose the
// profile. The server's default profile keeps them.
func (o *opener) choose(dir, name string, unattended bool) (profile.Profile, error) {
	p, err := o.find(dir, name)
	if unattended && (p.Project || p.Name != o.cfg.Profile) {
		p.AutoApproveTools = nil
	}
	return p, err
}

// govern adds to opt what the session's profile and its governed delegation
// require. It also returns the rules for the agent's calls.
func (o *opener) govern(p runnel.Provider, dir string, k kept, prof *profile.Profile, opt runnel.Options) (runnel.Options, constraints) {
	r := constraints{profile: prof, governed: k.Delegation == Governed, on: o.cfg.GovernedDelegation, governance: k.Governance, targets: o.targets(dir, prof)}
	opt.ServerDisallowedTools = profile.Enforced{Session: prof}.DisallowedTools()
	if r.governed {
		opt.Delegation = r.delegation(p)
	}
	if prof == nil || opt.Delegation == runnel.DelegateNever {
		return opt, r
	}
	for _, name := range prof.Subagents {
		if to := r.targets[name].profile; to != nil {
			opt.Subagents = append(opt.Subagents, to.Subagent())
		}
	}
	return opt, r
}

// targets reads the profiles of the subagents that prof lists.
func (o *opener) targets(dir string, prof *profile.Profile) map[string]target {
	out := make(map[string]target)
	if prof == nil {
		return out
	}
	for _, name := range prof.Subagents {
		if found, err := o.find(dir, name); err == nil {
			out[name] = target{profile: &found}
		} else {
			out[name] = target{err: errors.New(strings.TrimPrefix(runnel.Safe(err).Message, "persona: "))}
		}
	}
	return out
}

// delegation returns the delegation mode with which the agent of a governed
// session starts. The agent gets its tools for subagents if a listed subagent
// passes every gate and the agent asks before it delegates. Otherwise it starts
// without these tools, if it can. delegation also sets r.asks and r.start.
func (r *constraints) delegation(p runnel.Provider) (d runnel.Delegation) {
	var can []runnel.Delegation
	if t, ok := p.(runnel.OptionTaker); ok {
		can = t.Takes().Delegations
	}
	permit := r.best()
	switch asks := slices.Contains(can, runnel.DelegateAsking); {
	case permit.Allowed && asks:
		d = runnel.DelegateAsking
	case slices.Contains(can, runnel.DelegateNever):
		d = runnel.DelegateNever
		if permit.Allowed { // its delegations could not be refused
			permit = profile.Permit{Gate: profile.GateSwitch, Reason: "this agent does not ask before it delegates"}
		}
	}
	r.asks = d == runnel.DelegateAsking
	if r.governance != nil || r.profile != nil && len(r.profile.Subagents) > 0 {
		r.start = &permit
	}
	return d
}

// best returns the permit for one of the listed subagents: an allowed one if
// there is one, or else the first refusal.
func (r *constraints) best() (permit profile.Permit) {
	names := []string{""}
	if r.profile != nil && len(r.profile.Subagents) > 0 {
		names = r.profile.Subagents
	}
	for _, name := range names {
		p := r.ask(name, r.governance)
		if permit.Reason == "" || p.Allowed && !permit.Allowed {
			permit = p
		}
	}
	return permit
}

// ask returns whether the session may delegate to a subagent under the
// governance g.
func (r *constraints) ask(subagent string, g *profile.Governance) profile.Permit {
	to := r.targets[subagent]
	return profile.Delegation{On: r.on, Profile: r.profile, Subagent: subagent, Governance: g, Target: to.profile, TargetErr: to.err}.Decide()
}

// A turnChoice is what a client chooses for one turn in addition to options.
type turnChoice struct {
	turnRules
	model string // model of the turn's profile
}

// chosenFor checks the profile and the governance that a client chose for one
// turn of the session with this record.
func (o *opener) chosenFor(rec store.Session, p Prompt) (c turnChoice, err error) {
	k := keptOf(rec.Options)
	if p.Persona != "" && p.Persona != k.Persona {
		if c, err = o.personaFor(rec, p); err != nil {
			return c, err
		}
	}
	if p.Governance != nil && k.Delegation != Governed {
		return c, runnel.Fail(runnel.UnsupportedCapability, "subagentGovernance: this session leaves delegation to its agent; create a session with delegation: governed")
	}
	c.Governance = p.Governance
	return c, nil
}

// personaFor checks a turn's profile that differs from the session's.
func (o *opener) personaFor(rec store.Session, p Prompt) (c turnChoice, err error) {
	found, err := o.find(rec.ProjectDir, p.Persona)
	if err != nil {
		return c, err
	}
	var fixed []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"a text", found.Text != ""}, {"tools", len(found.Tools) > 0}, {"max_turns", found.MaxTurns > 0}} {
		if f.set {
			fixed = append(fixed, f.name)
		}
	}
	if len(fixed) > 0 {
		return c, runnel.Fail(runnel.UnsupportedCapability, "persona: the profile "+found.Name+" has "+strings.Join(fixed, ", ")+", which cannot change for one turn; create a session with it")
	}
	if p.Unattended && len(found.AutoApproveTools) > 0 {
		return c, runnel.Fail(runnel.Forbidden, "persona: this profile approves tools in advance, and this credential lacks the scope \"approve\"")
	}
	c.Persona, c.Unattended, c.profile, c.model = found.Name, p.Unattended, &found, found.Model
	return c, nil
}

// govern sets the rules of a turn that is about to start; e.sending is held.
// The rules are stored in the record, so that they also apply after a restart.
func (e *entry) govern(turn string, t turnRules) {
	t.Turn = turn
	if t.Persona == "" && t.Governance == nil && t.Budget.IsZero() {
		e.gov.beginTurn(turnRules{})
		return
	}
	e.gov.beginTurn(t)
	e.change(func() {
		if all, err := (kept{Turn: &t}).in(e.rec.Options); err == nil { // an error means that the record's options are not valid JSON
			e.rec.Options = all
		}
	})
}

// recallTurn restores the rules of a running turn that an earlier server
// process started. If the turn's profile cannot be read, people decide every
// approval.
func (o *opener) recallTurn(e *entry, rec store.Session) {
	t := keptOf(rec.Options).Turn
	if t == nil || !slices.ContainsFunc(e.turns, func(s span) bool { return s.turn == t.Turn && s.end == 0 }) {
		return
	}
	if o.recall(rec.ProjectDir, t) != nil {
		e.gov.markUnreadable()
		return
	}
	e.gov.beginTurn(*t)
}

// recall sets t.profile to the profile that t.Persona names.
func (o *opener) recall(dir string, t *turnRules) error {
	if t.Persona == "" {
		return nil
	}
	found, err := o.choose(dir, t.Persona, t.Unattended)
	t.profile = &found
	return err
}
