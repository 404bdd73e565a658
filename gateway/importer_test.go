package gateway

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/script"
)

// slowDiscovery is a provider whose every Discover waits for the test.
type slowDiscovery struct {
	fake
	proceed chan struct{}
}

func (s *slowDiscovery) Discover(ctx context.Context, dir string) iter.Seq2[runnel.Conversation, error] {
	<-s.proceed
	return s.fake.Discover(ctx, dir)
}

func TestCopyOutlivesItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		p := &slowDiscovery{proceed: make(chan struct{})}
		p.name = "script"
		p.open = func(o runnel.Options) (runnel.Conn, error) { return script.New().Open(context.Background(), o) }
		for _, id := range []string{"one", "two"} {
			p.kept = append(p.kept, runnel.Conversation{AgentSessionID: id, Dir: d.dir, File: "/agent/" + id})
		}
		g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{p} })
		// load lets the given number of clients load ref concurrently. Each
		// client gives up after a millisecond.
		load := func(ref string, clients int) {
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					ctx, done := context.WithTimeout(t.Context(), time.Millisecond)
					defer done()
					if _, err := g.Load(ctx, ref, ""); err == nil {
						t.Error("loaded while the agent's conversations cannot be listed")
					}
				})
			}
			all.Wait()
			synctest.Wait()
		}

		synctest.Wait()
		before := runtime.NumGoroutine()
		const clients = 200
		load("script:one", clients)
		// One goroutine copies for all clients. The limit is higher, because
		// the runtime and earlier tests may have a few goroutines of their own.
		if n := runtime.NumGoroutine() - before; n > clients/10 {
			t.Errorf("%d goroutines are left of %d callers that have gone", n, clients)
		}
		p.proceed <- struct{}{}
		synctest.Wait()
		if _, err := g.Status(t.Context(), "script:one"); err != nil {
			t.Errorf("the conversation was not copied: %v", err)
		}

		load("script:two", 1)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			if err := g.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed during a copy")
		default:
		}
		p.proceed <- struct{}{}
		<-closed
	})
}
