package translate

import (
	"encoding/json"
	"slices"

	"github.com/runnel-dev/runnel/event"
)

// NewEvents returns the events that are not among had, which has the number of
// equal events. It adds the numbers of all events to has. It may change evs.
func NewEvents(evs []event.Event, had, has map[string]int) []event.Event {
	return slices.DeleteFunc(evs, func(ev event.Event) bool {
		data, _ := json.Marshal(ev.Body) // an event that does not marshal is new each time, and the session refuses it
		key := event.Type(ev.Body) + string(data)
		has[key]++
		return has[key] <= had[key]
	})
}
