//go:build unix

package e2e

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// The search finds the prompt, the command, the diff and the answer of a
// conversation that nobody has opened, by the ids that they have once it is
// opened.
func TestSearchFindsRolloutThatIsNoSession(t *testing.T) {
	agent, term := realagents.Find(t, "codex"), terminals["codex"]
	term.begins = append(slices.Clone(term.begins), "--sandbox", "workspace-write")
	s := serve(t, agent)
	patch := "*** Begin Patch\n*** Add File: new.txt\n+zebra\n*** End Patch\n"
	cmd := term.start(s, agent, "", play(
		fakemodel.Step{Blocks: []fakemodel.Block{fakemodel.Call("exec_command", map[string]any{"cmd": "printf zebra-%s 42"})}},
		fakemodel.Step{Blocks: []fakemodel.Block{fakemodel.Call("apply_patch", patch)}},
		fakemodel.Step{Text: "A zebra."},
	))
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	hits := func(kinds int, unopened bool) (found []string, first gateway.SearchHit) {
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("found: %v", found)
			}
		})
		until(t, "a search", func() bool {
			var page gateway.SearchPage
			s.call("GET", "/api/search?q="+url.QueryEscape("zebra"), nil, &page)
			found = nil
			seen := make(map[string]bool)
			for _, h := range page.Hits {
				if (h.SessionID == "") == unopened {
					found, first = append(found, fmt.Sprint(h.Kind, " ", h.ItemID, " ", h.TurnID)), h
					seen[string(h.Kind)] = true
				}
			}
			return len(seen) >= kinds
		})
		slices.Sort(found)
		return found, first
	}
	before, hit := hits(4, true)
	s.load("codex:" + hit.AgentID)
	after, _ := hits(4, false)
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("found before it was opened:\n%v\nafter:\n%v", before, after)
	}
}
