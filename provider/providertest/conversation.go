package providertest

import (
	"testing"

	"github.com/runnel-dev/runnel"
)

// conversation is a session that several cases share, one after another.
type conversation struct {
	provider runnel.Provider
	opt      runnel.Options
	live     *live          // nil until the agent has started
	ended    bool           // live is closed
	settled  bool           // settle was called
	compared int            // number of the first turns that ReplayEqualsLive compares if the conversation is settled
	stored   *runnel.Memory // the agent's history of the session, after history has closed the session
}

// conversation creates the environment of a conversation. take starts the
// agent. It is stopped when t ends, or earlier by close.
func (s Subject) conversation(t *testing.T, needs func(*runnel.Options)) *conversation {
	t.Helper()
	p, opt := s.New(t)
	if needs != nil {
		needs(&opt)
	}
	c := &conversation{provider: p, opt: opt}
	t.Cleanup(c.close)
	return c
}

// apart returns c, or a conversation of its own for a scenario that has an entry
// in Needs.
func (s Subject) apart(t *testing.T, sc Scenario, c *conversation) *conversation {
	t.Helper()
	if s.Needs[sc] == nil {
		return c
	}
	return s.conversation(t, s.Needs[sc])
}

// with returns a case that runs in a conversation.
func with(c *conversation, test func(*testing.T, *conversation)) func(*testing.T) {
	return func(t *testing.T) { test(t, c) }
}

// conversations returns the conversation of each replayed scenario and of Image.
// The scenarios share common, but a scenario with an entry in Needs has its own.
func (s Subject) conversations(t *testing.T, common *conversation) map[Scenario]*conversation {
	t.Helper()
	all := map[Scenario]*conversation{Image: s.apart(t, Image, common)}
	for _, sc := range replayed {
		all[sc] = s.apart(t, sc, common)
	}
	return all
}

// take returns the running session for a case, and starts the agent if none is
// running. If the case fails, the agent is stopped, so that the next case does
// not inherit its state.
func (c *conversation) take(t *testing.T) *live {
	t.Helper()
	if c.ended {
		c.close()
	}
	return c.latest(t)
}

// latest is like take, but returns the session even if it is closed.
func (c *conversation) latest(t *testing.T) *live {
	t.Helper()
	if c.live == nil {
		c.live = start(t, c.provider, c.opt, runnel.Config{})
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.close()
		}
	})
	l := *c.live
	l.t = t
	return &l
}

// history closes the session and returns its conversation from the agent's
// history. Further calls return the same events.
func (c *conversation) history(t *testing.T) *runnel.Memory {
	t.Helper()
	if c.stored != nil {
		return c.stored
	}
	l := c.latest(t)
	id := l.Status().AgentSessionID
	if err := l.Close(); err != nil {
		t.Fatal(detail(err))
	}
	c.ended = true
	log := new(runnel.Memory)
	history := l.provider.(runnel.Historian).History(t.Context(), runnel.Conversation{AgentSessionID: id, Dir: l.opt.Dir})
	Record(t, log, "s", runnel.Replay("s", l.provider.Name(), history))
	c.stored = log
	return log
}

// resume closes the session and starts an agent that resumes its conversation.
func (c *conversation) resume(t *testing.T) *live {
	t.Helper()
	l := c.latest(t)
	opt := c.opt // after a failure, the next case starts a new conversation
	opt.Resume = l.Status().AgentSessionID
	if err := l.Close(); err != nil {
		t.Fatal(detail(err))
	}
	c.live, c.ended, c.stored = start(t, c.provider, opt, runnel.Config{Log: l.log}), false, nil
	c.live.turns = l.turns
	return c.take(t)
}

// settle makes ReplayEqualsLive compare only the turns until now. It then needs
// another conversation for a scenario without such a turn.
func (c *conversation) settle(t *testing.T) {
	c.settled = true
	if c.live != nil {
		c.compared = len(turnsOf(Items(t, c.live.log, "s", "")))
	}
}

// end closes the session, but keeps the conversation for history.
func (c *conversation) end() {
	if c.live != nil {
		_ = c.live.Close()
		c.ended = true
	}
}

func (c *conversation) close() {
	c.end()
	c.live, c.ended, c.compared, c.stored = nil, false, 0, nil
}
