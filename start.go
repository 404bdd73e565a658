package runnel

import "context"

// A LoginChecker is a Provider whose agents check their credential when they
// start: Open fails with AGENT_NOT_LOGGED_IN if an agent has none. Other agents
// report a missing login only after they have received a prompt.
type LoginChecker interface{ ChecksLogin() }

// ChecksLogin reports whether the session's provider is a [LoginChecker].
func (s *Session) ChecksLogin() bool {
	_, ok := s.provider.(LoginChecker)
	return ok
}

// Start starts the session's agent if none runs. It returns nil once the agent
// accepts prompts, and the agent's error if the start fails. If ctx ends first,
// Start returns its error and the start of the agent continues.
func (s *Session) Start(ctx context.Context) error {
	reply := make(chan error, 1)
	if err := s.request(ctx, startMsg{reply}); err != nil {
		return err
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

type startMsg struct{ reply chan error }

func (startMsg) message() {}

// start begins to start the agent and replies once the agent runs or has
// failed.
func (s *Session) start(reply chan error) {
	switch {
	case len(s.closing) > 0:
		reply <- errEnded()
	case s.alive():
		reply <- nil
	default:
		s.starting = append(s.starting, reply)
		s.open()
	}
}

// replyStarted replies to the pending Start calls.
func (s *Session) replyStarted(err error) {
	for _, reply := range s.starting {
		reply <- err
	}
	s.starting = nil
}
