package gateway

import (
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
)

func reached(err error) any {
	if err == nil {
		return nil
	}
	d, _ := runnel.Safe(err).Details.(map[string]any)
	return d["limit"]
}

// A running agent counts towards the limit of the credential that opened its
// session, even if another client's prompt starts the agent. It counts until
// its process has ended.
func TestAgentCountsUntilItHasGone(t *testing.T) {
	d := newDisk(t)
	g := d.open(t, func(c *Config) { c.Limits = Limits{Agents: 2, AgentsPerCredential: 1} })
	defer closeIt(t, g)
	create := func(credential string) (string, error) {
		st, err := g.Create(WithCredential(t.Context(), credential), "script", d.dir, runnel.Options{}, "")
		return st.SessionID, err
	}
	mine, err := create("me")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := create("me"); reached(err) != "max-agents-per-credential" || runnel.CodeOf(err) != runnel.RateLimited {
		t.Errorf("a second of one credential: %v", err)
	}
	others, err := create("other")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := create("third"); reached(err) != "max-agents" || runnel.CodeOf(err) != runnel.Overloaded {
		t.Errorf("a third in all: %v", err)
	}
	d.ends(t, send(t, g, mine, "text"))
	if err := g.sessions.peek(mine).session.Release(t.Context()); err != nil { // stops its idle agent
		t.Fatal(err)
	}
	waitForAgents(g, 1)
	third, err := create("third")
	if err != nil {
		t.Fatalf("after one has gone: %v", err)
	}
	if _, err := g.Send(WithCredential(t.Context(), "me"), mine, Prompt{Text: "text"}); reached(err) != "max-agents" {
		t.Errorf("a prompt that needs one more agent: %v", err)
	}
	for _, id := range []string{others, third} {
		if err := g.Kill(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	d.ends(t, send(t, g, mine, "text"))
	if n := MetricsOf(g).LimitsReached(); n["max-agents"] != 2 || n["max-agents-per-credential"] != 1 {
		t.Errorf("counted %v", n)
	}
}

// waitForAgents returns once only n agents are counted. An agent still counts
// between the request to end and its exit.
func waitForAgents(g *Gateway, n int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for l := g.opener.limits; ; <-tick.C {
		l.mu.Lock()
		left := l.agents
		l.mu.Unlock()
		if left <= n {
			return
		}
	}
}

// A session that is rejected because of a limit leaves no record.
func TestSessionBeyondTheLimitLeavesNothing(t *testing.T) {
	d := newDisk(t)
	g := d.open(t, func(c *Config) { c.Limits = Limits{Sessions: 2, SessionsPerCredential: 1} })
	defer closeIt(t, g)
	create := func(credential string) error {
		_, err := g.Create(WithCredential(t.Context(), credential), "script", d.dir, runnel.Options{}, "")
		return err
	}
	for credential, want := range map[string]any{"me": nil, "other": nil} {
		if err := create(credential); reached(err) != want {
			t.Fatal(err)
		}
	}
	if err := create("me"); reached(err) != "max-sessions-per-credential" {
		t.Errorf("a second of one credential: %v", err)
	}
	if err := create("third"); reached(err) != "max-sessions" {
		t.Errorf("a third in all: %v", err)
	}
	list, err := g.List(t.Context(), Filter{Dead: true})
	if err != nil || len(list) != 2 {
		t.Errorf("%d sessions are listed, %v", len(list), err)
	}
}
