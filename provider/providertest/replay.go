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

// replayed lists the scenarios whose turns are compared with the agent's
// history.
var replayed = []Scenario{Text, Reasoning, Tool, Parallel, Edit, Approval, Subagent, Plan, Question, Failure, Recover}

// replayEqualsLive compares the items of live turns with those from the agent's
// own history. Both must have the same items with the same ids. It uses the
// turns of the earlier cases. It first plays scenarios that no earlier case has
// played.
func (s Subject) replayEqualsLive(t *testing.T, conversations map[Scenario]*conversation) {
	s.needHistory(t)
	for _, sc := range replayed {
		c := conversations[sc]
		if c.settled && s.Prompts[sc] != "" && (c.live == nil || len(c.live.turns[sc]) == 0) {
			c.close()
			c.settled = false
		}
	}
	sessions := make(map[*conversation]*live)
	for _, sc := range replayed {
		if s.Prompts[sc] == "" {
			continue
		}
		c := conversations[sc]
		l := c.latest(t)
		sessions[c] = l
		if len(l.turns[sc]) == 0 {
			turn := s.play(l, sc)
			l.answerAll(turn, event.ChoiceAllowOnce)
			_, _ = l.wait(turn)
		}
	}
	compared := make(map[*conversation]*comparison)
	for c, l := range sessions {
		compared[c] = s.compare(t, c, l)
	}
	for _, sc := range replayed {
		t.Run(string(sc), func(t *testing.T) {
			s.prompt(t, sc)
			c := conversations[sc]
			compared[c].check(t, sessions[c].turns[sc])
		})
	}
	for _, c := range compared {
		c.check(t, c.unchecked())
	}
}

func isHistorian(p runnel.Provider) bool { _, ok := p.(runnel.Historian); return ok }

// needHistory skips the test with the reason if the provider does not read the
// agent's history.
func (s Subject) needHistory(t *testing.T) {
	t.Helper()
	if why := s.Cannot[History] + s.Lacks[History]; why != "" {
		s.skip(t, why)
	}
}

// comparison holds the items of a live conversation and those of its history.
type comparison struct {
	names        map[string]string // names of the live turns, by their ids
	live, stored []event.Item
	checked      map[string]bool
}

// compare closes the session l of a conversation and reads the agent's history.
// It counts turns with rejected attachments as checked: RejectionReplayed
// compares them, because some agents replay a document as part of the text.
func (s Subject) compare(t *testing.T, c *conversation, l *live) *comparison {
	t.Helper()
	log := c.history(t)
	CheckLog(t, log, "s")
	items, kept := Items(t, l.log, "s", ""), Items(t, log, "s", "")
	if c.settled {
		items, kept = firstTurns(items, kept, c.compared, s.TurnsByOrder)
	}
	if s.TiedCalls {
		kept = untie(kept, items)
	}
	found := &comparison{names: s.names(items), live: s.comparable(items), stored: s.comparable(kept), checked: make(map[string]bool)}
	for _, id := range rejectedTurns(t, l.log) {
		found.checked[found.names[id]] = true
	}
	return found
}

// firstTurns returns the live and the stored items of the first n live turns. A
// stored turn that belongs to no live turn counts as one of them, unless the turns
// match by their order.
func firstTurns(live, stored []event.Item, n int, byOrder bool) (first, firstStored []event.Item) {
	all := turnsOf(live)
	later := func(turns []string) func(event.Item) bool {
		return func(it event.Item) bool { return slices.Contains(turns, it.Turn) }
	}
	was := all[n:]
	if byOrder {
		kept := turnsOf(stored)
		was = kept[min(n, len(kept)):]
	}
	return slices.DeleteFunc(live, later(all[n:])), slices.DeleteFunc(stored, later(was))
}

// turnsOf returns the ids of the turns of items, in their order.
func turnsOf(items []event.Item) (turns []string) {
	for _, it := range items {
		if !slices.Contains(turns, it.Turn) {
			turns = append(turns, it.Turn)
		}
	}
	return turns
}

// check compares the live and stored items of the given turns.
func (c *comparison) check(t *testing.T, turns []string) {
	t.Helper()
	of := make(map[string]bool)
	for _, id := range turns {
		name, ok := c.names[id]
		if !ok {
			name = id // the turn is only in the history
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

// unchecked returns the names of the turns that check has not compared.
func (c *comparison) unchecked() (names []string) {
	for _, it := range slices.Concat(c.live, c.stored) {
		if !c.checked[it.Turn] {
			names = append(names, it.Turn)
		}
	}
	return names
}

// Record appends replayed events to the log of a session. It fails the test on
// the first error.
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

// names returns a name for each turn id in items: the id itself or, with
// TurnsByOrder, the position of the turn.
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

// comparable returns items without their times, positions in the log and native
// data. It names turns as names does, and omits items in s.Differences.
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

// parallelByCall sorts consecutive outputs of one turn and one parent in the
// order of their calls. Such calls ran in parallel: all of them started before
// the first output.
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

// untie returns stored items in which calls that started at the same time have
// the order of the live calls, and the ids that belong to these places. Calls
// that started at different times keep their order and their ids.
func untie(stored, live []event.Item) []event.Item {
	place := make(map[string]int) // of the live calls
	for i, it := range live {
		if it.Type == event.TypeFunctionCall {
			place[it.CallID] = i
		}
	}
	out := slices.Clone(stored)
	moved := make(map[string]string) // new ids of the calls, by call id
	for from := 0; from < len(out); {
		to := from + 1
		for to < len(out) && tied(out[from], out[to]) {
			to++
		}
		calls := out[from:to]
		if len(calls) > 1 {
			places := slices.Clone(calls)
			slices.SortStableFunc(calls, func(a, b event.Item) int { return place[a.CallID] - place[b.CallID] })
			for i := range calls {
				calls[i].ID = places[i].ID
				moved[calls[i].CallID] = calls[i].ID
			}
		}
		from = to
	}
	for i, it := range out {
		if id := moved[it.CallID]; id != "" && it.Type == event.TypeFunctionCallOutput {
			out[i].ID = id + ":output"
		}
	}
	return out
}

// tied reports whether two stored calls of one turn and one parent started at
// the same time.
func tied(a, b event.Item) bool {
	return a.Type == event.TypeFunctionCall && b.Type == a.Type && a.Turn == b.Turn && a.ParentCallID == b.ParentCallID && a.StartedAt.Equal(b.StartedAt)
}

func (s Subject) mayDiffer(it event.Item) bool {
	for _, differs := range s.Differences {
		if differs(it) {
			return true
		}
	}
	return false
}
