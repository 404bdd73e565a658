package runnel

import (
	"context"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// Retitle appends an event with the session's new title, whether or not a turn
// runs. If by is event.TitleByUser, the title stays until a later Retitle, and
// titles that the agent reports do not change it.
func (s *Session) Retitle(ctx context.Context, title string, by event.TitleBy) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return retitleMsg{title, by, reply} })
	return err
}

type retitleMsg struct {
	title string
	by    event.TitleBy
	reply chan answer[struct{}]
}

func (retitleMsg) message() {}

func (s *Session) retitle(title string, by event.TitleBy) error {
	s.handleOutOfTurn(event.Event{At: time.Now(), Body: event.SessionUpdated{Title: title, TitleBy: by}})
	return s.flush()
}
