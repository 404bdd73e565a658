package rules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel/store"
)

// A session works in a copy of its project, such as a git worktree. The rules
// for the project apply to the copy.
func TestRulesForProjectApplyToItsCopy(t *testing.T) {
	base := realDir(t)
	project, copied := filepath.Join(base, "project"), filepath.Join(base, "copy")
	for _, dir := range []string{project, copied, filepath.Join(copied, "sub")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	in := func(c Call) Call {
		c.Project, c.Copy, c.Original = project, copied, project
		return c
	}
	write := in(call(copied, "Write", args{"file_path": filepath.Join(copied, "secrets", "x")}))
	other := in(call(copied, "Write", args{"file_path": filepath.Join(copied, "x")}))
	elsewhere := in(call(copied, "Write", args{"file_path": filepath.Join(base, "x")}))
	secrets := filepath.Join(project, "secrets")

	if denied, _ := judged(t, []store.Rule{deny(store.RuleEdit, secrets)}, write); !denied {
		t.Error("a rule that denies does not apply to the copy of its folder")
	}
	if denied, ask := judged(t, []store.Rule{deny(store.RuleEdit, secrets)}, other); denied || ask {
		t.Errorf("another file of the copy: denied %t, ask %t", denied, ask)
	}
	if !matches(t, allow(store.RuleEdit, project), write) || matches(t, allow(store.RuleEdit, project), elsewhere) {
		t.Error("a rule that allows does not apply to exactly the copy of its folder")
	}
	if !matches(t, allow(store.RuleEdit, copied), write) {
		t.Error("a rule for the copy itself does not apply")
	}
	run := allow(store.RuleExecute, "git status")
	run.ProjectDir = project
	if !matches(t, run, in(call(copied, "Bash", args{"command": "git status"}))) {
		t.Error("a rule for commands in the project does not apply to the copy")
	}
	if run.ProjectDir = filepath.Join(base, "other"); matches(t, run, in(call(copied, "Bash", args{"command": "git status"}))) {
		t.Error("a rule for another project applies")
	}
	for _, r := range Suggest(in(write)) {
		if r.ProjectDir != project || r.Pattern != project && r.Pattern != filepath.Join(secrets, "x") {
			t.Errorf("suggested %+v", r)
		}
	}
}
