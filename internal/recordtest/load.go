package recordtest

import (
	"context"
	"iter"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/store/memory"
)

// History reads a conversation, as a [runnel.Historian] does.
type History func(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error]

// Loaded loads a conversation that an agent keeps into a gateway, and returns
// the events that the gateway's log has of it then.
func Loaded(t *testing.T, provider string, ref runnel.Conversation, history History) (evs []event.Event) {
	t.Helper()
	if ref.AgentSessionID == "" {
		ref.AgentSessionID = "conversation"
	}
	ref.Dir = t.TempDir() // that of the recording is gone
	log := new(runnel.Memory)
	g, err := gateway.Open(t.Context(), gateway.Config{
		Log: log, Catalogue: memory.New(log), Providers: []runnel.Provider{keeper{provider, ref, history}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	st, err := g.Load(t.Context(), provider+":"+ref.AgentSessionID, "")
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range log.Read(t.Context(), st.SessionID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	return evs
}

// LoadedEvents is [Loaded] with a history that is known already.
func LoadedEvents(t *testing.T, provider string, kept []event.Event) []event.Event {
	t.Helper()
	return Loaded(t, provider, runnel.Conversation{}, func(context.Context, runnel.Conversation) iter.Seq2[event.Event, error] { return seq(kept) })
}

// keeper is a provider that keeps one conversation and cannot be run.
type keeper struct {
	name    string
	ref     runnel.Conversation
	history History
}

func (k keeper) Name() string { return k.name }

func (k keeper) Open(context.Context, runnel.Options) (runnel.Conn, error) {
	return nil, runnel.Fail(runnel.AgentNotInstalled, "a recording has no agent")
}

func (k keeper) Find(context.Context, string) (runnel.Conversation, error) { return k.ref, nil }

func (k keeper) History(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error] {
	return k.history(ctx, ref)
}
