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

// wrote measures a batch of events, ordered by position, that has been written.
// It reports the age of the first event that is newer than the stream.
func (m lagMeter) wrote(evs []event.Event) {
	for _, ev := range evs {
		if ev.At.After(m.since) {
			m.observe(max(time.Since(ev.At), 0))
			return
		}
	}
}
