package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/provider/providertest"
)

func TestNewestAsksForEveryPackageButOlderVersions(t *testing.T) {
	pins := manifest{
		Dependencies: map[string]string{"node": "26.1.0", "@a/one": "1.0.0", "two": "npm:@b/two@2.0.0", "two-1-2-3": "npm:@b/two@1.2.3"},
		AllowScripts: map[string]bool{"node": true},
	}
	newest, err := pins.newest(func(name string) (string, error) {
		return map[string]string{"node": "26.1.0", "@a/one": "1.1.0", "@b/two": "2.0.1"}[name], nil
	})
	want := manifest{
		Private: true, AllowScripts: pins.AllowScripts,
		Dependencies: map[string]string{"node": "26.1.0", "@a/one": "1.1.0", "two": "npm:@b/two@2.0.1"},
	}
	if err != nil || !reflect.DeepEqual(newest, want) {
		t.Errorf("%+v, %v; want %+v", newest, err, want)
	}
	modules := map[string]string{"one": "@a/one", "two": "two"}
	for asked, runs := range map[string][]string{"": {"one", "two"}, "two": {"two"}} {
		if rows, err := compareVersions(modules, pins, newest, asked); err != nil || !slices.Equal(running(rows), runs) {
			t.Errorf("asked for %q: %+v, %v; want %q", asked, rows, err, runs)
		}
	}
	if got := newest.only([]string{"two"}, modules).Dependencies; len(got) != 2 || got["two"] == "" || got["node"] == "" || len(newest.Dependencies) != 3 {
		t.Errorf("to run two, %v is installed of %v", got, newest.Dependencies)
	}
	if rows, err := compareVersions(modules, pins, pins, ""); err != nil || running(rows) != nil {
		t.Errorf("nothing is newer, and %+v runs (%v)", rows, err)
	}
	if _, err := compareVersions(modules, pins, newest, "one,tow"); err == nil || !strings.Contains(err.Error(), `"tow"`) {
		t.Errorf("a misspelled agent: %v", err)
	}
	if _, err := pins.newest(func(string) (string, error) { return "", errors.New("offline") }); err == nil {
		t.Error("npm fails, and nobody is told")
	}
}

