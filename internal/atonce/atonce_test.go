package atonce

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestCallersWithOneKeyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Limit{Most: 2}
		running, on := make(chan string, 20), make(chan struct{})
		for _, key := range []string{"a", "a", "a", "a", "b"} {
			go func() {
				leave, err := l.Enter(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				defer leave()
				running <- key
				<-on
			}()
		}
		synctest.Wait()
		if n := len(running); n != 3 {
			t.Errorf("%d run at once, want 2 of a and 1 of b", n)
		}
		why := errors.New("enough")
		ctx, end := context.WithCancelCause(t.Context())
		end(why)
		if _, err := l.Enter(ctx, "a"); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		close(on)
		synctest.Wait()
		if n := len(running); n != 5 || len(l.lines) != 0 {
			t.Errorf("%d have run, and %d lines are left", n, len(l.lines))
		}
	})
}
