package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/runnel-dev/runnel/gateway/policy"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/memory"
)

func TestRuleOfAFailedDecisionIsNotKept(t *testing.T) {
	catalogue := new(memory.Catalogue)
	b, err := loadRules(t.Context(), catalogue)
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("the approval is gone")
	_, err = b.addWith(t.Context(), store.Rule{Effect: store.EffectAllow, Kind: store.RuleExecute, Pattern: "git status"}, func(rule int64) error {
		if rule == 0 || len(b.all()) != 0 {
			t.Errorf("rule %d holds before the decision: %+v", rule, b.all())
		}
		return gone
	})
	if !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	stored, err := catalogue.Rules(t.Context())
	if err != nil || len(stored) != 0 || len(b.all()) != 0 {
		t.Errorf("kept %+v and %+v, %v", stored, b.all(), err)
	}
}

// An explanation names the gates in the order in which a policy asks its
// sources.
func TestExplainedGatesAreInTheOrderOfThePolicy(t *testing.T) {
	gate := func(name rules.GateName) policy.Source {
		return func(context.Context, policy.Call) (policy.Verdict, bool) {
			return policy.Verdict{Source: string(name)}, true
		}
	}
	sources := policy.Sources{
		Forbidden: gate(rules.GateForbidden), Delegation: gate(rules.GateDelegation), DenyRules: gate(rules.GateDenyRules),
		AutoApprove: gate(rules.GateAutoApprove), AllowRules: gate(rules.GateAllowRules),
	}
	left := map[rules.GateName]*policy.Source{
		rules.GateForbidden: &sources.Forbidden, rules.GateDelegation: &sources.Delegation, rules.GateDenyRules: &sources.DenyRules,
		rules.GateAutoApprove: &sources.AutoApprove, rules.GateAllowRules: &sources.AllowRules,
	}
	for _, g := range rules.NewSet(nil).Explain(rules.Call{}).Gates {
		v, decided := sources.Decide(t.Context(), policy.Call{})
		if g.Name == rules.GatePerson {
			if decided || len(left) > 0 {
				t.Errorf("before a person is asked, %s decides; without a gate: %v", v.Source, left)
			}
			return
		}
		if v.Source != string(g.Name) {
			t.Errorf("%s decides, want %s", v.Source, g.Name)
		}
		*left[g.Name] = nil
		delete(left, g.Name)
	}
	t.Error("no gate is the person")
}

func TestExplanationDecidesAsThePolicyOfTheRules(t *testing.T) {
	list := []store.Rule{
		{Effect: store.EffectAllow, Kind: store.RuleExecute, Pattern: "git *"}, // too wide to be accepted by Check, so it allows nothing
		{Effect: store.EffectAllow, Kind: store.RuleExecute, Pattern: "git log *"},
		{Effect: store.EffectAllow, Kind: store.RuleExecute, Pattern: "git status"},
		{Effect: store.EffectAllow, Kind: store.RuleExecute, Pattern: "env ls", CLIType: "claude"},
		{Effect: store.EffectDeny, Kind: store.RuleExecute, Pattern: "rm *"},
		{Effect: store.EffectDeny, Kind: store.RuleExecute, Pattern: "ls -a"},
	}
	catalogue := new(memory.Catalogue)
	for _, r := range list {
		if _, err := catalogue.AddRule(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	b, err := loadRules(t.Context(), catalogue)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]rules.Outcome{
		"git status": rules.OutcomeAllow, "git log": rules.OutcomeAllow, "git diff": rules.OutcomeAsk, "git status | cat": rules.OutcomeAsk, "ls; rm x": rules.OutcomeDeny,
		"env ls": rules.OutcomeAsk, "$X": rules.OutcomeAsk, "make": rules.OutcomeAsk,
	}
	for text, outcome := range want {
		args, _ := json.Marshal(map[string]string{"command": text})
		c, err := rules.NewCall("claude", t.TempDir(), "Bash", args)
		if err != nil {
			t.Fatal(err)
		}
		v, decided := policy.Sources{DenyRules: b.denies, AllowRules: b.allows}.Decide(t.Context(), policy.Call{CLIType: c.CLIType, Dir: c.Dir, Approval: c.Approval})
		got := rules.OutcomeAsk
		if decided && v.Allow {
			got = rules.OutcomeAllow
		} else if decided {
			got = rules.OutcomeDeny
		}
		e := rules.NewSet(b.all()).Explain(c)
		if got != outcome || e.Outcome != got || e.Rule != v.Rule || decided && e.Reason != v.Reason {
			t.Errorf("%s: explained as %s by rule %d (%s), and decided as %s by rule %d (%s)", text, e.Outcome, e.Rule, e.Reason, got, v.Rule, v.Reason)
		}
	}
}
