package event

import "testing"

func TestRuleNoteTellsDecidedFromStored(t *testing.T) {
	for _, c := range []struct {
		by   Resolver
		rule int64
		want string
	}{
		{ByPolicy, 3, "decided by rule 3"},
		{ByUser, 3, "stored as rule 3"},
		{ByPolicy, 0, ""},
		{ByUser, 0, ""},
	} {
		if got := RuleNote(c.by, c.rule); got != c.want {
			t.Errorf("by %s, rule %d: got %q, want %q", c.by, c.rule, got, c.want)
		}
	}
}
