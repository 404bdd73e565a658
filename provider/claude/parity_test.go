package claude

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// unpack writes what the agent of a recording left, as its configuration
// directory, and returns the conversations in it, oldest first.
func unpack(t *testing.T, a *txtar.Archive) (found []runnel.Conversation) {
	t.Helper()
	config := t.TempDir()
	t.Setenv("CLAUDE_CONFIG_DIR", config)
	for _, f := range a.Files {
		name, ok := strings.CutPrefix(f.Name, "stored/")
		if !ok {
			continue
		}
		path := filepath.Join(config, "projects", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for c, err := range New().Discover(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		t.Fatal("no conversation was discovered")
	}
	slices.SortFunc(found, func(a, b runnel.Conversation) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return found
}

func history(t *testing.T, cs ...runnel.Conversation) []event.Event {
	t.Helper()
	var evs []event.Event
	for _, c := range cs {
		for ev, err := range New().History(t.Context(), c) {
			if err != nil {
				t.Fatal(err)
			}
			evs = append(evs, ev)
		}
	}
	return evs
}

// sameItems says what an item is, apart from when it was seen.
var sameItems = cmp.Options{
	cmpopts.IgnoreFields(event.Item{}, "StartedAt", "UpdatedAt", "Seq"),
	cmpopts.EquateEmpty(),
}

// The intentional differences between a live conversation and the files of the
// agent, beside those that a fixture names (fixture.live):
//
//   - what was cancelled is not stored;
//   - a message of which nothing was stored takes a number all the same;
//   - a prompt that is a slash command of the agent's is not stored as one, nor
//     is what it printed;
//   - approvals, costs, rate limits and retries are not stored;
//   - what turns do beside each other is in no order between them;
//   - 2.1.197 does not show what the subagent of a subagent does.
func TestG04_ReplayEqualsLive(t *testing.T) {
	eachRecording(t, func(t *testing.T, f fixture, path string, a *txtar.Archive) {
		live := translated(t, a)
		stored := history(t, unpack(t, a)...)
		sound(t, stored)
		turns := map[string]bool{}
		for _, ev := range live {
			turns[ev.Turn] = true
		}
		want := items(live)
		isCommand := commandsOf(want)
		want = slices.DeleteFunc(want, func(it event.Item) bool {
			return slices.Contains(f.live, strings.TrimPrefix(it.ID, it.Turn+":")) && (it.Status == event.ItemStopped || isCommand(it))
		})
		got := slices.DeleteFunc(items(stored), func(it event.Item) bool { return !turns[it.Turn] }) // of an earlier process
		if strings.Contains(path, "@2.1.197") {
			got = slices.DeleteFunc(got, deep(got))
		}
		kept := func(it event.Item) bool { return slices.Contains(f.kept, strings.TrimPrefix(it.ID, it.Turn+":")) }
		want, got = slices.DeleteFunc(want, kept), slices.DeleteFunc(got, kept)
		byTurn(want)
		byTurn(got)
		renumber(want)
		renumber(got)
		if d := cmp.Diff(want, got, sameItems); d != "" {
			t.Errorf("-live +stored:\n%s", d)
		}
		if f.ends != "" {
			return
		}
		if d := cmp.Diff(ends(live, turns), ends(stored, turns)); d != "" {
			t.Errorf("ends: -live +stored:\n%s", d)
		}
	})
}

// byTurn puts the items of each turn together.
func byTurn(its []event.Item) {
	first := map[string]int{}
	for i, it := range its {
		if _, seen := first[it.Turn]; !seen {
			first[it.Turn] = i
		}
	}
	slices.SortStableFunc(its, func(a, b event.Item) int { return first[a.Turn] - first[b.Turn] })
}

// deep reports whether an item is of the subagent of a subagent.
func deep(its []event.Item) func(event.Item) bool {
	parents := map[string]string{}
	for _, it := range its {
		if it.Type == event.TypeFunctionCall {
			parents[it.CallID] = it.ParentCallID
		}
	}
	return func(it event.Item) bool { return parents[it.ParentCallID] != "" }
}

// commandsOf reports whether an item is of a turn in which the agent ran a
// command of its own, and no model said anything.
func commandsOf(its []event.Item) func(event.Item) bool {
	spoke := map[string]bool{}
	for _, it := range its {
		if m, ok := it.Final.(event.Message); ok && m.Origin == event.OriginAgent {
			spoke[it.Turn] = true
		}
	}
	return func(it event.Item) bool {
		m, ok := it.Final.(event.Message)
		return ok && !spoke[it.Turn] && (strings.HasPrefix(m.Content, "/") || m.Origin == event.OriginSystem)
	}
}

// renumber counts the native messages of each turn anew, without the gaps of
// those that left nothing.
func renumber(its []event.Item) {
	next := map[string]string{}
	count := map[string]int{}
	for i, it := range its {
		rest := strings.TrimPrefix(it.ID, it.Turn+":")
		ordinal, block, ok := strings.Cut(rest, ":")
		if !ok || strings.Contains(ordinal, "/") || ordinal == "0" {
			continue
		}
		if next[it.Turn+ordinal] == "" {
			count[it.Turn]++
			next[it.Turn+ordinal] = itoa(count[it.Turn])
		}
		its[i].ID = it.Turn + ":" + next[it.Turn+ordinal] + ":" + block
	}
}

// ends says how each turn ended that has an item.
func ends(evs []event.Event, turns map[string]bool) []string {
	var out []string
	spoke := map[string]bool{}
	for _, ev := range evs {
		switch b := ev.Body.(type) {
		case event.ItemStart:
			spoke[ev.Turn] = true
		case event.ResponseDone:
			if turns[ev.Turn] && spoke[ev.Turn] {
				out = append(out, string(b.Status))
			}
		case event.ResponseError:
			if turns[ev.Turn] && spoke[ev.Turn] {
				out = append(out, "error")
			}
		}
	}
	return out
}

func TestDiscoverNamesAConversation(t *testing.T) {
	a, err := txtar.ParseFile("testdata/text@2.1.329.txtar")
	if err != nil {
		t.Fatal(err)
	}
	c := unpack(t, a)[0]
	if c.Dir != "/tmp/runnel-fixture/project" || c.Title == "" || c.CreatedAt.Before(fixtureStart) || c.Size == 0 || time.Since(c.UpdatedAt) > time.Hour {
		t.Errorf("%+v", c)
	}
	for range New().Discover(t.Context(), t.TempDir()) {
		t.Error("a conversation of another directory was found")
	}
}
