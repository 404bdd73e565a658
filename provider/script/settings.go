package script

import (
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// The settings of the player itself, which a conversation begins with. A script
// replaces them with its own by naming some.
const (
	pace     = "pace"     // how long pauses are
	paceFast = "fast"     // none
	thoughts = "thoughts" // whether reasoning is said
)

// settings returns the player's settings with the values that were asked for.
func settings(asked runnel.Values) []event.ConfigOption {
	out := []event.ConfigOption{
		{
			ID: pace, Name: "Pace", Description: "How long the pauses of a script are", Type: event.ConfigSelect, Value: "written",
			Choices: []event.ConfigChoice{
				{Value: "written", Name: "As written", Description: "words come as a model says them"},
				{Value: paceFast, Name: "Fast", Description: "no pauses"},
			},
		},
		{ID: thoughts, Name: "Thoughts", Description: "Say the reasoning of a script too", Type: event.ConfigBoolean, Value: "true"},
	}
	for i, o := range out {
		if value, ok := asked[o.ID]; ok && o.Allows(value) {
			out[i].Value = value
		}
	}
	return out
}

// offers reports whether a setting is among options and may have a value.
func offers(options []event.ConfigOption, id, value string) bool {
	return slices.ContainsFunc(options, func(o event.ConfigOption) bool { return o.ID == id && o.Allows(value) })
}

func errNotOffered() error {
	return runnel.Fail(runnel.InvalidRequest, "config: the script offers no such setting or value; the session's status lists those that it does")
}

// play compiles s as the settings want it.
func play(turn string, s Script, config []event.ConfigOption) *player {
	value := func(id string) string {
		for _, o := range config {
			if o.ID == id {
				return o.Value
			}
		}
		return ""
	}
	if value(thoughts) == "false" {
		s.Steps = slices.DeleteFunc(slices.Clone(s.Steps), func(st Step) bool { return st.Reasoning != "" })
	}
	p := compile(turn, s)
	if value(pace) == paceFast {
		p.hurry()
	}
	return p
}

func (p *player) hurry() {
	for i := range p.queue {
		p.queue[i].after = min(p.queue[i].after, time.Millisecond)
	}
}
