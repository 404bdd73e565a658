package runnel

import (
	"context"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// Follow appends events of a conversation that another process continues, as a
// [Following] returns them. A turn of that process runs in the session until
// its terminal event arrives: the session then has no turn of its own, and
// accepts no prompt. Events of turns that have ended are dropped.
//
// Follow fails with TURN_IN_PROGRESS while a turn of the session's own agent
// runs. It stops the agent as [Session.Import] does.
func (s *Session) Follow(ctx context.Context, evs []event.Event) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return followMsg{evs, reply} })
	return err
}

// Unfollow ends the turns of the other process that still run, with the error
// that [IsCutShort] recognises.
func (s *Session) Unfollow(ctx context.Context) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return unfollowMsg{reply} })
	return err
}

type (
	followMsg struct {
		evs   []event.Event
		reply chan answer[struct{}]
	}
	unfollowMsg struct{ reply chan answer[struct{}] }
)

func (followMsg) message()   {}
func (unfollowMsg) message() {}

func (s *Session) follow(evs []event.Event) error {
	if len(s.closing) > 0 {
		return errEnded()
	}
	if slices.ContainsFunc(s.live, func(lt *liveTurn) bool { return !lt.followed }) {
		return Fail(TurnInProgress, "a turn is running")
	}
	if s.recover != nil {
		if err := s.reconcile(s.ctx); err != nil {
			return err
		}
	}
	if len(evs) > 0 {
		s.unlink()
	}
	for _, ev := range evs {
		s.stageFollowed(ev)
		if len(s.batch) >= importBatch {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	s.adopting = nil // the log has what it had when the session was opened
	if err := s.flush(); err != nil {
		return err
	}
	s.enforce()
	return nil
}

// stageFollowed applies the rules of a turn to an event of another process and
// stages the result. Turns begin and overlap as in [Replay].
func (s *Session) stageFollowed(ev event.Event) {
	if ev.At.IsZero() {
		ev.At = time.Now()
	}
	if ev.Turn == "" {
		s.handleOutOfTurn(ev)
		return
	}
	lt := s.find(ev.Turn)
	if lt == nil {
		prompt := isPrompt(ev)
		if _, response := ev.Body.(event.ResponseStart); s.endedTurns[ev.Turn] || !prompt && !response {
			return
		}
		if prompt {
			s.cutShort(ev.At, func(lt *liveTurn) bool { return lt.rules.started && lt.rules.prompted() })
		}
		lt = s.add(newRules(ev.Turn, s.provider.Name()), newTurn(ev.Turn, s.id, s.log, s.head+int64(len(s.batch))))
		lt.followed, lt.rules.believe = true, true
	}
	if lt.rules.ended {
		return
	}
	lt.lastEventAt = time.Now()
	s.stageAll(lt, lt.rules.admitAgent(ev))
}

// cutShort ends the followed turns for which which returns true.
func (s *Session) cutShort(at time.Time, which func(*liveTurn) bool) {
	for _, lt := range slices.Clone(s.live) {
		if lt.followed && !lt.rules.ended && which(lt) {
			s.stageAll(lt, lt.rules.end(at, event.ResponseError{Error: event.Fault{Code: string(ProcessCrash), Message: cutShort}}))
		}
	}
}

// unfollow ends all followed turns.
func (s *Session) unfollow() error {
	s.adopting = nil
	s.cutShort(time.Now(), func(*liveTurn) bool { return true })
	return s.flush()
}

// resumeFollowed continues the turns that the log left open, as turns of
// another process. The events of the next Follow may repeat what the log has.
func (s *Session) resumeFollowed(ctx context.Context) error {
	if err := s.recall(ctx, Backlog{After: -1}); err != nil {
		return err
	}
	s.adopting.between = true // the caller passes only out-of-turn events that the log lacks
	for _, lt := range s.live {
		lt.followed = true
	}
	return nil
}

// leave closes the session and leaves the followed turns open in the log, so
// that a later process continues them. It reports false if the session has
// other turns, or none.
func (s *Session) leave() bool {
	if len(s.live) == 0 || slices.ContainsFunc(s.live, func(lt *liveTurn) bool { return !lt.followed }) || s.flush() != nil {
		return false
	}
	err := Fail(StoreUnavailable, "the server is restarting and the turn continues; read it from the log after the restart")
	for _, lt := range s.live {
		lt.handle.abandon(err)
	}
	s.live = nil
	s.unlink()
	s.closing = append(s.closing, make(chan error, 1))
	return true
}
