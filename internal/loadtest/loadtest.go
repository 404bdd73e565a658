// Package loadtest loads stored conversations into a gateway, for the tests that
// compare loaded sessions with live ones. It is not a part of recordtest,
// because all tests of the providers would then run again after each change of
// the gateway.
package loadtest

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/memory"
)

// History returns the events of a stored conversation, as a [runnel.Historian]
// does.
type History func(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error]

// Loaded loads a stored conversation of an agent into a gateway, and returns
// the events that the gateway logged.
func Loaded(t *testing.T, provider string, ref runnel.Conversation, history History) (evs []event.Event) {
	t.Helper()
	if ref.AgentSessionID == "" {
		ref.AgentSessionID = "conversation"
	}
	ref.Dir = t.TempDir() // the recording's directory no longer exists
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
	listed, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	if found := recordtest.TooLong(t, listed); len(found) > 0 {
		t.Errorf("too long in the catalogue: %q", found)
	}
	for ev, err := range log.Read(t.Context(), st.SessionID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	return evs
}

// Events is like [Loaded] for a stored conversation whose events are kept.
func Events(t *testing.T, provider string, kept []event.Event) []event.Event {
	t.Helper()
	return Loaded(t, provider, runnel.Conversation{}, func(context.Context, runnel.Conversation) iter.Seq2[event.Event, error] { return recordtest.Seq(kept) })
}

// NothingAdded loads a session whose log contains the events live, while the
// agent's stored conversation has the events kept. It fails the test if loading
// adds events, because the session has already logged all of them. positional
// is true if the provider is a [runnel.PositionalHistorian].
func NothingAdded(t *testing.T, provider string, live, kept []event.Event, positional bool) {
	t.Helper()
	k := keeper{provider, runnel.Conversation{Dir: t.TempDir(), AgentSessionID: "conversation"},
		func(context.Context, runnel.Conversation) iter.Seq2[event.Event, error] { return recordtest.Seq(kept) }}
	var p runnel.Provider = k
	if positional {
		p = positionalKeeper{k}
	}
	log := new(runnel.Memory)
	cat := memory.New(log)
	const id = "00000000-0000-4000-8000-00000000face"
	rec := store.Session{ID: id, CLIType: provider, ProjectDir: k.ref.Dir, AgentSessionID: k.ref.AgentSessionID, State: event.StateOpen, Options: []byte("{}")}
	if err := cat.PutSession(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	logged := slices.Clone(live)
	for i := range logged {
		logged[i].Session, logged[i].Seq = id, int64(i)+1
	}
	if err := log.Append(t.Context(), id, 0, logged...); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.Open(t.Context(), gateway.Config{Log: log, Catalogue: cat, Providers: []runnel.Provider{p}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if _, err := g.Load(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	for ev, err := range log.Read(t.Context(), id, int64(len(logged))) {
		t.Errorf("loading a session again added: %+v, %v", ev, err)
	}
}

// positionalKeeper is a keeper that derives turn ids from positions.
type positionalKeeper struct{ keeper }

func (positionalKeeper) PositionalTurns() {}

// keeper is a provider with one stored conversation. It cannot start an agent.
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
