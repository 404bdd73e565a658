package gateway

import (
	"errors"
	"testing"

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
