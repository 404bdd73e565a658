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

// offered returns the index of a setting in config. It fails with InvalidRequest
// if the setting is not there or may not have the value.
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
