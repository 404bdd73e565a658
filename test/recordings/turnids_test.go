package recordings

import (
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// underIDs returns the events of a replay with the turn ids of the live events.
// The agents do not store turn ids, so a replay derives them from the positions
// of the turns (see [runnel.PositionalHistorian]). underIDs matches the turns
// from the end, because the recording may lack first turns that another process
// ran.
func underIDs(live, replayed []event.Event) []event.Event {
	ids := func(evs []event.Event) (all []string) {
		for _, ev := range evs {
			if ev.Turn != "" && !slices.Contains(all, ev.Turn) {
				all = append(all, ev.Turn)
			}
		}
		return all
	}
	was, is := ids(replayed), ids(live)
	name := make(map[string]string)
	for n := 1; n <= min(len(was), len(is)); n++ {
		name[was[len(was)-n]] = is[len(is)-n]
	}
	out := slices.Clone(replayed)
	for i, ev := range out {
		to := name[ev.Turn]
		if to == "" {
			continue
		}
		place := func(id string) string { return to + strings.TrimPrefix(id, ev.Turn) }
		switch b := ev.Body.(type) {
		case event.ItemStart:
			b.ItemID = place(b.ItemID)
			out[i].Body = b
		case event.ItemDelta:
			b.ItemID = place(b.ItemID)
			out[i].Body = b
		case event.ItemDone:
			b.ItemID = place(b.ItemID)
			out[i].Body = b
		case event.ItemCancelled:
			b.ItemID = place(b.ItemID)
			out[i].Body = b
		case event.ItemError:
			b.ItemID = place(b.ItemID)
			out[i].Body = b
		}
		out[i].Turn = to
	}
	return out
}
