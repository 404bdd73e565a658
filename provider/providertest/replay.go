package providertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// replayed are the scenarios whose turns are compared with the agent's history.
var replayed = []Scenario{Text, Reasoning, Tool, Parallel, Edit, Approval, Subagent, Plan, Question, Failure, Recover}

// replayEqualsLive compares what was shown live with what the agent's own
// history gives through the same translation: same items, same ids. The turns
// are those that the cases before it played; a scenario that none of them
// played is played now.
func (s Subject) replayEqualsLive(t *testing.T, conversations map[Scenario]*conversation) {
	if p, _ := s.New(t); !isHistorian(p) {
		s.skip(t, "the provider is no Historian: its sessions are rebuilt from our log only")
	}
	sessions := make(map[*conversation]*live)
	for _, sc := range replayed {
		if s.Prompts[sc] == "" {
			continue
		}
		c := conversations[sc]
		l := c.take(t)
		sessions[c] = l
		if len(l.turns[sc]) == 0 {
			turn := s.play(l, sc)
			l.answerAll(turn, event.ChoiceAllowOnce)
			_, _ = l.wait(turn)
		}
	}
	compared := make(map[*conversation]*comparison)
	for c, l := range sessions {
		compared[c] = s.compare(t, l)
	}
	for _, sc := range replayed {
		t.Run(string(sc), func(t *testing.T) {
			s.prompt(t, sc)
			c := conversations[sc]
			compared[c].check(t, sessions[c].turns[sc])
		})
	}
	for _, c := range compared {
		c.check(t, c.rest())
	}
}

func isHistorian(p runnel.Provider) bool { _, ok := p.(runnel.Historian); return ok }

// A comparison holds the items of a conversation against those of its history.
type comparison struct {
	names        map[string]string // of live turns
	live, stored []event.Item
	checked      map[string]bool
}

// compare closes a session and reads its conversation from the agent's history.
func (s Subject) compare(t *testing.T, l *live) *comparison {
	t.Helper()
	id := l.Status().AgentSessionID
	if err := l.Close(); err != nil {
		t.Fatal(detail(err))
	}
	log := new(runnel.Memory)
	history := l.provider.(runnel.Historian).History(t.Context(), runnel.Conversation{AgentSessionID: id, Dir: l.opt.Dir})
	Record(t, log, "s", runnel.Replay("s", l.provider.Name(), history))
	CheckLog(t, log, "s")
	items := Items(t, l.log, "s", "")
	return &comparison{
		names: s.names(items), live: s.comparable(items), stored: s.comparable(Items(t, log, "s", "")), checked: make(map[string]bool),
	}
}

// check compares the items of some turns.
func (c *comparison) check(t *testing.T, turns []string) {
	t.Helper()
	of := make(map[string]bool)
	for _, id := range turns {
		name, ok := c.names[id]
		if !ok {
			name = id // it is in the history only
		}
		of[name], c.checked[name] = true, true
	}
	pick := func(items []event.Item) (out []event.Item) {
		for _, it := range items {
			if of[it.Turn] {
				out = append(out, it)
			}
		}
		return out
	}
	if diff := cmp.Diff(pick(c.live), pick(c.stored)); diff != "" {
		t.Errorf("live (-) and replayed (+) differ:\n%s", diff)
	}
}

// rest returns the turns that no scenario claimed.
func (c *comparison) rest() (names []string) {
	for _, it := range slices.Concat(c.live, c.stored) {
		if !c.checked[it.Turn] {
			names = append(names, it.Turn)
		}
	}
	return names
}

// Record appends replayed events to a log.
func Record(t testing.TB, log runnel.Log, session string, evs func(yield func(event.Event, error) bool)) {
	t.Helper()
	for ev, err := range evs {
		if err != nil {
			t.Fatal(detail(err))
		}
		if err := log.Append(t.Context(), session, ev.Seq-1, ev); err != nil {
			t.Fatal(err)
		}
	}
}

// names says how the turns of items are called in a comparison: by their ids,
// or by their order.
func (s Subject) names(items []event.Item) map[string]string {
	names := make(map[string]string)
	for _, it := range items {
		if names[it.Turn] != "" {
			continue
		}
		if names[it.Turn] = it.Turn; s.TurnsByOrder {
			names[it.Turn] = fmt.Sprintf("turn-%d", len(names))
		}
	}
	return names
}

// comparable leaves out of items what is not theirs: when they happened and
// where in the log. What else may differ is named in s.Differences.
func (s Subject) comparable(items []event.Item) []event.Item {
	var out []event.Item
	names := s.names(items)
	for _, it := range items {
		it.ID = names[it.Turn] + strings.TrimPrefix(it.ID, it.Turn)
		it.Turn = names[it.Turn]
		it.StartedAt, it.UpdatedAt, it.Seq, it.Native = time.Time{}, time.Time{}, 0, nil
		if s.mayDiffer(it) {
			continue
		}
		at := len(out)
		if s.OutputsWithCalls && it.Type == event.TypeFunctionCallOutput {
			isCall := func(c event.Item) bool { return c.Type == event.TypeFunctionCall && c.CallID == it.CallID }
			at = slices.IndexFunc(out, isCall) + 1
		}
		out = slices.Insert(out, at, it)
	}
	parallelByCall(out)
	return out
}

// parallelByCall orders outputs of the same level that follow one another as
// their calls are ordered. These calls ran in parallel: all of them were made
// before the first output.
func parallelByCall(items []event.Item) {
	call := make(map[string]int)
	for i, it := range items {
		if it.Type == event.TypeFunctionCall {
			call[it.CallID] = i
		}
	}
	for from := 0; from < len(items); {
		first, to := items[from], from
		for to < len(items) && items[to].Type == event.TypeFunctionCallOutput && items[to].Turn == first.Turn && items[to].ParentCallID == first.ParentCallID {
			to++
		}
		slices.SortStableFunc(items[from:to], func(a, b event.Item) int { return call[a.CallID] - call[b.CallID] })
		from = max(to, from+1)
	}
}

func (s Subject) mayDiffer(it event.Item) bool {
	for _, differs := range s.Differences {
		if differs(it) {
			return true
		}
	}
	return false
}
