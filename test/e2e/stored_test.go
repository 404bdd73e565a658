//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// searchTerminals has terminals in which agents run commands and change files
// without asking, each with the steps of a model that does both.
var searchTerminals = map[string]struct {
	terminal
	steps []fakemodel.Step
}{
	"codex": {
		terminal{begins: append(slices.Clone(codexTerminal.begins), "--sandbox", "workspace-write")},
		[]fakemodel.Step{
			{Blocks: []fakemodel.Block{fakemodel.Call("exec_command", map[string]any{"cmd": "printf zebra-%s 42"})}},
			{Blocks: []fakemodel.Block{fakemodel.Call("apply_patch", "*** Begin Patch\n*** Add File: new.txt\n+zebra\n*** End Patch\n")}},
		},
	},
	"opencode": {terminals["opencode"], writing("opencode")},
	"copilot":  {terminal{begins: []string{"--allow-all-tools"}}, writing("copilot")},
}

// writing returns the steps of a model that runs a command and writes a file.
func writing(agent string) []fakemodel.Step {
	words := realagents.ToolsetOf(agent)
	return []fakemodel.Step{{Blocks: []fakemodel.Block{words.Shell("printf zebra-%s 42")}}, {Blocks: []fakemodel.Block{words.Write("PROJECT/new.txt", "zebra\n")}}}
}

// The search finds the prompt, the command, the diff and the answer of a
// conversation that nobody has opened, by the ids that they have once it is
// opened.
func TestSearchFindsConversationThatIsNoSession(t *testing.T) {
	for name, term := range searchTerminals {
		t.Run(name, func(t *testing.T) {
			if name == "opencode" {
				needsLong(t, "starts slowly; TestConversationInAFileIsFollowed searches its conversation, too")
			}
			t.Parallel()
			agent := realagents.Find(t, name)
			s := serve(t, agent)
			prompt := strings.ReplaceAll(play(append(slices.Clone(term.steps), fakemodel.Step{Text: "A zebra."})...), "PROJECT", s.home.Project)
			if err := term.start(s, agent, "", prompt).Wait(); err != nil {
				t.Fatal(err)
			}
			before, hit := s.zebras(true)
			s.load(name + ":" + hit.AgentID)
			after, _ := s.zebras(false)
			if fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("found before it was opened:\n%v\nafter:\n%v", before, after)
			}
		})
	}
}

// zebras waits until the search index is complete, a search finds an item of
// each kind, either of stored conversations or of sessions, and the next search
// finds the same. It returns these items, and the last one.
func (s *server) zebras(unopened bool) (found []string, last gateway.SearchHit) {
	s.t.Helper()
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("found: %v", found)
		}
	})
	until(s.t, "a search", func() bool {
		var page gateway.SearchPage
		s.call("GET", "/api/search?q=zebra", nil, &page)
		before := found
		found = nil
		seen := make(map[string]bool)
		for _, h := range page.Hits {
			if (h.SessionID == "") == unopened {
				found, last = append(found, fmt.Sprint(h.Kind, " ", h.ItemID, " ", h.TurnID)), h
				seen[string(h.Kind)] = true
			}
		}
		slices.Sort(found)
		return !page.Indexing && len(seen) == 4 && slices.Equal(before, found)
	})
	return found, last
}
