package policy_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/policy"
)

var choices = []event.Choice{
	{ID: "s", Kind: event.ChoiceAllowSession}, {ID: "y", Kind: event.ChoiceAllowOnce},
	{ID: "x", Kind: event.ChoiceDenyStop}, {ID: "n", Kind: event.ChoiceDeny},
}

func says(v policy.Verdict) policy.Source {
	return func(context.Context, policy.Call) (policy.Verdict, bool) { return v, true }
}

func TestSourcesAreAskedInOrder(t *testing.T) {
	pass := func(context.Context, policy.Call) (policy.Verdict, bool) { return policy.Verdict{}, false }
	allow, deny := policy.Verdict{Allow: true, Reason: "allowed"}, policy.Verdict{Reason: "denied"}
	for _, tc := range []struct {
		name    string
		sources policy.Sources
		choice  string // "" if a person decides
	}{
		{"none", policy.Sources{}, ""},
		{"all pass", policy.Sources{Forbidden: pass, Delegation: pass, DenyRules: pass, AutoApprove: pass, AllowRules: pass}, ""},
		{"forbidden before all", policy.Sources{Forbidden: says(deny), Delegation: says(allow), DenyRules: says(allow), AutoApprove: says(allow), AllowRules: says(allow)}, "n"},
		{"delegation before rules", policy.Sources{Delegation: says(deny), DenyRules: says(allow), AutoApprove: says(allow), AllowRules: says(allow)}, "n"},
		{"deny rules before the profile", policy.Sources{Forbidden: pass, DenyRules: says(deny), AutoApprove: says(allow), AllowRules: says(allow)}, "n"},
		{"the profile before allow rules", policy.Sources{DenyRules: pass, AutoApprove: says(allow), AllowRules: says(deny)}, "y"},
		{"allow rules last", policy.Sources{DenyRules: pass, AutoApprove: pass, AllowRules: says(allow)}, "y"},
		{"ask ends the search", policy.Sources{DenyRules: says(policy.Verdict{Ask: true, Allow: true}), AutoApprove: says(allow), AllowRules: says(allow)}, ""},
	} {
		a := event.Approval{ID: "a", Kind: event.ApprovalTool, Choices: choices, ArgumentsDigest: "1"}
		d, ok := tc.sources.Judge(policy.Call{})(t.Context(), a)
		if ok != (tc.choice != "") || d.Choice != tc.choice {
			t.Errorf("%s: %+v, %v, want choice %q", tc.name, d, ok, tc.choice)
		}
		if ok && (d.ArgumentsDigest != "1" || d.By != event.ByPolicy || d.Reason == "") {
			t.Errorf("%s: %+v", tc.name, d)
		}
	}
}

func TestSourcesGetTheCall(t *testing.T) {
	a := event.Approval{ID: "a", Choices: choices}
	call := policy.Call{Session: "s", CLIType: "codex", Dir: "/p"}
	var got policy.Call
	_, _ = policy.Sources{AllowRules: func(_ context.Context, c policy.Call) (policy.Verdict, bool) {
		got = c
		return policy.Verdict{}, false
	}}.Judge(call)(t.Context(), a)
	call.Approval = a
	if diff := cmp.Diff(call, got); diff != "" {
		t.Error(diff)
	}
}

// A source that ran out of time might have denied, so the sources after it must
// not allow.
func TestSourceThatRunsOutOfTimeAsks(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	judge := policy.Sources{
		DenyRules:  func(context.Context, policy.Call) (policy.Verdict, bool) { stop(); return policy.Verdict{}, false },
		AllowRules: says(policy.Verdict{Allow: true}),
	}.Judge(policy.Call{})
	if d, ok := judge(ctx, event.Approval{Choices: choices}); ok {
		t.Errorf("decided: %+v", d)
	}
}

func TestVerdictTakesTheFittingChoice(t *testing.T) {
	for _, tc := range []struct {
		name    string
		allow   bool
		choices []event.Choice
		want    string // "" if a person decides
	}{
		{"allow never allows more than once", true, []event.Choice{{ID: "s", Kind: event.ChoiceAllowSession}, {ID: "a", Kind: event.ChoiceAllowAlways}, {ID: "n", Kind: event.ChoiceDeny}}, ""},
		{"deny before deny and stop", false, choices, "n"},
		{"deny and stop", false, []event.Choice{{ID: "y", Kind: event.ChoiceAllowOnce}, {ID: "x", Kind: event.ChoiceDenyStop}}, "x"},
		{"deny without a choice for it", false, []event.Choice{{ID: "y", Kind: event.ChoiceAllowOnce}}, event.ChoiceWithdrawn},
	} {
		judge := policy.Sources{AllowRules: says(policy.Verdict{Allow: tc.allow})}.Judge(policy.Call{})
		d, ok := judge(t.Context(), event.Approval{Choices: tc.choices})
		if ok != (tc.want != "") || ok && d.Choice != tc.want {
			t.Errorf("%s: %+v, %v, want %q", tc.name, d, ok, tc.want)
		}
	}
}
