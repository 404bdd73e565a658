package providertest

import (
	"testing"

	"github.com/runnel-dev/runnel"
)

// conversation is a session that several cases share, one after another.
type conversation struct {
	provider runnel.Provider
	opt      runnel.Options
	live     *live // nil while no agent runs
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

// conversations returns the conversation of each scenario. The scenarios share
// one, but a scenario with an entry in Needs has its own.
func (s Subject) conversations(t *testing.T) map[Scenario]*conversation {
	t.Helper()
	all := make(map[Scenario]*conversation)
	common := s.conversation(t, nil)
	for _, sc := range replayed {
		all[sc] = s.apart(t, sc, common)
	}
	return all
}

// take returns the session for a case, and starts the agent if none is running.
// If the case fails, the agent is stopped, so that the next case does not
// inherit its state.
func (c *conversation) take(t *testing.T) *live {
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

func (c *conversation) close() {
	if c.live != nil {
		_ = c.live.Close()
		c.live = nil
	}
}
