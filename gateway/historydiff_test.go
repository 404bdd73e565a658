package gateway

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A client may choose the id of a turn. Such an id can be of version 5, like
// the ids that providers derive.
func TestHistoryDiffKnowsTurnsWhoseIDsClientsDerived(t *testing.T) {
	chosen := uuid.NewSHA1(uuid.NameSpaceURL, []byte("job 1")).String()
	ours := turnWith(chosen, "text please", "as recorded")
	one, two, three := turnWith(derived("1"), "one", "first answer"), turnWith(derived("2"), "text please", "as stored"), turnWith(derived("3"), "three", "elsewhere")
	for name, tt := range map[string]struct {
		log, history []event.Event
		want         string // id of the only turn to append
	}{
		"in a copied conversation":     {slices.Concat(one, ours), slices.Concat(one, two, three), derived("3")},
		"in a conversation of its own": {ours, slices.Concat(turnWith(derived("1"), "text please", "as stored"), three), ""},
		"in its own, with another id":  {slices.Concat(ours, turnWith(uuid.NewString(), "three", "recorded")), slices.Concat(turnWith(derived("1"), "text please", "as stored"), three, two), ""},
		"nothing new":                  {slices.Concat(one, ours), slices.Concat(one, two), ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newHistoryDiff(true)
			add := func(evs []event.Event, to func(event.Event)) {
				for ev, err := range runnel.Replay("s", "script", func(yield func(event.Event, error) bool) {
					for _, ev := range evs {
						if !yield(ev, nil) {
							return
						}
					}
				}) {
					if err != nil {
						t.Fatal(err)
					}
					to(ev)
				}
			}
			add(tt.log, n.logHas)
			add(tt.history, n.historyHas)
			var got []string
			for _, ev := range n.found() {
				if !slices.Contains(got, ev.Turn) {
					got = append(got, ev.Turn)
				}
			}
			if want := slices.DeleteFunc([]string{tt.want}, func(id string) bool { return id == "" }); !slices.Equal(got, want) {
				t.Errorf("appends %v, want %v", got, want)
			}
		})
	}
}

// A process that has the conversation open has not written its prompt yet, so
// the history does not show that the session's turn before it has ended.
func TestHistoryDiffKnowsItsLastTurnWithoutAnEnd(t *testing.T) {
	foreign := uuid.NewString()
	one, ours := turnWith(derived("1"), "one", "answer"), turnWith(uuid.NewString(), "two", "recorded")
	two := turnWith(foreign, "two", "stored")
	n := newHistoryDiff(true)
	n.copied = true
	for _, ev := range slices.Concat(one, ours) {
		n.logHas(ev)
	}
	for _, ev := range slices.Concat(one, two[:len(two)-1]) {
		n.historyHas(ev)
	}
	known := n.endedInLog()
	if !known[foreign] || len(known) != 1 {
		t.Errorf("known turns %v, want %s", known, foreign)
	}
	if evs := n.found(); len(evs) > 0 {
		t.Errorf("appends %+v", evs)
	}

	// A turn of the other process that has begun is new.
	n = newHistoryDiff(true)
	n.copied = true
	for _, ev := range slices.Concat(one, ours) {
		n.logHas(ev)
	}
	three := turnWith(uuid.NewString(), "three", "elsewhere")
	for _, ev := range slices.Concat(one, two, three[:len(three)-1]) {
		n.historyHas(ev)
	}
	if known := n.endedInLog(); len(known) > 0 {
		t.Errorf("known turns %v", known)
	}
	if evs := n.found(); len(evs) != len(three)-1 || evs[0].Turn != three[0].Turn {
		t.Errorf("appends %+v", evs)
	}
}
