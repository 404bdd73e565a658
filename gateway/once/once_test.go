package once_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/once"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flakyStore is a store whose writes fail while fails is set.
type flakyStore struct {
	*memory.Catalogue
	fails atomic.Bool
}

func (s *flakyStore) PutRequests(ctx context.Context, rs ...store.Request) error {
	if s.fails.Load() {
		return errors.New("the disk is gone")
	}
	return s.Catalogue.PutRequests(ctx, rs...)
}

func requests() (*once.Requests, *flakyStore) {
	s := &flakyStore{Catalogue: memory.New(nil)}
	return once.New(s, slog.New(slog.DiscardHandler)), s
}

// work binds a turn and counts how often it runs.
type work struct {
	runs atomic.Int32
	err  error         // returned by run after it has bound its turn
	hold chan struct{} // if not nil, run waits until it is closed
	saw  string        // what an earlier run bound
}

func (w *work) run(ctx context.Context, b *once.Binding) (any, error) {
	n := w.runs.Add(1)
	w.saw = b.Session + "/" + b.Turn
	if err := b.Bind(ctx, "s", fmt.Sprint("t", n)); err != nil {
		return nil, err
	}
	if w.hold != nil {
		<-w.hold
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return map[string]int32{"n": n}, w.err
}

func do(t *testing.T, r *once.Requests, req once.Request, w *work) (once.Answer, error) {
	t.Helper()
	return r.Do(t.Context(), req, w.run)
}

// wants checks an answer.
func wants(t *testing.T, a once.Answer, err error, body string, replayed bool) {
	t.Helper()
	if err != nil || string(a.Body) != body || a.Replayed != replayed || a.Session != "s" || a.Turn == "" {
		t.Errorf("got %s %+v, %v; want %s, replayed %v", a.Body, a, err, body, replayed)
	}
}

var (
	keyed = once.Request{Credential: "ci", Key: "k", Digest: [32]byte{1}}
	named = once.Request{Credential: "ci", Turn: "mine", Digest: [32]byte{1}}
	both  = once.Request{Credential: "ci", Key: "k", Turn: "mine", Digest: [32]byte{1}}
)

func TestRepeatedRequestGetsTheFirstAnswer(t *testing.T) {
	for name, req := range map[string]once.Request{"key": keyed, "turn": named, "both": both} {
		t.Run(name, func(t *testing.T) {
			r, _ := requests()
			w := new(work)
			a, err := do(t, r, req, w)
			wants(t, a, err, `{"n":1}`, false)
			a, err = do(t, r, req, w)
			wants(t, a, err, `{"n":1}`, true)
			other := req
			other.Digest = [32]byte{2}
			if _, err := do(t, r, other, w); !errors.Is(err, once.ErrConflict) || runnel.CodeOf(err) != runnel.InvalidRequest {
				t.Errorf("another body: %v", err)
			}
			if n := w.runs.Load(); n != 1 {
				t.Errorf("ran %d times", n)
			}
		})
	}
	t.Run("neither", func(t *testing.T) {
		r, _ := requests()
		w := new(work)
		for n := 1; n <= 2; n++ {
			a, err := do(t, r, once.Request{Credential: "ci"}, w)
			wants(t, a, err, fmt.Sprintf(`{"n":%d}`, n), false)
		}
	})
}

func TestKeysOfCredentialsAreApart(t *testing.T) {
	r, _ := requests()
	w := new(work)
	for n, credential := range []string{"ci", "local"} {
		req := keyed
		req.Credential, req.Digest = credential, [32]byte{byte(n)}
		a, err := do(t, r, req, w)
		wants(t, a, err, fmt.Sprintf(`{"n":%d}`, n+1), false)
	}
}

func TestParallelRequestsRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := requests()
		w := &work{hold: make(chan struct{})}
		var first, replayed atomic.Int32
		for range 50 {
			go func() {
				a, err := do(t, r, both, w)
				wants(t, a, err, `{"n":1}`, a.Replayed)
				if a.Replayed {
					replayed.Add(1)
				} else {
					first.Add(1)
				}
			}()
		}
		synctest.Wait()
		other := named // the same turn, without the key
		other.Digest = [32]byte{2}
		if _, err := do(t, r, other, w); !errors.Is(err, once.ErrConflict) {
			t.Errorf("another body meanwhile: %v", err)
		}
		close(w.hold)
		synctest.Wait()
		if first.Load() != 1 || replayed.Load() != 49 || w.runs.Load() != 1 {
			t.Errorf("%d first, %d replayed, %d runs", first.Load(), replayed.Load(), w.runs.Load())
		}
	})
}

func TestFailedRequestIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := requests()
		w := &work{err: runnel.Fail(runnel.AttachmentFailure, "no"), hold: make(chan struct{})}
		failed := make(chan error, 2)
		for range 2 {
			go func() { _, err := do(t, r, both, w); failed <- err }()
		}
		synctest.Wait()
		close(w.hold)
		for range 2 { // both waiting requests get the same error
			if err := <-failed; runnel.CodeOf(err) != runnel.AttachmentFailure {
				t.Errorf("got %v", err)
			}
		}
		if w.runs.Load() != 1 {
			t.Errorf("ran %d times", w.runs.Load())
		}
		if _, err := s.Request(t.Context(), "ci", "k"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the key is kept: %v", err)
		}
		w.err = nil
		corrected := both
		corrected.Digest = [32]byte{2}
		a, err := do(t, r, corrected, w)
		wants(t, a, err, `{"n":2}`, false)
	})
}

// If the store fails after the turn was bound, the turn may be in the log. The
// binding is kept, so that a repeated request can find the turn.
func TestRequestOfUnknownOutcomeIsKept(t *testing.T) {
	for _, code := range []runnel.Code{runnel.StoreUnavailable, runnel.Internal} {
		r, _ := requests()
		w := &work{err: runnel.Fail(code, "no")}
		if _, err := do(t, r, both, w); runnel.CodeOf(err) != code {
			t.Errorf("got %v", err)
		}
		other := both
		other.Digest = [32]byte{2}
		if _, err := do(t, r, other, w); !errors.Is(err, once.ErrConflict) {
			t.Errorf("another body: %v", err)
		}
		w.err = nil
		a, err := do(t, r, both, w)
		if wants(t, a, err, `{"n":2}`, false); w.saw != "s/t1" {
			t.Errorf("the next run sees %q", w.saw)
		}
	}
}

func TestNothingIsDoneUnlessItCanBeRecorded(t *testing.T) {
	r, s := requests()
	s.fails.Store(true)
	w := new(work)
	if _, err := do(t, r, keyed, w); runnel.CodeOf(err) != runnel.StoreUnavailable {
		t.Errorf("got %v", err)
	}
	s.fails.Store(false)
	a, err := do(t, r, keyed, w)
	wants(t, a, err, `{"n":2}`, false)
}