// Every agent has a pin. Without one agentsnewest would have nothing to
// compare.
func TestEveryAgentIsPinned(t *testing.T) {
	pins, err := readManifest(filepath.Join("..", "..", "test", "agents", "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	for agent, module := range realagents.Modules() {
		if pins.version(module) == "" {
			t.Errorf("%s: test/agents/package.json has no %s", agent, module)
		}
	}
}

// The suite and the recordings run for every provider, whichever files of its
// package contain the tests.
func TestEveryProviderIsRunAndRecorded(t *testing.T) {
	for _, s := range steps {
		found, err := packagesWith(s.tests, filepath.Join("..", "..", "provider"))
		for i, name := range found {
			found[i] = filepath.Base(name)
		}
		if want := []string{"acp", "claude", "codex"}; err != nil || !slices.Equal(found, want) {
			t.Errorf("%s: in %q, %v; want %q", s.what, found, err, want)
		}
	}
}

func TestCompareTellsWhatDiffers(t *testing.T) {
	root := t.TempDir()
	put := func(path string, data []byte) {
		t.Helper()
		path = filepath.Join(root, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	report := func(caps []runnel.Capability, found ...providertest.Finding) []byte {
		data, err := json.Marshal(providertest.Report{Agent: "one", Capabilities: caps, Results: found})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	recording := func(want string) []byte {
		return txtar.Format(&txtar.Archive{Files: []txtar.File{{Name: "in", Data: []byte(want + "raw\n")}, {Name: "want", Data: []byte(want)}}})
	}
	put("provider/acp/testdata/conformance/one@1.0.0.json", report([]runnel.Capability{"a", "b"},
		providertest.Finding{Test: "Text", Works: true}, providertest.Finding{Test: "Tool", Works: true}, providertest.Finding{Test: "Plan", Why: "has none"}))
	put("provider/acp/testdata/one/text@1.0.0.txtar", recording("a\nb\n"))
	put("provider/acp/testdata/one/tool@1.0.0.txtar", recording("a\nb\n"))
	put("provider/acp/testdata/one/told/usage@1.0.0.txtar", recording("tokens 12 of call_a1b\nend\n"))
	put("provider/acp/testdata/one/order@1.0.0.txtar", recording("usage 1\nend\n"))
	put("provider/acp/testdata/one/plan@1.0.0.txtar", recording("a\n"))
	put("provider/acp/testdata/one/text@0.9.0.txtar", recording("old\n"))
	put("provider/acp/testdata/one/text@0.10.0.txtar", recording("not so old\n"))
	put("results/acp/testdata/one/text@1.1.0.txtar", recording("a\nb\n"))
	put("results/acp/testdata/one/tool@1.1.0.txtar", recording("a\nc\n"))
	put("results/acp/testdata/one/order@1.1.0.txtar", recording("end\nusage 1\n"))
	put("results/acp/testdata/one/told/usage@1.1.0.txtar", recording("tokens 1.5 of call_2c\nend\n"))
	r := row{agent: "one", pinned: "1.0.0", newest: "1.1.0", runs: true}
	got := func() (difference, string) {
		t.Helper()
		d, err := compare(r, filepath.Join(root, "provider"), filepath.Join(root, "results"))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		d.print(&out)
		return d, strings.ReplaceAll(out.String(), root+string(filepath.Separator), "")
	}

	d, out := got()
	if want := "conformance: the suite did not run to its end"; !d.worse() || !strings.Contains(out, want) {
		t.Errorf("without a report: worse %v\n%s", d.worse(), out)
	}

	put("results/acp/testdata/conformance/one@1.1.0.json", report([]runnel.Capability{"a", "c"},
		providertest.Finding{Test: "Text", Works: true}, providertest.Finding{Test: "Tool"}, providertest.Finding{Test: "Plan", Works: true}))
	d, out = got()
	if diff := cmp.Diff(`
one 1.1.0, compared with the pinned 1.0.0
  conformance: other capabilities
    +c
    -b
  conformance: other results
    Tool: works -> fails
    Plan: no (has none) -> works
  recordings: 2 of 4 have other events, 1 other numbers or ids only
  events that differ
    order: 2 lines, in results/acp/testdata/one/order.diff
    tool: 2 lines, in results/acp/testdata/one/tool.diff
  numbers or ids that differ
    told/usage: 2 lines, in results/acp/testdata/one/told/usage.diff
  conversations that could not be recorded again; see the output
    plan
  next: mend what works with the pinned version only, then move the pin: CONTRIBUTING.md, When an agent has a new version
`, out); diff != "" || !d.worse() {
		t.Errorf("worse %v (-want +got)\n%s", d.worse(), diff)
	}
	shown, err := os.ReadFile(filepath.Join(root, "results", "acp", "testdata", "one", "tool.diff"))
	if err != nil || !strings.Contains(string(shown), "-b\n+c\n") {
		t.Errorf("%s, %v", shown, err)
	}

	put("results/acp/testdata/conformance/one@1.1.0.json", report([]runnel.Capability{"a", "b"},
		providertest.Finding{Test: "Text", Works: true}, providertest.Finding{Test: "Tool", Works: true}, providertest.Finding{Test: "Plan", Why: "has none"}))
	if d, out = got(); !d.worse() || !strings.Contains(out, "conformance: the same results") {
		t.Errorf("the same results, and a conversation that cannot be recorded: worse %v\n%s", d.worse(), out)
	}

	put("results/acp/testdata/one/plan@1.1.0.txtar", recording("a\n"))
	if d, out = got(); d.worse() || !strings.Contains(out, "2 of 5 have other events") || !strings.Contains(out, "next: read what differs") {
		t.Errorf("other events: worse %v\n%s", d.worse(), out)
	}

	put("results/acp/testdata/one/tool@1.1.0.txtar", recording("a\nb\n"))
	put("results/acp/testdata/one/order@1.1.0.txtar", recording("usage 2\nend\n"))
	if d, out = got(); d.worse() || !strings.Contains(out, "0 of 5 have other events") || !strings.Contains(out, "next: move the pin") {
		t.Errorf("nothing differs: worse %v\n%s", d.worse(), out)
	}
}
