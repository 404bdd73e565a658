package runnel

import (
	"context"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// The goroutine that holds the baton of a session is the session's actor. A
// goroutine with something to do for the session takes the baton, does it, and
// passes the baton on: the caller of a method, the reader of the agent's
// events, and the alarm. So an event needs no other goroutine on its way from
// the agent to the log.

// take waits for the baton. It returns an error, without the baton, if the
// session has ended or ctx ends first.
func (s *Session) take(ctx context.Context) error {
	select {
	case s.baton <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.baton <- struct{}{}:
		return nil
	case <-s.ended:
		return errEnded()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pass gives the baton to the next goroutine that waits for it. If nothing is
// left to do for a session that closes, pass ends the session.
func (s *Session) pass() {
	if len(s.closing) > 0 && s.link == nil && s.opening == nil {
		go s.exit() // keeps the baton, so nobody else becomes the actor
		return
	}
	s.arm()
	<-s.baton
}

// do calls f as the actor, unless the session has ended.
func (s *Session) do(f func()) {
	if s.take(context.Background()) == nil {
		defer s.pass()
		f()
	}
}

// exit waits for the helper goroutines, stores the final status and then
// replies to the pending Close calls.
func (s *Session) exit() {
	if s.alarm != nil {
		s.alarm.Stop()
	}
	s.stop()
	s.helpers.Wait()
	s.final = s.status()
	s.final.State = event.StateDead
	close(s.ended)
	for _, reply := range s.closing {
		reply <- nil
	}
}

// arm makes the alarm go off at the next time at which there is something to
// do. It leaves an alarm that goes off earlier: most times move on with each
// event, so the alarm finds nothing to do and is armed again.
func (s *Session) arm() {
	due := s.due()
	if due.IsZero() || !s.armed.IsZero() && !due.Before(s.armed) {
		return
	}
	s.armed = due
	if s.alarm == nil {
		s.alarm = time.AfterFunc(time.Until(due), s.ring)
		return
	}
	s.alarm.Reset(time.Until(due))
}

// ring does what is due.
func (s *Session) ring() {
	s.do(func() {
		s.armed = time.Time{}
		now := time.Now()
		if !s.death.IsZero() && !now.Before(s.death) {
			s.death = time.Time{}
			s.expire(now)
		}
		s.tick(now)
	})
}