// The server stops after a turn was bound and before the request was answered.
func TestRestartedServerKnowsWhatWasBound(t *testing.T) {
	_, s := requests()
	for _, row := range []store.Request{{Credential: "ci", Key: "k"}, {Key: "mine"}} {
		row.Digest, row.Session, row.Turn, row.At = both.Digest, "s", "t7", time.Now()
		if err := s.Catalogue.PutRequests(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	r := once.New(s, slog.New(slog.DiscardHandler))
	w := new(work)
	a, err := do(t, r, both, w)
	if wants(t, a, err, `{"n":1}`, false); w.saw != "s/t7" {
		t.Errorf("the run sees %q", w.saw)
	}
	// A run that fails before it binds anything leaves the earlier binding.
	failed := func(context.Context, *once.Binding) (any, error) { return nil, runnel.Fail(runnel.SessionDead, "no") }
	row := store.Request{Credential: "ci", Key: "other", Digest: both.Digest, Session: "s", Turn: "t8", At: time.Now()}
	if err := s.PutRequests(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Do(t.Context(), once.Request{Credential: "ci", Key: "other", Digest: both.Digest}, failed); runnel.CodeOf(err) != runnel.SessionDead {
		t.Errorf("got %v", err)
	}
	if got, err := s.Request(t.Context(), "ci", "other"); err != nil || got.Turn != "t8" {
		t.Errorf("left %+v, %v", got, err)
	}
}

func TestClientThatLeavesInterruptsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := requests()
		w := &work{hold: make(chan struct{})}
		ctx, leave := context.WithCancel(t.Context())
		go func() { _, _ = r.Do(ctx, keyed, w.run) }()
		synctest.Wait()
		leave()
		waits, stop := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { _, err := r.Do(waits, keyed, w.run); gone <- err }()
		synctest.Wait()
		stop()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves while it waits gets %v", err)
		}
		close(w.hold)
		a, err := do(t, r, keyed, w)
		wants(t, a, err, `{"n":1}`, true)
	})
}

// A request that waits for a lock and has bound nothing is abandoned when its
// client disconnects.
func TestClientThatLeavesEarlyIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := requests()
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := r.Do(ctx, both, func(ctx context.Context, b *once.Binding) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			left <- err
		}()
		synctest.Wait()
		again := make(chan once.Answer)
		w := new(work)
		go func() {
			a, err := do(t, r, both, w)
			wants(t, a, err, `{"n":1}`, false)
			again <- a
		}()
		synctest.Wait()
		leave()
		if err := <-left; err == nil {
			t.Error("the request of a client that has gone goes on")
		}
		<-again

		// This client has disconnected just before its request binds something.
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := r.Do(gone, once.Request{Credential: "ci", Key: "late"}, w.run); err == nil {
			t.Error("the request of a client that has gone binds something")
		}
		if _, err := s.Request(t.Context(), "ci", "late"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the key is kept: %v", err)
		}
	})
}

func TestRepeatedRequestWaitsForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := requests()
		w := &work{hold: make(chan struct{})}
		go func() { _, _ = do(t, r, keyed, w) }()
		synctest.Wait()
		began := time.Now()
		if _, err := do(t, r, keyed, w); runnel.CodeOf(err) != runnel.Timeout || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		close(w.hold)
	})
}

func TestKeysExpireAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := requests()
		w := new(work)
		for _, req := range []once.Request{keyed, named} {
			if _, err := do(t, r, req, w); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(once.Kept)
		a, err := do(t, r, keyed, w)
		wants(t, a, err, `{"n":1}`, true)
		time.Sleep(time.Nanosecond)
		if err := r.Prune(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Request(t.Context(), "ci", "k"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("it is kept: %v", err)
		}
		a, err = do(t, r, named, w) // a request with a turn id is stored as long as its session
		wants(t, a, err, `{"n":2}`, true)
		a, err = do(t, r, keyed, w)
		wants(t, a, err, `{"n":3}`, false)
	})
}

func TestExpiredKeyCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := requests()
		w := new(work)
		if _, err := do(t, r, keyed, w); err != nil {
			t.Fatal(err)
		}
		time.Sleep(once.Kept + 1) // without a call of Prune
		other := keyed
		other.Digest = [32]byte{2}
		a, err := do(t, r, other, w)
		wants(t, a, err, `{"n":2}`, false)
	})
}

func TestPanicLeavesNobodyWaiting(t *testing.T) {
	r, _ := requests()
	func() {
		defer func() { _ = recover() }()
		_, _ = r.Do(t.Context(), keyed, func(context.Context, *once.Binding) (any, error) { panic("no") })
	}()
	a, err := do(t, r, keyed, new(work))
	wants(t, a, err, `{"n":1}`, false)
}
