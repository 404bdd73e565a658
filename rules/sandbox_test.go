package rules

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/store"
)

func TestRulesAboutSandboxesAreForAProjectOrASession(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		rule store.Rule
		why  string
	}{
		"for everybody":     {store.Rule{Effect: store.EffectAllow, Kind: store.RuleSandboxRead, Pattern: dir}, "needs a folder or a session"},
		"deny":              {store.Rule{Effect: store.EffectDeny, Kind: store.RuleSandboxRead, Pattern: dir, ProjectDir: dir}, "only allows"},
		"tool":              {store.Rule{Effect: store.EffectAllow, Kind: store.RuleSandboxWrite, Pattern: dir, ProjectDir: dir, Tool: "Bash"}, "applies to all programs"},
		"relative":          {store.Rule{Effect: store.EffectAllow, Kind: store.RuleSandboxRead, Pattern: "data", ProjectDir: dir}, "not an absolute path"},
		"with ..":           {store.Rule{Effect: store.EffectAllow, Kind: store.RuleSandboxRead, Pattern: dir + "/a/../b", ProjectDir: dir}, "without .."},
		"session of a tool": {store.Rule{Effect: store.EffectAllow, Kind: store.RuleExecute, Pattern: "ls", SessionID: "s"}, "only a rule of kind sandbox_read"},
	} {
		if _, err := Check(tt.rule); err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v, want %q", name, err, tt.why)
		}
	}
	r, err := Check(store.Rule{Effect: store.EffectAllow, Kind: store.RuleSandboxRead, Pattern: dir + "/", SessionID: "s"})
	if err != nil || r.Pattern != dir {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestRulesAboutSandboxesApplyToTheirSessionsOnly(t *testing.T) {
	project := t.TempDir()
	rule := func(id int64, kind store.RuleKind, dir, session, agent string) store.Rule {
		return store.Rule{ID: id, Effect: store.EffectAllow, Kind: kind, Pattern: "/data", ProjectDir: dir, SessionID: session, CLIType: agent}
	}
	set := NewSet([]store.Rule{
		rule(1, store.RuleSandboxRead, project, "", ""),
		rule(2, store.RuleSandboxRead, filepath.Join(project, "other"), "", ""),
		rule(3, store.RuleSandboxWrite, project, "mine", ""),
		rule(4, store.RuleSandboxWrite, project, "another", ""),
		rule(5, store.RuleSandboxRead, project, "", "codex"),
		rule(6, store.RuleSandboxRead, "", "", ""), // of another version: Check refuses it
		rule(7, store.RuleRead, project, "", ""),
	})
	var got []int64
	for _, r := range set.Paths(Session{ID: "mine", CLIType: "claude-code", Project: project}) {
		got = append(got, r.ID)
	}
	if len(got) != 2 || got[0] != 1 || got[1] != 3 {
		t.Errorf("the rules %v apply, want 1 and 3", got)
	}
}

// A rule about a sandbox must never answer for a person.
func TestRulesAboutSandboxesDecideNoCalls(t *testing.T) {
	dir := t.TempDir()
	for _, kind := range []store.RuleKind{store.RuleSandboxRead, store.RuleSandboxWrite} {
		set := NewSet([]store.Rule{{ID: 1, Effect: store.EffectAllow, Kind: kind, Pattern: dir, ProjectDir: dir}, {ID: 2, Effect: store.EffectDeny, Kind: kind, Pattern: dir, ProjectDir: dir}})
		for _, c := range []Call{call(dir, "Read", args{"file_path": filepath.Join(dir, "a")}), call(dir, "Write", args{"file_path": filepath.Join(dir, "a"), "content": "x"})} {
			if r, ok := set.Allows(c); ok {
				t.Errorf("%s: %+v allows %s", kind, r, c.Approval.ToolName)
			}
			if _, denied, ask := set.Denies(c); denied || ask {
				t.Errorf("%s: denied %v, ask %v", kind, denied, ask)
			}
		}
	}
}
