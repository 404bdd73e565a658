package runnel

import (
	"cmp"
	"maps"
	"slices"

	"github.com/runnel-dev/runnel/event"
)

// given has the settings that the running agent has from us, and has not changed
// itself since. An agent gets a setting only if it differs: being told of a model
// can leave traces in a conversation. What is not known is not here.
type given struct {
	Settings
	model string // as the agent reported it since it got Model; it may have a name of its own for that
}

// startedWith returns what an agent has that was started with opt.
func startedWith(opt Options) given {
	return given{Settings: Settings{
		Model: opt.Model, PermissionMode: cmp.Or(opt.PermissionMode, ModeDefault), ReasoningEffort: opt.ReasoningEffort, Config: maps.Clone(opt.Config),
		ThinkingDisplay: cmp.Or(opt.ThinkingDisplay, ThinkingSummarized), DisallowedTools: union(opt.DisallowedTools),
	}}
}

// missing returns those of the settings that the agent does not have.
func (g *given) missing(set Settings) Settings {
	if set.Model == g.Model {
		set.Model = ""
	}
	if set.PermissionMode == g.PermissionMode {
		set.PermissionMode = ""
	}
	if set.ReasoningEffort == g.ReasoningEffort {
		set.ReasoningEffort = ""
	}
	if set.ThinkingDisplay == g.ThinkingDisplay {
		set.ThinkingDisplay = ""
	}
	if g.DisallowedTools != nil && slices.Equal(set.DisallowedTools, g.DisallowedTools) {
		set.DisallowedTools = nil
	}
	set.Config = maps.Clone(set.Config)
	maps.DeleteFunc(set.Config, func(id, value string) bool {
		had, ok := g.Config[id]
		return ok && had == value
	})
	if len(set.Config) == 0 {
		set.Config = nil
	}
	return set
}

// gave notes that the agent gets settings. A setting of its own may be part of
// what makes its model, its effort or its permission mode, and the other way
// round: of those nothing is known then.
func (g *given) gave(set Settings) {
	if len(set.Config) > 0 {
		*g = given{Settings: Settings{Config: g.Config, ThinkingDisplay: g.ThinkingDisplay, DisallowedTools: g.DisallowedTools}}
	}
	if set.Model != "" || set.PermissionMode != "" || set.ReasoningEffort != "" {
		g.Config = nil
	}
	if set.Model != "" {
		g.model = ""
	}
	g.Settings = set.or(g.Settings)
}

// reported notes that the agent reported settings.
func (g *given) reported(b event.SessionUpdated) {
	switch {
	case b.ModelID == "":
	case g.model == "":
		g.model = b.ModelID
	case g.model != b.ModelID:
		g.Model = ""
	}
	if b.PermissionMode != "" && b.PermissionMode != string(g.PermissionMode) {
		g.PermissionMode = ""
	}
	for _, o := range b.Config {
		if had, ok := g.Config[o.ID]; ok && had != o.Value {
			delete(g.Config, o.ID)
		}
		if o.Category == "effort" && o.Value != g.ReasoningEffort {
			g.ReasoningEffort = ""
		}
	}
}

// noticed notes a notice of the agent. Which setting it refused is not said: so
// nothing is known any more.
func (g *given) noticed(n event.Notice) {
	if n.Code == optionRefused {
		*g = given{}
	}
}

// optionRefused is the code of the notice that the agent refused to change a
// setting that it was given.
const optionRefused = "OPTION_REFUSED"
