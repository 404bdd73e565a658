package runnel

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/event"
)

// FailPrompt logs a turn that consists of the user's message and ends with err.
// It is for a prompt that was accepted earlier, such as a queued prompt, and
// whose turn cannot start because of err. The agent receives nothing. If the
// turn has already ended, FailPrompt does nothing. It fails with
// TURN_IN_PROGRESS if a turn is running.
func (s *Session) FailPrompt(ctx context.Context, in Input, err error) error {
	_, failed := ask(ctx, s, func(reply chan answer[struct{}]) message { return failPromptMsg{in, Safe(err), reply} })
	return failed
}

type failPromptMsg struct {
	in    Input
	cause *Error
	reply chan answer[struct{}]
}

func (failPromptMsg) message() {}

func (s *Session) failPrompt(in Input, why *Error) error {
	err := s.checkCanStart(in.Turn) // it may close the turn
	if s.endedTurns[in.Turn] {
		return nil
	}
	if err != nil {
		return err
	}
	if in.Turn == "" {
		in.Turn = uuid.NewString()
	} else if over, err := s.endedBefore(in.Turn); over || err != nil {
		return err
	}
	lt := s.add(newRules(in.Turn, s.provider.Name()), newTurn(in.Turn, s.id, s.log, s.head))
	s.stageAll(lt, lt.rules.user(time.Now(), in))
	s.stageAll(lt, lt.rules.end(time.Now(), event.ResponseError{Error: s.fault(why)}))
	return s.flush()
}

// endedBefore reports whether the log has the end of a turn that this session
// does not know: the turn of an earlier Session, or of an append that the log
// made although it reported an error.
func (s *Session) endedBefore(turn string) (bool, error) {
	for ev, err := range s.log.Read(s.ctx, s.id, 0) {
		if err != nil {
			return false, Safe(err)
		}
		if ev.Turn == turn && event.Ends(ev.Body) {
			s.endedTurns[turn] = true
			return true, nil
		}
	}
	return false, nil
}
