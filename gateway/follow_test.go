package gateway

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// written is a shared conversation that can be read while a terminal writes it.
type written struct {
	*shared
	reading hook // called in each reading but the first
	listing hook // called in each listing of the writers
}

// A hook calls a function once.
type hook struct{ f atomic.Pointer[func()] }

func (h *hook) set(f func()) { h.f.Store(&f) }

func (h *hook) call() {
	if f := h.f.Swap(nil); f != nil {
		(*f)()
	}
}

// Writers returns an incomplete list once its context has ended, as those of the
// agents do.
func (w *written) Writers(ctx context.Context) ([]runnel.Writer, bool) {
	if w.listing.call(); ctx.Err() != nil {
		return nil, true
	}
	return w.shared.Writers(ctx)
}

func (w *written) Follow(context.Context, runnel.Conversation) (runnel.Following, error) {
	return &readsOnce{of: w}, nil
}

// A readsOnce returns the whole conversation, and nothing from then on.
type readsOnce struct {
	of   *written
	read bool
}

func (r *readsOnce) Next(context.Context) ([]event.Event, error) {
	if r.read {
		r.of.reading.call()
		return nil, nil
	}
	r.read = true
	return slices.Clone(r.of.history), nil
}

func (*readsOnce) Finish() []event.Event { return nil }
func (*readsOnce) Close()                {}

// newWritten returns a gateway with a session of a conversation in which a turn
// runs in a terminal.
func newWritten(t *testing.T) (g *Gateway, w *written, d *disk, id string) {
	t.Helper()
	d = newDisk(t)
	w = &written{shared: &shared{keeper: newKeeper(d)}}
	w.history = turnWith(derived("a"), "hi", "hello", "…")
	w.set(inTerminal(1))
	g = w.serve(t, d)
	st, err := g.Load(t.Context(), "script:abc", "")
	if err != nil {
		t.Fatal(err)
	}
	checkRunsInTerminal(t, g, st.SessionID)
	return g, w, d, st.SessionID
}

func (w *written) serve(t *testing.T, d *disk) *Gateway {
	t.Helper()
	return d.open(t, func(c *Config) { c.Providers = []runnel.Provider{w} })
}

// checkRunsInTerminal fails the test unless a turn of a session runs in a
// terminal.
func checkRunsInTerminal(t *testing.T, g *Gateway, id string) {
	t.Helper()
	st, err := g.Status(t.Context(), id)
	if err != nil || st.Writer == nil || st.TurnID != derived("a") {
		t.Errorf("writer %+v, turn %q, %v; want the terminal and its turn", st.Writer, st.TurnID, err)
	}
}

// Each ending of a server falls into a reading for some conversation.
func TestTurnInTerminalOutlastsAServerThatEndsWhileItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, w, d, id := newWritten(t)
		reading, ended := make(chan struct{}), make(chan struct{})
		w.reading.set(func() {
			close(reading)
			<-ended
			w.set() // as the list of writers of an agent without a terminal
		})
		<-reading
		closing := make(chan error, 1)
		go func() { closing <- g.Close(context.WithoutCancel(t.Context())) }()
		synctest.Wait() // the session has ended
		close(ended)
		if err := <-closing; err != nil {
			t.Fatal(err)
		}
		w.set(inTerminal(1))
		g = w.serve(t, d)
		defer closeIt(t, g)
		checkRunsInTerminal(t, g, id)
	})
}

// A server can be stopped while it starts.
func TestTurnInTerminalOutlastsAServerThatIsStoppedAtItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, w, d, id := newWritten(t)
		closeIt(t, g)
		ctx, stop := context.WithCancel(t.Context())
		w.listing.set(stop)
		g, err := Open(ctx, Config{Log: &d.log, Catalogue: d.cat, Providers: []runnel.Provider{w}})
		if ctx.Err() == nil {
			t.Fatal("the server has not looked for the terminal")
		}
		if err == nil {
			closeIt(t, g)
		}
		g = w.serve(t, d)
		defer closeIt(t, g)
		checkRunsInTerminal(t, g, id)
	})
}

func TestClientThatLeavesEndsNoTurnInTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, w, _, id := newWritten(t)
		defer closeIt(t, g)
		requests := map[string]func(context.Context) error{
			"load":     func(ctx context.Context) error { _, err := g.Load(ctx, id, ""); return err },
			"takeover": func(ctx context.Context) error { _, err := TakeoversOf(g).Take(ctx, id, ""); return err },
			"prompt":   func(ctx context.Context) error { _, err := g.Send(ctx, id, Prompt{Text: "text"}); return err },
		}
		for name, request := range requests {
			ctx, leave := context.WithCancel(t.Context())
			w.listing.set(leave)
			if err := request(ctx); err == nil {
				t.Errorf("%s succeeded although its client had left", name)
			}
			synctest.Wait()
			checkRunsInTerminal(t, g, id)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		checkRunsInTerminal(t, g, id)
	})
}
