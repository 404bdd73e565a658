package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/storetest"
)

// small limits the events in memory so much that readers often switch between
// memory and the database.
var small = tailLimits{events: 5, bytes: 4000, allBytes: 8000}

func openTest(t *testing.T, dir string, limits tailLimits) *Store {
	t.Helper()
	s, err := open(t.Context(), Config{Dir: dir}, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func openNew(t *testing.T) runnel.Log {
	s, err := Open(t.Context(), Config{Dir: filepath.Join(ownDir(t), "data")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// ownDir returns a new directory that only its owner can use, as a data
// directory has to be.
func ownDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "own")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openSmall(t *testing.T) runnel.Log { return openTest(t, ownDir(t), small) }

func TestLog(t *testing.T)                                  { storetest.RunLog(t, openNew) }
func TestLog_SmallTails(t *testing.T)                       { storetest.RunLog(t, openSmall) }
func TestSubscribeWhileAppendingMissesNothing(t *testing.T) { storetest.RunSubscribeRace(t, openNew) }
func TestDeliverPassesEventsToWaitingReaders(t *testing.T)  { storetest.RunDeliver(t, openNew) }
func TestSubscribeWhileAppendingMissesNothingBeyondTheTail(t *testing.T) {
	storetest.RunSubscribeRace(t, openSmall)
}

func TestCompaction(t *testing.T) {
	for name, limits := range map[string]tailLimits{"small": small, "usual": {events: 1024, bytes: 1 << 20, allBytes: 8 << 20}} {
		t.Run(name, func(t *testing.T) {
			storetest.RunCompaction(t, func(t *testing.T) (runnel.Log, func()) {
				s := openTest(t, ownDir(t), limits)
				s.keeper.stop()
				s.keeper.pauseFactor = 0
				return s, func() {
					if err := s.compactAll(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

func TestCatalogue(t *testing.T) {
	storetest.RunCatalogue(t, func(t *testing.T) (runnel.Log, store.Catalogue) {
		s := openTest(t, ownDir(t), small)
		return s, s
	})
}

func TestDurable(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T, dir string) storetest.Durable { return openTest(t, dir, small) })
}

// TestContextEnded checks that calls with a cancelled context return exactly
// the error of the context.
func TestContextEnded(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	if err := s.Append(t.Context(), "s", 0, delta("s", 1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.State(ctx, "s")
	_, err2 := s.Session(ctx, "s")
	_, err3 := s.Sessions(ctx, store.SessionFilter{})
	for i, err := range []error{err, err2, err3, s.Append(ctx, "s", 1, delta("s", 2)), s.Dequeue(ctx, "s", "t")} {
		if err != context.Canceled {
			t.Errorf("call %d: %v, want %v", i, err, context.Canceled)
		}
	}
	release := holdCommitter(t, s)
	defer release()
	ctx, cancel = context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { failed <- s.Append(ctx, "s", 1, delta("s", 2)) }()
	cancel() // Append may or may not be waiting by now
	if err := <-failed; err != context.Canceled {
		t.Errorf("waiting Append: %v, want %v", err, context.Canceled)
	}
}

// TestContextEndedTooLate cancels a context when its append is already part of
// a transaction. The append completes and returns nil.
func TestContextEndedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, ownDir(t), small)
		releaseFirst := holdCommitter(t, s)
		releaseSecond := make(chan struct{})
		go s.submit(t.Context(), &job{do: func(*writer) error { <-releaseSecond; return nil }})
		synctest.Wait() // the second job waits for the first
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() { answered <- s.Append(ctx, "s", 0, delta("s", 1)) }()
		synctest.Wait() // and the append waits after the second job
		releaseFirst()
		synctest.Wait() // the second job leads, and its transaction includes the append
		cancel()
		synctest.Wait()
		if len(answered) > 0 {
			t.Fatalf("Append returned %v before its transaction was over", <-answered)
		}
		close(releaseSecond)
		if err := <-answered; err != nil {
			t.Errorf("Append: %v", err)
		}
		if n := count(t, s, "s"); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
}

// TestTurnEndsOnce appends events to a turn that has ended. The turn keeps its
// first end and does not open again.
func TestTurnEndsOnce(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	over := event.ResponseDone{Status: event.StatusCompleted}
	for i, b := range []event.Body{delta("s", 1).Body, over, over, delta("s", 4).Body, over} {
		ev := delta("s", int64(i)+1)
		ev.Body = b
		if err := s.Append(t.Context(), "s", int64(i), ev); err != nil {
			t.Fatal(err)
		}
		if st, err := s.State(t.Context(), "s"); err != nil || (len(st.Open) == 1) != (i == 0) {
			t.Errorf("after event %d: %+v, %v", i+1, st, err)
		}
	}
	var after, end int64
	if err := s.reader.db.QueryRow("SELECT after_seq, end_seq FROM turns").Scan(&after, &end); err != nil || after != 0 || end != 2 {
		t.Errorf("the turn is kept as after %d to %d, %v, want after 0 to 2", after, end, err)
	}
}

func TestSecondServerIsRefused(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	wants(t, refused(t, dir), "another runnel server", fmt.Sprintf("(process %d)", os.Getpid()), dir)
	if err := s.Append(t.Context(), "s", 0, delta("s", 1)); err != nil {
		t.Errorf("the first server after the second was refused: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openTest(t, dir, small)
}

// refused checks that Open fails, and returns the message of the error.
func refused(t *testing.T, dir string) string {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir})
	if err == nil {
		s.Close()
		t.Fatalf("Open(%q) succeeded", dir)
	}
	if runnel.CodeOf(err) != runnel.StoreUnavailable {
		t.Errorf("Open(%q): %v, want %s", dir, err, runnel.StoreUnavailable)
	}
	message := runnel.Safe(err).Message
	if strings.Contains(message, "\n") || !strings.Contains(message, ";") {
		t.Errorf("Open(%q): %q is not one sentence with what to do", dir, message)
	}
	return message
}

func wants(t *testing.T, message string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(message, p) {
			t.Errorf("message %q does not say %q", message, p)
		}
	}
}

func count(t *testing.T, s *Store, session string) int {
	t.Helper()
	n := 0
	for _, err := range s.Read(t.Context(), session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
