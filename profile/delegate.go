package profile

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/internal/text"
)

// Governance is what a client states about the work that an agent may delegate.
// A field counts only if it has exactly the value that its gate requires.
type Governance struct {
	ContextSealed       bool   `json:"contextSealed" required:"false" doc:"Must be true for delegation."`
	PipelineRunApproved bool   `json:"pipelineRunApproved" required:"false" doc:"Must be true for delegation."`
	ApprovalRef         string `json:"approvalRef" required:"false" doc:"Reference of the approval. Must not be blank for delegation."`
}

// ParseGovernance returns the governance object in data, or nil if data is not
// an object. A field with a value of another type counts as absent, for
// instance the text "true" instead of true. So governance that is not
// understood permits nothing.
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

// Tighten returns the governance of a turn in a session with governance g: it
// states only what both state. Either may be nil. A turn without governance has
// its session's.
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

// A Gate is a condition for a delegation.
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

// A Delegation is a question: may a governed session delegate to a subagent?
type Delegation struct {
	On         bool        // the server has switched governed delegation on
	Profile    *Profile    // of the session; nil if it has none
	Subagent   string      // the name that the agent gives; "" if it gives none
	Governance *Governance // nil if there is none
	Target     *Profile    // the subagent's own profile; nil if there is none
	TargetErr  error       // why Target is nil, if its file is invalid
}

// A Permit is the decision about a Delegation.
type Permit struct {
	Allowed bool   `json:"allowed"`
	Gate    Gate   `json:"gate,omitzero"` // the gate that refuses
	Reason  string `json:"reason"`
	Warning string `json:"warning,omitzero"` // about a delegation that is allowed but questionable
}

// Decide checks the gates in order. The first gate that refuses decides. If
// none refuses, the delegation is allowed.
func (d Delegation) Decide() Permit {
	name := strconv.Quote(text.OneLine(d.Subagent, maxName))
	refuse := func(gate Gate, why string) Permit { return Permit{Gate: gate, Reason: why} }
	switch g := d.Governance; {
	case !d.On:
		return refuse(GateSwitch, "governed delegation is switched off on this server")
	case d.Profile == nil:
		return refuse(GateProfile, "the session has no profile, and only a profile can list subagents")
	case d.Subagent == "":
		return refuse(GateProfile, "the agent does not name the subagent to which it delegates")
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
