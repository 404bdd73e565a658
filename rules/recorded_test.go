package rules

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

var update = flag.Bool("update", false, "write the golden file anew")

var recordedApproval = regexp.MustCompile(`^\d+ (\{"type":"approval_requested".*\})$`)

// recorded returns the approvals in all recordings of real agents, by agent.
func recorded(t testing.TB) map[string][]event.Approval {
	t.Helper()
	all := make(map[string][]event.Approval)
	err := filepath.WalkDir("../provider", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".txtar" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		agent, _, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../provider/"), "/testdata")
		if agent == "acp" {
			agent = filepath.Base(filepath.Dir(path))
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			m := recordedApproval.FindSubmatch(lines.Bytes())
			if m == nil {
				continue
			}
			var ev struct{ Approval event.Approval }
			if err := json.Unmarshal(m[1], &ev); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			all[agent] = append(all[agent], ev.Approval)
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRecordedApprovals compares the actions of all recorded approvals with a
// golden table.
func TestRecordedApprovals(t *testing.T) {
	var rows []string
	for agent, list := range recorded(t) {
		for _, a := range list {
			act := actionOf(Call{CLIType: agent, Dir: "/p", Approval: a})
			what := strings.TrimSpace(fmt.Sprintf("%s %s %s", act.command, strings.Join(act.paths, " "), act.url))
			row := fmt.Sprintf("%-16s %-8s %-20s %-7s plain=%-5v %s", agent, a.Kind, act.tool, act.kind, act.plain(), what)
			if a.Kind == event.ApprovalTool && !slices.Contains(rows, row) {
				rows = append(rows, row)
			}
		}
	}
	slices.Sort(rows)
	got := strings.Join(rows, "\n") + "\n"
	const golden = "testdata/recorded.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s; got\n%s", golden, got)
	}
}
