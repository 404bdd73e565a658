package runnel

import (
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// Bounded returns a copy of the Installation that is within the bounds of an
// event. It shortens labels that are too long, and drops models, modes, options
// and paths that are too long.
func (in Installation) Bounded() Installation {
	if len(in.Path) > event.MaxPath {
		in.Path = ""
	}
	in.Version = text.Shorten(in.Version, event.MaxWord)
	in.Problem = text.Shorten(in.Problem, event.MaxNote)
	var models []Model
	for _, m := range in.Models[:min(len(in.Models), event.MaxOffered)] {
		if len(m.ID) <= event.MaxName {
			m.Name, m.Description = text.Shorten(m.Name, event.MaxTitle), text.Shorten(m.Description, event.MaxDescription)
			models = append(models, m)
		}
	}
	in.Models = models
	in.Modes = slices.DeleteFunc(slices.Clone(in.Modes), func(mode string) bool { return len(mode) > event.MaxName })
	if b, _ := event.Bounded(event.SessionUpdated{Config: in.Config}); b != nil {
		in.Config = b.(event.SessionUpdated).Config
	}
	return in
}

// tooLong returns the notice that values of an event were dropped because they
// are out of bounds. fields are their names, as [event.Bounded] returns them.
func tooLong(fields []string) event.Notice {
	return event.Notice{
		Level: event.LevelWarning, Code: "VALUE_TOO_LONG",
		Message: "The agent reported a value that is too long or nested too deep, or too many of them. Left out: " + strings.Join(slices.Compact(fields), ", ") + ".",
	}
}

// boundedFact returns an out-of-turn fact within the bounds of an event, after
// a notice if it dropped values of the fact. It drops an invalid fact.
func boundedFact(ev event.Event) (out []event.Event) {
	body, left := event.Bounded(ev.Body)
	if len(left) > 0 {
		out = append(out, event.Event{At: ev.At, Body: tooLong(left)})
	}
	if ev.Body = body; body != nil && ev.Validate() == nil {
		out = append(out, ev)
	}
	return out
}
