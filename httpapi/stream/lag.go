package stream

import (
	"time"

	"github.com/runnel-dev/runnel/event"
)

// A lagMeter measures how old events are once a reader has them. It leaves out
// those from before the reader came: they are history.
type lagMeter struct {
	since   time.Time
	observe func(time.Duration)
}

func (s *Streams) lagOf(family string) lagMeter {
	return lagMeter{time.Now(), s.cfg.Metrics.Lag(family)}
}

// wrote is called with a batch of events, oldest first.
func (m lagMeter) wrote(evs []event.Event) {
	for _, ev := range evs {
		if ev.At.After(m.since) {
			m.observe(max(time.Since(ev.At), 0))
			return
		}
	}
}
