package runnel

import (
	"cmp"
	"maps"
	"slices"

	"github.com/runnel-dev/runnel/event"
)

// given tracks the settings that the session has sent to the running agent and
// that the agent has not changed since. The session sends a setting only if it
// differs, because setting a model can leave traces in the conversation. A
// field is empty if the agent's value is not known.
type given struct {
	Settings
	model string // the agent's own name for Model, as the agent last reported it
}

// startedWith returns the settings of an agent that was started with opt.
func startedWith(opt Options) given {
	return given{Settings: Settings{
		Model: opt.Model, PermissionMode: cmp.Or(opt.PermissionMode, ModeDefault), ReasoningEffort: opt.ReasoningEffort, Config: maps.Clone(opt.Config),
		ThinkingDisplay: cmp.Or(opt.ThinkingDisplay, ThinkingSummarized), DisallowedTools: union(opt.DisallowedTools),
	}}
}

// missing returns the part of set that differs from the agent's settings.
func (g *given) missing(set Settings) Settings {
	set.Budget, set.TurnBudget = Budget{}, Budget{} // are not the agent's
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

// gave records that the session sends set to the agent. A setting in Config may
// change the agent's model, effort or permission mode, and each of these may
// change a setting in Config. So gave forgets the values that set may change.
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

// reported forgets the settings that differ from a report of the agent.
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

// noticed forgets all settings if the agent rejected one, because the notice
// does not name the setting.
func (g *given) noticed(n event.Notice) {
	if n.Code == optionRefused {
		*g = given{}
	}
}

// optionRefused is the code of the notice that the agent rejected a setting.
const optionRefused = "OPTION_REFUSED"
