package profile

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// permitted returns a delegation that passes every gate.
func permitted() Delegation {
	return Delegation{
		On: true, Profile: &Profile{Name: "lead", Subagents: []string{"tester"}}, Subagent: "tester",
		Governance: &Governance{ContextSealed: true, PipelineRunApproved: true, ApprovalRef: "run-7"},
		Target:     &Profile{Name: "tester", AgentType: TypeDelegate, AgentClass: ClassTask},
	}
}

func TestDelegationPassesEveryGateInOrder(t *testing.T) {
	want := Permit{Allowed: true, Reason: `every gate passed for the subagent "tester", approved as "run-7"`}
	for range 100 {
		if got := permitted().Decide(); got != want {
			t.Fatalf("got %+v", got)
		}
	}
	// In each row one gate refuses. The test also makes every later gate
	// refuse, and checks that the gate of the row still decides.
	type row struct {
		gate  Gate
		why   string
		spoil func(*Delegation)
	}
	with := func(spoil func(*Governance)) func(*Delegation) {
		return func(d *Delegation) {
			if d.Governance != nil {
				spoil(d.Governance)
			}
		}
	}
	rows := []row{
		{GateSwitch, "switched off on this server", func(d *Delegation) { d.On = false }},
		{GateProfile, `the profile "lead" does not list the subagent "tester"`, func(d *Delegation) { d.Profile = &Profile{Name: "lead", Subagents: []string{"tester2"}} }},
		{GateObject, "there is no governance object", func(d *Delegation) { d.Governance = nil }},
		{GateSealed, "contextSealed is not true", with(func(g *Governance) { g.ContextSealed = false })},
		{GateApproved, "pipelineRunApproved is not true", with(func(g *Governance) { g.PipelineRunApproved = false })},
		{GateRef, "approvalRef is blank", with(func(g *Governance) { g.ApprovalRef = "" })},
		{GateType, `the profile "tester" does not declare AGENT_TYPE: 2`, func(d *Delegation) { d.Target = &Profile{Name: "tester", AgentType: "1"} }},
	}
	for i, r := range rows {
		alone, all := permitted(), permitted()
		r.spoil(&alone)
		for _, below := range rows[i:] {
			below.spoil(&all)
		}
		for name, d := range map[string]Delegation{"alone": alone, "with all below": all} {
			got := d.Decide()
			if got.Allowed || got.Gate != r.gate || !strings.Contains(got.Reason, r.why) {
				t.Errorf("%s %s: got %+v", r.gate, name, got)
			}
		}
	}
	for name, tt := range map[string]struct {
		spoil func(*Delegation)
		gate  Gate
		why   string
	}{
		"no profile":        {func(d *Delegation) { d.Profile = nil }, GateProfile, "the session has no profile"},
		"no name":           {func(d *Delegation) { d.Subagent = "" }, GateProfile, "does not name the subagent"},
		"another case":      {func(d *Delegation) { d.Subagent = "Tester" }, GateProfile, "does not list"},
		"blank reference":   {func(d *Delegation) { d.Governance.ApprovalRef = " \t" }, GateRef, "blank"},
		"no own profile":    {func(d *Delegation) { d.Target = nil }, GateType, `there is no profile "tester"`},
		"invalid profile":   {func(d *Delegation) { d.Target, d.TargetErr = nil, errors.New("tester.md:3: x") }, GateType, "tester.md:3: x"},
		"no declaration":    {func(d *Delegation) { d.Target.AgentType = "" }, GateType, "AGENT_TYPE: 2"},
		"another number":    {func(d *Delegation) { d.Target.AgentType = "02" }, GateType, "AGENT_TYPE: 2"},
		"a name of our own": {func(d *Delegation) { d.Subagent = "x\x1b[31m" }, GateProfile, "does not list"},
	} {
		d := permitted()
		tt.spoil(&d)
		if got := d.Decide(); got.Allowed || got.Gate != tt.gate || !strings.Contains(got.Reason, tt.why) || strings.ContainsRune(got.Reason, '\x1b') {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	// A target profile without AGENT_CLASS: TASK leads only to a warning.
	d := permitted()
	d.Target.AgentClass = ""
	if got := d.Decide(); !got.Allowed || got.Warning != `the profile "tester" does not declare AGENT_CLASS: TASK` {
		t.Errorf("got %+v", got)
	}
}

// Governance permits only with values of exactly the right type.
func TestGovernanceIsReadStrictly(t *testing.T) {
	for data, want := range map[string]*Governance{
		``: nil, `null`: nil, `true`: nil, `[]`: nil, `"x"`: nil, `{`: nil,
		`{}`: {},
		`{"contextSealed":true,"pipelineRunApproved":true,"approvalRef":"r"}`:  {true, true, "r"},
		`{"contextSealed":"true","pipelineRunApproved":1,"approvalRef":true}`:  {},
		`{"contextSealed": true ,"pipelineRunApproved":null,"approvalRef":{}}`: {ContextSealed: true},
		`{"ContextSealed":true,"extra":1}`:                                     {},
	} {
		if got := ParseGovernance(json.RawMessage(data)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v", data, got)
		}
	}
}

func TestTurnCanOnlyTightenGovernance(t *testing.T) {
	all := &Governance{true, true, "session"}
	for _, tt := range []struct{ session, turn, want *Governance }{
		{nil, nil, nil},
		{nil, &Governance{true, true, "turn"}, nil},
		{all, nil, all},
		{all, &Governance{true, true, "turn"}, &Governance{true, true, "turn"}},
		{all, &Governance{}, &Governance{}},
		{all, &Governance{true, false, "turn"}, &Governance{true, false, "turn"}},
		{&Governance{true, false, ""}, &Governance{true, true, "turn"}, &Governance{true, false, ""}},
	} {
		if got := tt.session.Tighten(tt.turn); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%+v and %+v: got %+v", tt.session, tt.turn, got)
		}
	}
}
