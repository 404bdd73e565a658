package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// stateScript is a sequence of events with the turns that are open after each.
var stateScript = []struct {
	turn string
	body event.Body
	open string // "turn@after" of each open turn
}{
	{"", event.SessionUpdated{Title: "t"}, "[]"},
	{"a", event.ItemStart{ItemID: "a:u", ItemType: event.TypeMessage}, "[a@1]"},
	{"a", event.ResponseStart{ProviderID: "p"}, "[a@1]"},
	{"", event.Notice{Level: event.LevelInfo, Code: "c"}, "[a@1]"},
	{"b", event.ResponseStart{ProviderID: "p"}, "[a@1 b@4]"},
	{"a", event.ItemDelta{ItemID: "a:u"}, "[a@1 b@4]"},
	{"c", event.ItemDelta{ItemID: "c:u"}, "[a@1 b@4 c@6]"},
	{"b", event.ResponseError{Error: event.Fault{Code: "c"}}, "[a@1 c@6]"},
	{"never begun", event.ResponseDone{Status: event.StatusCompleted}, "[a@1 c@6]"},
	{"a", event.ResponseDone{Status: event.StatusCancelled}, "[c@6]"},
	{"", event.ResponseDone{Status: event.StatusCompleted}, "[c@6]"},
	{"d", event.ItemDelta{ItemID: "d:u"}, "[c@6 d@11]"},
	{"c", event.ResponseDone{Status: event.StatusError}, "[d@11]"},
	{"d", event.ResponseDone{Status: event.StatusCompleted}, "[]"},
	{"e", event.ItemDelta{ItemID: "e:u"}, "[e@14]"},
}

func scripted(session string) []event.Event {
	var evs []event.Event
	for i, step := range stateScript {
		evs = append(evs, numbered(session, step.turn, int64(i), step.body)...)
	}
	return evs
}

func openTurns(st runnel.LogState) string {
	open := []string{}
	for _, o := range st.Open {
		open = append(open, fmt.Sprintf("%s@%d", o.Turn, o.After))
	}
	return fmt.Sprint(open)
}

// testState checks the state after every append, for appends of every size.
func testState(t *testing.T, log runnel.Log) {
	for size := 1; size <= len(stateScript); size++ {
		session := fmt.Sprint("s", size)
		var head int64
		for piece := range slices.Chunk(scripted(session), size) {
			appendAll(t, log, session, head, piece...)
			head += int64(len(piece))
			st := state(t, log, session)
			if st.Head != head || openTurns(st) != stateScript[head-1].open {
				t.Errorf("pieces of %d: state after %d is %d %s, want %s", size, head, st.Head, openTurns(st), stateScript[head-1].open)
			}
		}
	}
}

// testStateOfManyTurns checks that finished turns are not listed as open.
func testStateOfManyTurns(t *testing.T, log runnel.Log) {
	var head int64
	for i := range 500 {
		turn := fmt.Sprint("t", i)
		evs := numbered("s", turn, head, event.ResponseStart{ProviderID: "p"}, event.ResponseDone{Status: event.StatusCompleted})
		appendAll(t, log, "s", head, evs...)
		head += 2
	}
	equal(t, "state", state(t, log, "s"), runnel.LogState{Head: head})
	appendAll(t, log, "s", head, numbered("s", "last", head, event.ResponseStart{ProviderID: "p"})...)
	equal(t, "state", state(t, log, "s"), runnel.LogState{Head: head + 1, Open: []runnel.OpenTurn{{Turn: "last", After: head}}})
}
