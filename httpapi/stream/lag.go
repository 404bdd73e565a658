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

// wrote measures a batch of events that was written, oldest first, by its first
// new event.
func (m lagMeter) wrote(evs []event.Event) {
	for _, ev := range evs {
		if ev.At.After(m.since) {
			m.observe(max(time.Since(ev.At), 0))
			return
		}
	}
}
