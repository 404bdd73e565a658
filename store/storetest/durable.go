package storetest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A Durable store keeps a log and a catalogue across restarts of the process.
type Durable interface {
	runnel.Log
	store.Catalogue
	Close() error
}

// RunDurable tests that a reopened store has the same content. open opens the
// store in dir, which is empty at first.
func RunDurable(t *testing.T, open func(t *testing.T, dir string) Durable) {
	tests := []struct {
		name string
		run  func(t *testing.T, dir string, open func(t *testing.T, dir string) Durable)
	}{
		{"Reopen", testReopen},
		{"ReopenState", testReopenState},
		{"Closed", testClosed},
		{"CloseUnderLoad", testCloseUnderLoad},
		{"DeletedSession", testDeletedSession},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, filepath.Join(t.TempDir(), "data"), open) })
	}
}

func closeNow(t *testing.T, d Durable) {
	t.Helper()
	for range 2 { // closing twice is not an error
		if err := d.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
}

func testReopen(t *testing.T, dir string, open func(*testing.T, string) Durable) {
	d := open(t, dir)
	want := numbered("s", "t1", 0, samples()...)
	appendAll(t, d, "s", 0, want...)
	session, token := full("s"), store.Token{ID: "1", Kind: store.TokenAPI, Hash: [32]byte{1}, CreatedAt: at}
	put(t, d, session)
	enqueue(t, d, "s", "t2")
	if err := d.PutToken(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		closeNow(t, d)
		d = open(t, dir)
		equal(t, "events", collect(t, d, "s", 0), want)
		if !isClosed(d.Grown("s", int64(len(want)-1))) || isClosed(d.Grown("s", int64(len(want)))) {
			t.Error("Grown after reopening disagrees with the end of the log")
		}
		equal(t, "session", must[store.Session](t)(d.Session(t.Context(), "s")), session)
		equal(t, "token", must[store.Token](t)(d.TokenByHash(t.Context(), token.Hash)), token)
		equal(t, "queue", queued(t, d, ""), "s/t2")
		head := int64(len(want))
		if err := d.Append(t.Context(), "s", head-1, deltas("s", head-1, 1)...); err == nil {
			t.Error("an append at an old position was accepted")
		}
		more := deltas("s", head, 3)
		appendAll(t, d, "s", head, more...)
		want = append(want, more...)
		equal(t, "events", collect(t, d, "s", 0), want)
	}
	closeNow(t, d)
}

func testReopenState(t *testing.T, dir string, open func(*testing.T, string) Durable) {
	d := open(t, dir)
	for i, ev := range scripted("s") {
		appendAll(t, d, "s", int64(i), ev)
		closeNow(t, d)
		d = open(t, dir)
		st := state(t, d, "s")
		if st.Head != int64(i)+1 || openTurns(st) != stateScript[i].open {
			t.Errorf("state after %d is %d %s, want %s", i+1, st.Head, openTurns(st), stateScript[i].open)
		}
		unfinished := must[[]string](t)(d.Unfinished(t.Context()))
		if (len(unfinished) == 1) != (stateScript[i].open != "[]") {
			t.Errorf("unfinished after %d: %v", i+1, unfinished)
		}
	}
	closeNow(t, d)
}

func testClosed(t *testing.T, dir string, open func(*testing.T, string) Durable) {
	d := open(t, dir)
	appendAll(t, d, "s", 0, deltas("s", 0, 1)...)
	waiting := d.Grown("s", 1)
	followed := make(chan error)
	go func() {
		for _, err := range runnel.Follow(t.Context(), d, "s", 1) {
			followed <- err
		}
	}()
	closeNow(t, d)
	<-waiting // Close wakes waiting readers
	errs := map[string]error{"Follow": <-followed, "Append": d.Append(t.Context(), "s", 1, deltas("s", 1, 1)...)}
	_, errs["State"] = d.State(t.Context(), "s")
	_, errs["Session"] = d.Session(t.Context(), "s")
	errs["PutSession"] = d.PutSession(t.Context(), full("s"))
	for _, err := range d.Read(t.Context(), "s", 0) {
		errs["Read"] = err
	}
	if !isClosed(d.Grown("s", 1)) {
		t.Error("Grown of a closed store is open")
	}
	for name, err := range errs {
		if runnel.CodeOf(err) != runnel.StoreUnavailable {
			t.Errorf("%s of a closed store: %v, want %s", name, err, runnel.StoreUnavailable)
		}
	}
}

// testCloseUnderLoad closes a store during writes. All acknowledged events are
// there after reopening, and Close does not hang.
func testCloseUnderLoad(t *testing.T, dir string, open func(*testing.T, string) Durable) {
	first := open(t, dir)
	const writers = 8
	heads := make(chan [2]int64, writers)
	busy := make(chan struct{}, writers)
	for w := range int64(writers) {
		go func() {
			session, head := fmt.Sprint("s", w), int64(0)
			for {
				if err := first.Append(t.Context(), session, head, deltas(session, head, 2)...); err != nil {
					if runnel.CodeOf(err) != runnel.StoreUnavailable {
						t.Errorf("Append: %v", err)
					}
					heads <- [2]int64{w, head}
					return
				}
				if head += 2; head == 20 {
					busy <- struct{}{}
				}
			}
		}()
	}
	for range writers {
		<-busy
	}
	closeNow(t, first)
	d := open(t, dir)
	for range writers {
		got := <-heads
		session := fmt.Sprint("s", got[0])
		equal(t, session, collect(t, d, session, 0), deltas(session, 0, int(got[1])))
	}
	closeNow(t, d)
}

// testDeletedSession checks that no data of a deleted session reappears, and
// that its id may be used again.
func testDeletedSession(t *testing.T, dir string, open func(*testing.T, string) Durable) {
	d := open(t, dir)
	for _, s := range []string{"a", "b"} {
		put(t, d, full(s))
		appendAll(t, d, s, 0, deltas(s, 0, 600)...)
	}
	waiting := d.Grown("a", 600)
	if err := d.DeleteSession(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		equal(t, "events", collect(t, d, "a", 0), []event.Event{})
		equal(t, "state", state(t, d, "a"), runnel.LogState{})
		equal(t, "unfinished", must[[]string](t)(d.Unfinished(t.Context())), []string{"b"})
		if isClosed(d.Grown("a", 0)) {
			t.Error("a deleted log has grown")
		}
		closeNow(t, d)
		d = open(t, dir)
	}
	appendAll(t, d, "a", 0, deltas("a", 0, 1)...)
	equal(t, "new events", collect(t, d, "a", 0), deltas("a", 0, 1))
	equal(t, "the other session", len(collect(t, d, "b", 0)), 600)
	closeNow(t, d)
	if !isClosed(waiting) {
		t.Error("a reader waiting for a deleted log was not woken")
	}
}
