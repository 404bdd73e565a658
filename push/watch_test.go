package push

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
)

// statuses by the words of the table below.
func statusOf(word string) gateway.Status {
	st := gateway.Status{SessionID: "s", ProjectDir: "/p", State: event.StateOpen, Activity: event.ActivityIdle, LastTurn: event.StatusCompleted}
	switch word {
	case "works":
		st.Activity = event.ActivityWorking
	case "waits":
		st.Activity = event.ActivityWaiting
	case "asks": // between turns
		st.PendingApprovals = []event.Approval{{ID: "a"}}
	case "queued":
		st.Queued = 1
	case "failed":
		st.LastTurn = event.StatusError
	case "cancelled":
		st.LastTurn = event.StatusCancelled
	case "ended":
		st.State = event.StateDead
	case "archived":
		st.Archived, st.Activity = true, event.ActivityWaiting
	case "deleted":
		st.Deleted, st.State = true, event.StateDead
	}
	return st
}

// Each word is the status of a session, a second after the one before. A note
// is due three seconds after the status that causes it.
func TestNotesAreDueOnceAStateHasSettled(t *testing.T) {
	for history, want := range map[string]string{
		"idle works waits waits waits waits waits waits":          "needs-you@5",
		"works waits works works works works":                     "",            // a rule has decided
		"works waits works waits waits waits waits":               "needs-you@6", // asked again
		"works idle idle idle idle idle":                          "finished@4",
		"works failed failed failed failed":                       "finished@4",
		"works cancelled cancelled cancelled cancelled":           "",
		"works idle works works works works":                      "", // the next turn has begun
		"works queued works works works idle idle idle idle":      "finished@8",
		"waits idle idle idle idle idle":                          "finished@4", // the answer ended the turn
		"works waits waits waits waits works idle idle idle idle": "needs-you@4 finished@9",
		"works ended ended ended ended":                           "finished@4",
		"idle asks asks asks asks":                                "needs-you@4",
		"idle archived archived archived archived":                "",
		"works waits deleted deleted deleted deleted":             "",
		"idle idle idle idle":                                     "",
		"waits waits waits waits waits":                           "", // waits since before the watch began
	} {
		w := watch{settle: 3 * time.Second, sessions: make(map[string]*track)}
		start := time.Unix(0, 0)
		var got []string
		for i, word := range strings.Fields(history) {
			now := start.Add(time.Duration(i) * time.Second)
			if i == 0 {
				w.begin(statusOf(word))
			} else {
				w.observe(statusOf(word), now)
			}
			due := w.wait(now) <= 0
			notes := w.take(now)
			if due != (len(notes) > 0) {
				t.Errorf("%s: wait says %v at %d, but the notes are %v", history, due, i, notes)
			}
			for _, n := range notes {
				if n.project != "/p" {
					t.Errorf("%s: project %q", history, n.project)
				}
				got = append(got, fmt.Sprintf("%s@%d", n.kind, i))
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s:\n got %q\nwant %q", history, text, want)
		}
	}
}

func TestWatchForgetsSessionsThatEnd(t *testing.T) {
	w := watch{settle: time.Second, sessions: make(map[string]*track)}
	for i := range 1000 {
		for _, word := range []string{"works", "ended", "ended"} {
			st := statusOf(word)
			st.SessionID = fmt.Sprint(i)
			w.observe(st, time.Unix(0, 0))
		}
	}
	if notes := w.take(time.Unix(9, 0)); !slices.Equal(notes, []note{{Finished, "/p"}}) {
		t.Errorf("got %v", notes) // one note for all of them
	}
	if len(w.sessions) != 0 {
		t.Errorf("%d sessions are still known", len(w.sessions))
	}
}
