package script

import (
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// The player's settings and their values. Settings that a script sends replace
// them.
const (
	pace     = "pace"     // length of the pauses
	paceFast = "fast"     // pauses of at most 1 ms
	thoughts = "thoughts" // whether reasoning is emitted
)

// settings returns the player's settings with the requested values.
func settings(asked runnel.Values) []event.ConfigOption {
	out := []event.ConfigOption{
		{
			ID: pace, Name: "Pace", Description: "Length of the pauses in a script", Type: event.ConfigSelect, Value: "written",
			Choices: []event.ConfigChoice{
				{Value: "written", Name: "As written", Description: "pauses as the script defines them"},
				{Value: paceFast, Name: "Fast", Description: "no pauses"},
			},
		},
		{ID: thoughts, Name: "Thoughts", Description: "Show the reasoning of a script", Type: event.ConfigBoolean, Value: "true"},
	}
	for i, o := range out {
		if value, ok := asked[o.ID]; ok && o.Allows(value) {
			out[i].Value = value
		}
	}
	return out
}

// offered returns the index of a setting in config. It fails with
// InvalidRequest if config lacks the setting or the setting cannot have the
// value.
func offered(config []event.ConfigOption, id, value string) (int, error) {
	i := slices.IndexFunc(config, func(o event.ConfigOption) bool { return o.ID == id })
	switch {
	case i < 0:
		return i, runnel.NoSetting("the script", id, config)
	case !config[i].Allows(value):
		return i, runnel.NoValue("config."+id, value, config[i])
	}
	return i, nil
}

// play compiles s and applies the player's settings to it.
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
		p.shortenPauses()
	}
	return p
}

// shortenPauses shortens all pauses to at most one millisecond.
func (p *player) shortenPauses() {
	for i := range p.queue {
		p.queue[i].after = min(p.queue[i].after, time.Millisecond)
	}
}
