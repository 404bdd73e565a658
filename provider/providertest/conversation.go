package providertest

import (
	"testing"

	"github.com/runnel-dev/runnel"
)

// A conversation serves several cases, one after another, with one agent.
type conversation struct {
	provider runnel.Provider
	opt      runnel.Options
	live     *live // nil while no agent runs
}

// conversation makes the environment of a conversation. The agent is started by
// the first case that takes it; the end of t closes it at the latest.
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

// conversations makes one for all scenarios, and one more for each scenario
// that needs other options.
func (s Subject) conversations(t *testing.T) map[Scenario]*conversation {
	t.Helper()
	all := make(map[Scenario]*conversation)
	common := s.conversation(t, nil)
	for _, sc := range replayed {
		if all[sc] = common; s.Needs[sc] != nil {
			all[sc] = s.conversation(t, s.Needs[sc])
		}
	}
	return all
}

// take returns the session for a case. A case that fails ends the agent, so
// that the next one does not inherit its state.
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
