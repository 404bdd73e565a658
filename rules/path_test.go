package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/store"
)

// allocations returns the number of allocations of f.
func allocations(f func()) int { return int(testing.AllocsPerRun(1, f)) }

// Clients and agents choose the paths in rules and calls. The work of resolving
// a path must be bounded, however long the path is.
func TestLongPathIsNotResolved(t *testing.T) {
	long := strings.Repeat("/a", 5_000)
	n := allocations(func() {
		if real, err := resolve("", long); err == nil {
			t.Errorf("resolved to %.40q", real)
		}
	})
	if n > 100 {
		t.Errorf("a path of %d bytes takes %d allocations", len(long), n)
	}
	n = allocations(func() {
		if _, err := NewCall("some", long, "Bash", nil); err == nil || !strings.Contains(err.Error(), "projectDir: has 10000 bytes") {
			t.Errorf("NewCall: got %v", err)
		}
		r := allow(store.RuleExecute, "git status")
		r.ProjectDir = long
		if _, err := Check(r); err == nil || !strings.Contains(err.Error(), "projectDir: has 10000 bytes") {
			t.Errorf("Check: got %v", err)
		}
	})
	if n > 1000 {
		t.Errorf("a folder of %d bytes takes %d allocations", len(long), n)
	}
	dir := realDir(t)
	c := call(dir, "Write", args{"file_path": long})
	if matches(t, allow(store.RuleEdit, "/"), c) {
		t.Error("a rule allows a path that no system opens")
	}
	if denied, ask := judged(t, []store.Rule{deny(store.RuleEdit, dir)}, c); denied || !ask {
		t.Errorf("a rule that denies: denied %t, ask %t, want a question", denied, ask)
	}
}

// There may be a thousand rules, and a call may name many deep paths. Each path
// is resolved once, and not once for each rule.
func TestPathIsResolvedOnceForAllRules(t *testing.T) {
	dir := realDir(t)
	c := call(dir, "Write", args{"file_path": filepath.Join(dir, strings.Repeat("a/", 1000)+"x")})
	var list []store.Rule
	for i := range 100 {
		folder := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		list = append(list, deny(store.RuleEdit, folder), allow(store.RuleEdit, folder))
	}
	one, all := NewSet(list[:2]), NewSet(list)
	least := allocations(func() { one.Explain(c) })
	if n := allocations(func() { all.Explain(c) }); n > 2*least {
		t.Errorf("%d rules take %d allocations, and 2 rules %d", len(list), n, least)
	}
}

// An agent can make deep folders. If a path below them has missing folders, the
// existing folders are resolved once, and not once for each missing folder.
func TestMissingFoldersBelowDeepOnesAreResolvedOnce(t *testing.T) {
	dir := realDir(t)
	deep := filepath.Join(dir, strings.Repeat("a/", 100))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(deep, strings.Repeat("b/", 100))
	resolved := func(path string) int {
		return allocations(func() {
			if real, err := resolve("", path); err != nil || real != path {
				t.Errorf("got %q, %v", real, err)
			}
		})
	}
	least := resolved(deep)
	if n := resolved(path); n > 20*least {
		t.Errorf("a missing path takes %d allocations, and the folder above it %d", n, least)
	}
}

// A file may have a further name outside of the folder of a rule: an agent or
// an archive can create a hard link to any file of the user. A rule does not
// know the other names, so a person is asked.
func TestFileWithSeveralNamesIsAskedAbout(t *testing.T) {
	dir := realDir(t)
	outside, inside, denied := filepath.Join(dir, "outside"), filepath.Join(dir, "project", "inside"), filepath.Join(dir, "denied")
	for _, folder := range []string{filepath.Dir(inside), denied} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write, project := call(dir, "Write", args{"file_path": inside}), allow(store.RuleEdit, filepath.Dir(inside))
	if !matches(t, project, write) {
		t.Fatal("a new file is not allowed")
	}
	if err := os.Link(outside, inside); err != nil {
		t.Skip(err)
	}
	if matches(t, project, write) || matches(t, allow(store.RuleRead, filepath.Dir(inside)), call(dir, "Read", args{"file_path": inside})) {
		t.Error("a rule allows a file that has another name outside of the folder")
	}
	if denied, ask := judged(t, []store.Rule{deny(store.RuleEdit, denied)}, write); denied || !ask {
		t.Errorf("a rule that denies: denied %t, ask %t, want a question", denied, ask)
	}
}

// A file system may ignore the case of names. Whether it does cannot be seen while the
// folder of a rule does not exist, so a person decides.
func TestMissingFolderInOtherCaseIsAskedAbout(t *testing.T) {
	dir := realDir(t)
	list := []store.Rule{allow(store.RuleEdit, dir), deny(store.RuleEdit, filepath.Join(dir, "secret"))}
	if err := os.Mkdir(filepath.Join(dir, "SeCrEt"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path        string
		denied, ask bool
	}{
		{"secret/a", true, false},
		{"SECRET/a", false, true},
		{"Secret", false, true},
		{"SECRETS/a", false, false},
		{"SeCrEt/a", false, false}, // this folder exists, and the denied one does not
		{"other/SECRET", false, false},
	} {
		if denied, ask := judged(t, list, call(dir, "Write", args{"file_path": filepath.Join(dir, c.path)})); denied != c.denied || ask != c.ask {
			t.Errorf("%s: denied %t, ask %t", c.path, denied, ask)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "secret"), 0o700); err != nil {
		t.Fatal(err)
	}
	if denied, ask := judged(t, list, call(dir, "Write", args{"file_path": filepath.Join(dir, "SECRET/a")})); denied || ask {
		t.Errorf("another folder: denied %t, ask %t", denied, ask)
	}
}
