package gateway

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
)

// announced is a catalogue that tells about the first session whose creation
// begins, and continues once created has returned or waits.
type announced struct {
	store.Catalogue
	created func(id string)
	begun   *atomic.Bool
}

func (c announced) PutSession(ctx context.Context, s store.Session) error {
	err := c.Catalogue.PutSession(ctx, s)
	if s.State == event.StateLoading && c.begun.CompareAndSwap(false, true) {
		go c.created(s.ID)
		synctest.Wait()
	}
	return err
}

// countedConn is the connection to an agent that counts itself until it is
// closed.
type countedConn struct {
	runnel.Conn
	running *atomic.Int32
}

func (c countedConn) Close() error {
	c.running.Add(-1)
	return c.Conn.Close()
}

// A session is in lists as soon as its record is stored, so a client can use it
// before it is open.
func TestSessionThatIsUsedDuringItsCreationHasOneAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		agent := &fake{name: "counted", open: func(o runnel.Options) (runnel.Conn, error) {
			running.Add(1)
			conn, err := script.New().Open(t.Context(), o)
			return countedConn{conn, &running}, err
		}}
		var g *Gateway
		d := newDisk(t)
		g = d.open(t, func(c *Config) {
			c.Providers = []runnel.Provider{agent}
			c.Catalogue = announced{c.Catalogue, func(id string) {
				if _, err := g.Send(context.Background(), id, Prompt{Text: "text"}); err != nil {
					t.Errorf("a prompt during the creation: %v", err)
				}
			}, new(atomic.Bool)}
		})
		defer closeIt(t, g)
		st, err := g.Create(t.Context(), "counted", d.dir, runnel.Options{}, "")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := running.Load(); n != 1 {
			t.Errorf("%d agents run for one session", n)
		}
		if err := g.Delete(t.Context(), st.SessionID); err != nil {
			t.Fatal(err)
		}
		if n := running.Load(); n != 0 {
			t.Errorf("%d agents run after the session was deleted", n)
		}
	})
}

// loading returns a gateway that calls created once the session of the
// conversation script:abc is in the catalogue, before its events are.
func loading(t *testing.T, created func(g *Gateway, id string)) *Gateway {
	t.Helper()
	d := newDisk(t)
	p := newKeeper(d)
	p.history = turnWith(derived("a"), "hi", "hello")
	var g *Gateway
	g = d.open(t, func(c *Config) {
		c.Providers = []runnel.Provider{p}
		c.Catalogue = announced{c.Catalogue, func(id string) { created(g, id) }, new(atomic.Bool)}
	})
	return g
}

func TestPromptDuringLoadWaitsForTheConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := loading(t, func(g *Gateway, id string) {
			if _, err := g.Send(context.Background(), id, Prompt{Text: "text"}); err != nil {
				t.Errorf("a prompt while the conversation is copied: %v", err)
			}
		})
		defer closeIt(t, g)
		st, err := g.Load(t.Context(), "script:abc", "")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if state, err := g.Log().State(t.Context(), st.SessionID); err != nil || len(state.Open) > 0 {
			t.Errorf("%+v, %v", state, err)
		}
	})
}

func TestSessionThatIsDeletedDuringLoadStaysDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deleted := ""
		g := loading(t, func(g *Gateway, id string) {
			if err := g.Delete(context.Background(), id); err != nil {
				t.Errorf("deletion while the conversation is copied: %v", err)
			}
			deleted = id
		})
		defer closeIt(t, g)
		_, _ = g.Load(t.Context(), "script:abc", "") // fails, unless it ends before the deletion
		synctest.Wait()
		if _, err := g.Status(t.Context(), deleted); runnel.CodeOf(err) != runnel.SessionNotFound {
			t.Errorf("session %q after its deletion: %v", deleted, err)
		}
	})
}
