package sqlite

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// TestTailsBounded appends to random sessions and checks after every append
// that the tails are within their limits.
func TestTailsBounded(t *testing.T) {
	limits := tailLimits{events: 7, bytes: 3000, allBytes: 20000}
	ts := newTails(limits)
	heads := make([]int64, 50)
	for range 20000 {
		i := rand.IntN(len(heads))
		session := fmt.Sprint("s", i)
		rows := make([]row, 1+rand.IntN(12))
		for k := range rows {
			heads[i]++
			rows[k] = row{Event: delta(session, heads[i]), payload: make([]byte, rand.IntN(1000))}
		}
		ts.add(session, rows, false)
		checkTails(t, ts)
		after := heads[i] - int64(rand.IntN(9))
		page := ts.page(session, after, heads[i])
		for k, ev := range page {
			if ev.Session != session || ev.Seq != after+int64(k)+1 {
				t.Fatalf("page of %s after %d: %s %d at place %d", session, after, ev.Session, ev.Seq, k)
			}
		}
		if head, ok := ts.head(session); ok && head != heads[i] {
			t.Fatalf("%s ends at %d, want %d", session, head, heads[i])
		}
	}
}

func checkTails(t *testing.T, ts *tails) {
	t.Helper()
	all, full := 0, 0
	for session, tl := range ts.bySess {
		sum := 0
		for _, k := range tl.kept {
			sum += k.bytes
		}
		if sum != tl.bytes || sum > ts.limits.bytes || len(tl.kept) > ts.limits.events {
			t.Fatalf("%s keeps %d events of %d bytes and says %d", session, len(tl.kept), sum, tl.bytes)
		}
		if (tl.elem != nil) != (len(tl.kept) > 0) || tl.elem == nil && tl.grown == nil {
			t.Fatalf("%s is kept for nothing", session)
		}
		all += sum
		if tl.elem != nil {
			full++
		}
	}
	if all != ts.bytes || all > ts.limits.allBytes || full != ts.recent.Len() {
		t.Fatalf("%d tails of %d bytes, says %d and %d", full, all, ts.recent.Len(), ts.bytes)
	}
}

// TestGrownOfMany follows so many sessions that only a few of them can have
// events in memory. Each follower wakes only when its own session grows.
func TestGrownOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, ownDir(t), tailLimits{events: 3, bytes: 1000, allBytes: 1000})
		const n = 100
		got := make(chan string, 2*n)
		for i := range n {
			session := fmt.Sprint("s", i)
			if err := s.Append(t.Context(), session, 0, delta(session, 1)); err != nil {
				t.Fatal(err)
			}
			go func() {
				<-s.Grown(session, 1)
				got <- session
			}()
		}
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("%d were woken for nothing, %s among them", len(got), <-got)
		}
		for i := range n {
			session := fmt.Sprint("s", i)
			if err := s.Append(t.Context(), session, 1, delta(session, 2)); err != nil {
				t.Fatal(err)
			}
			if woken := <-got; woken != session {
				t.Fatalf("%s was woken for %s", woken, session)
			}
		}
		<-time.After(2 * foldAfter)
		synctest.Wait()
		if len(s.tails.bySess) > 3 {
			t.Errorf("%d sessions are kept in mind after all were read", len(s.tails.bySess))
		}
	})
}

// TestReadAtLogEndNeedsNoQuery checks that a follower at the end of a log reads
// from memory. The test occupies all connections of readers.
func TestReadAtLogEndNeedsNoQuery(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: ownDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Append(t.Context(), "s", 0, delta("s", 1)); err != nil {
		t.Fatal(err)
	}
	for range readers {
		conn, err := s.reader.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	seq := int64(1)
	for ev, err := range runnel.Follow(t.Context(), s, "s", 0) {
		if err != nil || ev.Seq != seq {
			t.Fatalf("got %d, %v, want %d", ev.Seq, err, seq)
		}
		if seq++; seq > 1000 {
			break
		}
		if err := s.Append(t.Context(), "s", seq-1, delta("s", seq)); err != nil {
			t.Fatal(err)
		}
	}
}

// The end of a log may be looked up between the commit of an event and its
// arrival in the tail. The tail must then still return its events at their own
// positions.
func TestTailKeepsItsPositionsWhenTheLogIsLookedUpMeanwhile(t *testing.T) {
	tails := newTails(tailLimits{events: 10, bytes: 1 << 20, allBytes: 1 << 20})
	rows := func(from, to int64) (out []row) {
		for seq := from; seq <= to; seq++ {
			out = append(out, row{Event: event.Event{Session: "s", Seq: seq}})
		}
		return out
	}
	_, lookUp := tails.grown("s", 0)
	if lookUp == nil {
		t.Fatal("the end of a new log is known")
	}
	tails.add("s", rows(1, 3), false)
	tails.learn(lookUp, 4) // event 4 is committed, and not added yet
	for after := range int64(4) {
		for i, ev := range tails.page("s", after, 4) {
			if want := after + 1 + int64(i); ev.Seq != want {
				t.Errorf("after %d: event %d, want %d", after, ev.Seq, want)
			}
		}
	}
	tails.add("s", rows(4, 4), false)
	if page := tails.page("s", 3, 4); len(page) != 1 || page[0].Seq != 4 {
		t.Errorf("after 3: %v, want event 4", page)
	}
}
