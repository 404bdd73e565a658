package profile

import (
	"fmt"
	"testing"
)

func TestForbiddenToolsAlwaysWin(t *testing.T) {
	session := &Profile{Name: "session", DisallowedTools: []string{"Bash", "mcp__issues__delete", "mcp__mail"}, AutoApproveTools: []string{"Read", "Bash", "mcp__issues", "mcp__mail__send"}}
	turn := &Profile{Name: "turn", DisallowedTools: []string{"Write"}, AutoApproveTools: []string{"Edit", "Write", "Bash"}}
	const ask, deny, allow = "ask", "deny", "allow"
	for _, tt := range []struct {
		tool                       string
		none, session, turn, alone string // alone: the turn's profile, in a session without a profile
	}{
		{"Bash", ask, deny, deny, allow},
		{"bash", ask, deny, deny, ask},
		{"Read", ask, allow, ask, ask},
		{"read", ask, ask, ask, ask},
		{"Readme", ask, ask, ask, ask},
		{"Edit", ask, ask, allow, allow},
		{"Write", ask, ask, deny, deny},
		{"mcp__issues__list", ask, allow, ask, ask},
		{"mcp__issues__delete", ask, deny, deny, ask},
		{"mcp__Issues__DELETE", ask, deny, deny, ask},
		{"mcp__issues", ask, ask, ask, ask}, // the request may be for the forbidden tool
		{"mcp__issues2__list", ask, ask, ask, ask},
		{"mcp__mail__send", ask, deny, deny, ask},
		{"mcp__mail", ask, deny, deny, ask},
		{"", ask, ask, ask, ask},
	} {
		for e, want := range map[Enforced]string{{}: tt.none, {Session: session}: tt.session, {session, turn}: tt.turn, {Turn: turn}: tt.alone} {
			got := ask
			if _, ok := e.Approves(tt.tool); ok {
				got = allow
			}
			if _, ok := e.Forbids(tt.tool); ok {
				if got == allow {
					t.Errorf("%q: both forbidden and approved", tt.tool)
				}
				got = deny
			}
			if got != want {
				t.Errorf("%q with session %v, turn %v: %s, want %s", tt.tool, e.Session != nil, e.Turn != nil, got, want)
			}
		}
	}
	if got := fmt.Sprint(Enforced{session, &Profile{DisallowedTools: []string{"Write", "Bash"}}}.DisallowedTools()); got != "[Bash mcp__issues__delete mcp__mail Write]" {
		t.Error(got)
	}
	if _, ok := (Enforced{Session: &Profile{DisallowedTools: []string{"Connect"}}}).Forbids("agent_connect"); !ok {
		t.Error("a profile that forbids the tool connect does not forbid the agent's own tool of that name")
	}
	if why, _ := (Enforced{session, turn}).Forbids("Write"); why != `the profile "turn" does not allow Write` {
		t.Error(why)
	}
	if why, _ := (Enforced{Session: session}).Approves("Read"); why != `the profile "session" approves Read` {
		t.Error(why)
	}
}
