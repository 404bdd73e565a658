package providertest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
)

// results makes the suite write its results instead of comparing them.
// docs/agents.md is generated from these results.
var results = flag.Bool("results", false, "rewrite testdata/conformance, or only the rows of the tests that -run selects")

// resultsVar names an environment variable with a directory. If it is set,
// -results writes below this directory instead of testdata, in a folder with
// the name of the provider's package. It then also writes a report with
// failures.
const resultsVar = "RUNNEL_RESULTS_DIR"

// Report holds the results of the suite for one agent, as stored in
// testdata/conformance/<agent>@<version>.json, and for an agent in a sandbox in
// testdata/conformance/<sandbox>/<agent>@<version>.json.
type Report struct {
	Agent        string              `json:"agent"`
	Name         string              `json:"displayName"`
	Version      string              `json:"version,omitzero"`
	Sandbox      runnel.Sandbox      `json:"sandbox,omitzero"` // of the agent during the tests
	Capabilities []runnel.Capability `json:"capabilities"`
	Results      []Finding           `json:"results"`
	Notes        []string            `json:"notes,omitzero"`
}

// Finding is the result of one test of the suite: it passed, failed, or was
// skipped with a reason.
type Finding struct {
	Test  string `json:"test"`
	Works bool   `json:"works"`
	Why   string `json:"why,omitzero"`
	Ours  bool   `json:"ours,omitzero"` // the limit is runnel's, not the agent's
}

// Reports returns the stored reports of all agents without a sandbox. root is
// the root of the repository.
func Reports(root string) ([]Report, error) { return ReportsIn(root, "") }

// ReportsIn returns the stored reports of all agents in a sandbox. box is empty
// for none.
func ReportsIn(root string, box runnel.Sandbox) ([]Report, error) {
	paths, err := filepath.Glob(filepath.Join(root, "provider", "*", "testdata", "conformance", string(box), "*.json"))
	if err != nil {
		return nil, err
	}
	reports := make([]Report, len(paths))
	for i, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(data, &reports[i])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return reports, nil
}

// Each runs test as a sub-test for each of these agents, with the stored report
// of its newest version. root is the root of the repository. The sub-test of an
// agent without a report fails, so that a missing report is noticed.
func Each(t *testing.T, root string, agents []string, test func(t *testing.T, found Report)) {
	t.Helper()
	reports, err := Reports(root)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(reports) // the newest version of each comes first
	for _, agent := range agents {
		t.Run(agent, func(t *testing.T) {
			i := slices.IndexFunc(reports, func(r Report) bool { return r.Agent == agent })
			if i < 0 {
				t.Fatalf("no report of %s: run the suite of its provider with -results", agent)
			}
			test(t, reports[i])
		})
	}
}

// report collects the findings while the suite runs.
type report struct {
	mu       sync.Mutex
	reasons  map[string]string // of skipped tests, by their full names
	findings []Finding
	planned  int
	failed   bool
	repeats  bool // a test of Subject.Repeats did not run
}

// run is like t.Run, and records the result of the test.
func (s Subject) run(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	if slices.Contains(s.Repeats, name) && os.Getenv("RUNNEL_LONG") == "" && !*results {
		s.report.repeats = true
		t.Run(name, func(t *testing.T) { t.Skip("runs with another agent of the provider: RUNNEL_LONG=1") })
		return
	}
	s.report.planned++
	t.Run(name, func(t *testing.T) {
		t.Cleanup(func() { s.report.note(t, name) })
		test(t)
	})
}

func (r *report) note(t *testing.T, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	why := r.reasons[t.Name()]
	r.findings = append(r.findings, Finding{Test: strings.TrimPrefix(name, "Test"), Works: !t.Skipped() && !t.Failed(), Why: why})
	r.failed = r.failed || t.Failed()
}

// skip skips a test that the subject does not support, and records the reason.
func (s Subject) skip(t *testing.T, why string) {
	t.Helper()
	s.report.mu.Lock()
	s.report.reasons[t.Name()] = why
	s.report.mu.Unlock()
	t.Skip(why)
}

// compareReport compares the findings with the stored report. With -results it
// writes the report instead. After a run of some of the tests, it compares
// nothing, and -results writes only the rows of these tests. After a run with
// failures it does neither, unless resultsVar is set.
func (s Subject) compareReport(t *testing.T, p runnel.Provider) {
	t.Helper()
	elsewhere, some := os.Getenv(resultsVar), len(s.report.findings) != s.report.planned
	if s.report.failed && elsewhere == "" || some && (!*results || elsewhere != "") {
		return
	}
	path := filepath.Join("testdata", "conformance", string(s.Sandbox), strings.TrimSuffix(p.Name()+"@"+s.Version, "@")+".json")
	if some || s.report.repeats {
		s.report.addStored(t, path)
	}
	slices.SortFunc(s.report.findings, func(a, b Finding) int { return slices.Index(order, a.Test) - slices.Index(order, b.Test) })
	rep := Report{Agent: p.Name(), Name: p.Name(), Version: s.Version, Sandbox: s.Sandbox, Capabilities: runnel.Capabilities(p), Results: s.report.findings, Notes: s.Notes}
	if d, ok := p.(interface{ DisplayName() string }); ok {
		rep.Name = d.DisplayName()
	}
	for i, f := range rep.Results {
		rep.Results[i].Ours = f.Why != "" && slices.Contains(s.providerLimits(), f.Why)
	}
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(rep); err != nil {
		t.Fatal(err)
	}
	if *results {
		if elsewhere != "" {
			path = filepath.Join(elsewhere, packageName(t), path)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	kept, _ := os.ReadFile(path) // a missing file counts as empty
	if d := cmp.Diff(string(kept), got.String()); d != "" {
		t.Errorf("%s differs (-stored +found); if the new results are right, run the test with -results, then make docs:\n%s", path, d)
	}
}

// packageName returns the name of the tested package's folder.
func packageName(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(dir)
}

// addStored adds the stored findings of tests that did not run.
func (r *report) addStored(t *testing.T, path string) {
	t.Helper()
	var kept Report
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil {
		t.Fatalf("run the whole suite with -results: %v", err)
	}
	for _, f := range kept.Results {
		if !slices.ContainsFunc(r.findings, func(found Finding) bool { return found.Test == f.Test }) {
			r.findings = append(r.findings, f)
		}
	}
}

// providerLimits returns the reasons that are limits of the provider, not of
// the agent.
func (s Subject) providerLimits() (reasons []string) {
	for _, why := range s.Lacks {
		reasons = append(reasons, why)
	}
	return reasons
}
