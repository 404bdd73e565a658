package runnel

import (
	"context"

	"github.com/runnel-dev/runnel/event"
)

// Import appends turns that ran outside of this session, and the out-of-turn
// events between them. evs is the output of [Replay] over a part of the agent's
// own history. Every turn in evs must be complete and absent from the log.
//
// Import fails with TURN_IN_PROGRESS while a turn runs. It stops the agent as
// [Session.Release] does, because a running agent does not know these turns.
// The next Send starts the agent again, and the agent then reads the
// conversation from its history.
func (s *Session) Import(ctx context.Context, evs []event.Event) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return importMsg{evs, reply} })
	return err
}

type importMsg struct {
	evs   []event.Event
	reply chan answer[struct{}]
}

func (importMsg) message() {}

// importBatch is the minimum number of events of one write, except the last. A
// write ends where no turn is open, so a crash leaves no incomplete turn.
const importBatch = 256

func (s *Session) imports(evs []event.Event) error {
	if err := s.release(); err != nil {
		return err
	}
	if s.recover != nil {
		if err := s.reconcile(s.ctx); err != nil {
			return err
		}
	}
	open := make(map[string]bool)
	for _, ev := range evs {
		if event.Ends(ev.Body) {
			delete(open, ev.Turn)
		} else if ev.Turn != "" {
			open[ev.Turn] = true
		}
		s.batch = append(s.batch, ev)
		if len(open) == 0 && len(s.batch) >= importBatch {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.flush()
}
