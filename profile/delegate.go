package profile

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/internal/text"
)

// Governance is what a client says of the work that an agent may delegate. It
// counts only as far as its fields have exactly the values that the gates want.
type Governance struct {
	ContextSealed       bool   `json:"contextSealed" required:"false"`
	PipelineRunApproved bool   `json:"pipelineRunApproved" required:"false"`
	ApprovalRef         string `json:"approvalRef" required:"false" doc:"names the approval; not blank"`
}

// ParseGovernance returns the governance object in data, or nil if there is
// none. A field with a value of another type counts as absent, such as "true"
// for true: governance that is not understood must not permit anything.
func ParseGovernance(data json.RawMessage) *Governance {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || fields == nil {
		return nil
	}
	g := &Governance{
		ContextSealed:       strings.TrimSpace(string(fields["contextSealed"])) == "true",
		PipelineRunApproved: strings.TrimSpace(string(fields["pipelineRunApproved"])) == "true",
	}
	if json.Unmarshal(fields["approvalRef"], &g.ApprovalRef) != nil {
		g.ApprovalRef = ""
	}
	return g
}

// Tighten returns the governance of a turn in a session that has g: what both
// permit. Either may be nil; a turn that says nothing has that of its session.
func (g *Governance) Tighten(turn *Governance) *Governance {
	if g == nil || turn == nil {
		return g
	}
	both := &Governance{
		ContextSealed:       g.ContextSealed && turn.ContextSealed,
		PipelineRunApproved: g.PipelineRunApproved && turn.PipelineRunApproved,
	}
	if strings.TrimSpace(g.ApprovalRef) != "" {
		both.ApprovalRef = turn.ApprovalRef
	}
	return both
}

// A Gate is a condition of a delegation.
type Gate string

// The gates, in the order in which they are checked.
const (
	GateSwitch   Gate = "switch"              // the server lets governed sessions delegate
	GateProfile  Gate = "profile"             // the session's profile lists the subagent
	GateObject   Gate = "governance"          // there is a governance object
	GateSealed   Gate = "contextSealed"       // its contextSealed is true
	GateApproved Gate = "pipelineRunApproved" // its pipelineRunApproved is true
	GateRef      Gate = "approvalRef"         // its approvalRef is not blank
	GateType     Gate = "agentType"           // the subagent's own profile declares AGENT_TYPE: 2
)

// A Delegation is what is asked: may a governed session delegate to a subagent?
type Delegation struct {
	On         bool        // the server's switch
	Profile    *Profile    // of the session; nil: none
	Subagent   string      // as the agent names it; "" if it does not
	Governance *Governance // nil: none
	Target     *Profile    // the subagent's own profile; nil: none
	TargetErr  error       // why Target is nil, if its file is invalid
}

// A Permit answers a Delegation.
type Permit struct {
	Allowed bool   `json:"allowed"`
	Gate    Gate   `json:"gate,omitzero"` // that refuses
	Reason  string `json:"reason"`
	Warning string `json:"warning,omitzero"` // about a delegation that is allowed
}

// Decide checks the gates in their order. The first gate that refuses decides;
// a delegation that passes them all is allowed.
func (d Delegation) Decide() Permit {
	name := strconv.Quote(text.OneLine(d.Subagent, maxName))
	refuse := func(gate Gate, why string) Permit { return Permit{Gate: gate, Reason: why} }
	switch g := d.Governance; {
	case !d.On:
		return refuse(GateSwitch, "governed delegation is switched off on this server")
	case d.Profile == nil:
		return refuse(GateProfile, "the session has no profile, and only a profile can list subagents")
	case d.Subagent == "":
		return refuse(GateProfile, "the agent does not say to which subagent it delegates")
	case !slices.Contains(d.Profile.Subagents, d.Subagent):
		return refuse(GateProfile, "the profile "+strconv.Quote(d.Profile.Name)+" does not list the subagent "+name)
	case g == nil:
		return refuse(GateObject, "there is no governance object")
	case !g.ContextSealed:
		return refuse(GateSealed, "contextSealed is not true")
	case !g.PipelineRunApproved:
		return refuse(GateApproved, "pipelineRunApproved is not true")
	case strings.TrimSpace(g.ApprovalRef) == "":
		return refuse(GateRef, "approvalRef is blank or not text")
	case d.Target == nil && d.TargetErr != nil:
		return refuse(GateType, "the subagent's profile cannot be used: "+text.OneLine(d.TargetErr.Error(), maxDescription))
	case d.Target == nil:
		return refuse(GateType, "there is no profile "+name)
	case d.Target.AgentType != TypeDelegate:
		return refuse(GateType, "the profile "+name+" does not declare AGENT_TYPE: "+TypeDelegate)
	}
	p := Permit{Allowed: true, Reason: "every gate passed for the subagent " + name + ", approved as " + strconv.Quote(text.OneLine(d.Governance.ApprovalRef, maxScalar))}
	if d.Target.AgentClass != ClassTask {
		p.Warning = "the profile " + name + " does not declare AGENT_CLASS: " + ClassTask
	}
	return p
}
