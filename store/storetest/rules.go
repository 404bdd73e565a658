package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

func testRules(t *testing.T, _ runnel.Log, c store.Catalogue) {
	whole := store.Rule{
		Effect: store.EffectAllow, Kind: store.RuleExecute, CLIType: "codex", ProjectDir: "/p", SessionID: "0192f0c1", Tool: "shell", Pattern: "git commit -m 'é \"; DROP'",
		Note: "note", By: "1", ByName: "laptop", CreatedAt: at,
	}
	list := []store.Rule{whole, {Effect: store.EffectDeny, Kind: store.RuleTool}, whole}
	for i := range list {
		list[i].ID = 99 // ignored
		id := must[int64](t)(c.AddRule(t.Context(), list[i]))
		if list[i].ID = id; id != int64(i)+1 {
			t.Fatalf("rule %d has number %d", i, id)
		}
	}
	equal(t, "oldest first", must[[]store.Rule](t)(c.Rules(t.Context())), list)

	for range 2 {
		if err := c.UseRule(t.Context(), 1, at.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.UseRule(t.Context(), 77, at); err != nil {
		t.Errorf("use of a rule that does not exist: %v", err)
	}
	list[0].Uses, list[0].LastUsedAt = 2, at.Add(time.Hour)
	equal(t, "used", must[[]store.Rule](t)(c.Rules(t.Context())), list)

	if err := c.DeleteRule(t.Context(), 3); err != nil {
		t.Error(err)
	}
	if err := c.DeleteRule(t.Context(), 3); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleting again: %v, want ErrNotFound", err)
	}
	equal(t, "deleted", must[[]store.Rule](t)(c.Rules(t.Context())), list[:2])
	if id := must[int64](t)(c.AddRule(t.Context(), whole)); id != 4 {
		t.Errorf("the number of a deleted rule was reused: %d", id)
	}
}
