package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// locating is a keeper whose conversations can be found without its agent.
type locating struct{ *keeper }

func (f locating) Find(_ context.Context, id string) (runnel.Conversation, error) {
	for _, c := range f.kept {
		if c.AgentSessionID == id {
			return c, nil
		}
	}
	return runnel.Conversation{}, NotFound(id)
}

// reporting is the connection of an agent that reports an id before its first
// turn.
type reporting struct {
	runnel.Conn
	id string
}

func (r *reporting) Next(ctx context.Context) (event.Event, error) {
	if id := r.id; id != "" {
		r.id = ""
		return event.Event{Body: event.SessionUpdated{AgentSessionID: id}}, nil
	}
	return r.Conn.Next(ctx)
}

// An agent can report the id of another project's conversation as its own. The
// server must not copy that conversation into the agent's session, which a token
// for its project can read, and must not hide it.
func TestReportedConversationOfAnotherProjectIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		k := newKeeper(d)
		k.kept[0].Dir = t.TempDir()
		k.history = turnWith(derived("1"), "a secret prompt", "a secret answer")
		k.open = func(o runnel.Options) (runnel.Conn, error) {
			c, err := script.New().Open(context.Background(), o)
			return &reporting{Conn: c, id: "abc"}, err
		}
		g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{locating{k}} })
		defer closeIt(t, g)
		st, err := g.Create(t.Context(), "script", d.dir, runnel.Options{}, "")
		if err != nil {
			t.Fatal(err)
		}
		id := st.SessionID
		synctest.Wait()
		if st, err := g.Status(t.Context(), id); err != nil || st.AgentSessionID != "abc" {
			t.Fatalf("%+v, %v", st, err)
		}
		load(t, g, id)
		synctest.Wait()
		if shown := d.shown(t, id); slices.ContainsFunc(shown, func(s string) bool { return strings.Contains(s, "secret") }) {
			t.Errorf("the log has %q", shown)
		}
		if what, err := HousekeepingOf(g).Delete(t.Context(), id); err != nil || what.Transcript != nil && what.Transcript.Path != "" {
			t.Errorf("%+v, %v", what.Transcript, err)
		}
		if g.hidden.isHidden("script:abc") {
			t.Error("the other conversation is hidden")
		}
	})
}
