package gateway

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/store"
)

// Who decides on the delegations of a session.
const (
	Governed = "governed" // the gates
	ByAgent  = "agent"    // the agent
)

// A Choice is what a client chooses of a new session beside the options of its
// agent.
type Choice struct {
	Persona    string              // a profile. Default: Config.Profile
	Delegation string              // Governed or ByAgent. Default: ByAgent
	Governance *profile.Governance // of governed delegation. Default: none, and nothing is delegated

	// Unattended says that the client must not answer approvals, and so cannot
	// choose a profile that does.
	Unattended bool
}

// kept is what the catalogue keeps of a Choice, among the options of a session.
type kept struct {
	Persona    string              `json:"persona,omitzero"`
	Delegation string              `json:"delegation,omitzero"` // Default: ByAgent
	Governance *profile.Governance `json:"subagentGovernance,omitzero"`
	Turn       *turnRules          `json:"turnRules,omitzero"` // of the last turn that had any
	Unattended bool                `json:"unattended,omitzero"`
}

// in returns options as the catalogue keeps them, with k in them.
func (k kept) in(options json.RawMessage) (json.RawMessage, error) {
	data, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	return withOptions(options, data)
}

func keptOf(options json.RawMessage) (k kept) {
	_ = json.Unmarshal(options, &k) // we wrote it
	return k
}

// chosen checks the choice of a client.
func (o *opener) chosen(dir string, c Choice) (kept, error) {
	k := kept{Persona: c.Persona, Delegation: c.Delegation, Governance: c.Governance, Unattended: c.Unattended}
	switch k.Delegation {
	case "", Governed:
	case ByAgent:
		k.Delegation = "" // what records without it mean, too
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

// find returns the profile with a name, for sessions in dir.
func (o *opener) find(dir, name string) (profile.Profile, error) {
	f := profile.Folders{Config: o.cfg.ProfilesDir}
	if o.projects.trusts(dir) {
		f.Project = dir
	}
	return profile.Find(f, name)
}

// choose returns the profile with a name as it counts for a client. For one
// that must not answer approvals it approves nothing, whatever its file says by
// now, but for the server's default beside the configuration.
func (o *opener) choose(dir, name string, unattended bool) (profile.Profile, error) {
	p, err := o.find(dir, name)
	if unattended && (p.Project || p.Name != o.cfg.Profile) {
		p.AutoApproveTools = nil
	}
	return p, err
}

// govern completes options with what the profile of a session and its
// delegation ask of the agent, and returns the rules for what the agent does.
func (o *opener) govern(p runnel.Provider, dir string, k kept, prof *profile.Profile, opt runnel.Options) (runnel.Options, constraints) {
	r := constraints{profile: prof, governed: k.Delegation == Governed, on: o.cfg.GovernedDelegation, governance: k.Governance, targets: o.targets(dir, prof)}
	opt.Disallowed = profile.Enforced{Session: prof}.Disallowed()
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

// targets reads the profiles of the subagents that a profile lists.
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

// delegation returns how the agent of a governed session starts. Unless one of
// the listed subagents can pass every gate, and the agent asks before it
// delegates, it gets no tool for subagents, if it can start without.
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
		if permit.Allowed { // nobody could refuse
			permit = profile.Permit{Gate: profile.GateSwitch, Reason: "this agent does not ask before it delegates"}
		}
	}
	r.asks = d == runnel.DelegateAsking
	if r.governance != nil || r.profile != nil && len(r.profile.Subagents) > 0 {
		r.start = &permit
	}
	return d
}

// best decides whether any of the listed subagents may be delegated to.
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

// ask decides whether the session may delegate to a subagent.
func (r *constraints) ask(subagent string, g *profile.Governance) profile.Permit {
	to := r.targets[subagent]
	return profile.Delegation{On: r.on, Profile: r.profile, Subagent: subagent, Governance: g, Target: to.profile, TargetErr: to.err}.Decide()
}

// A turnChoice is what a client chooses for one turn.
type turnChoice struct {
	turnRules
	model string // of the turn's profile
}

// chosenFor checks the profile and the governance that a client chose for one
// turn.
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

// personaFor checks a profile for one turn that is not the session's.
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

// govern has a turn begin under rules of its own; e.sending is held. They are
// kept, so that they count after a restart, too.
func (e *entry) govern(turn string, t turnRules) {
	t.Turn = turn
	if t.Persona == "" && t.Governance == nil {
		e.gov.beginTurn(turnRules{})
		return
	}
	e.gov.beginTurn(t)
	e.change(func() {
		if all, err := (kept{Turn: &t}).in(e.rec.Options); err == nil { // else they are not ours
			e.rec.Options = all
		}
	})
}

// recallTurn takes up the rules of a turn that began before the server was
// restarted. A profile that is gone by now leaves everything to people.
func (o *opener) recallTurn(e *entry, rec store.Session) {
	t := keptOf(rec.Options).Turn
	if t == nil || !slices.ContainsFunc(e.turns, func(s span) bool { return s.turn == t.Turn && s.end == 0 }) {
		return
	}
	if o.recall(rec.ProjectDir, t) != nil {
		e.gov.lose()
		return
	}
	e.gov.beginTurn(*t)
}

// recall reads the profile of a turn.
func (o *opener) recall(dir string, t *turnRules) error {
	if t.Persona == "" {
		return nil
	}
	found, err := o.choose(dir, t.Persona, t.Unattended)
	t.profile = &found
	return err
}
