package stream

import (
	"time"

	"github.com/runnel-dev/runnel/event"
)

// A lagMeter measures how old events are when a client has them. It leaves out
// events from before the stream began, which are history.
type lagMeter struct {
	since   time.Time
	observe func(time.Duration)
}

func (s *Streams) lagOf(family string) lagMeter {
	return lagMeter{time.Now(), s.cfg.Metrics.Lag(family)}
}

// oldest returns the time of the first event that is newer than the stream, in
// a batch that is ordered by position; zero if there is none.
func (m lagMeter) oldest(evs []event.Event) time.Time {
	for _, ev := range evs {
		if ev.At.After(m.since) {
			return ev.At
		}
	}
	return time.Time{}
}

// wrote reports the age of a batch that has been written. oldest is the result
// of the method oldest for the batch.
func (m lagMeter) wrote(oldest time.Time) {
	if !oldest.IsZero() {
		m.observe(max(time.Since(oldest), 0))
	}
}
