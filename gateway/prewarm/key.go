package prewarm

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
)

// A Key is everything that determines how an agent is started, except its
// session. Options.Dir is the canonical project directory.
type Key struct {
	Provider runnel.Provider
	Options  runnel.Options
}

// Eligible reports whether an agent with these options may be prewarmed. Agents
// with MCP servers may not, because those run commands that are meant for one
// session only.
func Eligible(opt runnel.Options) bool { return len(opt.MCPServers) == 0 }

// equal reports whether agents of both keys are started in the same way.
func (k Key) equal(other Key) bool {
	set, ok := k.settings(other)
	return ok && set.IsZero()
}

// settings returns the settings to change in an agent of k so that it equals an
// agent of want. It can change the model, the permission mode, the effort and
// entries of the configuration. It returns false if the agents also differ in
// something else.
func (k Key) settings(want Key) (set runnel.Settings, ok bool) {
	if k.Provider.Name() != want.Provider.Name() || k.Options.Dir != want.Options.Dir {
		return set, false
	}
	have, wanted := k.Options, want.Options
	for _, s := range []struct {
		have, want string
		set        *string
	}{
		{have.Model, wanted.Model, &set.Model},
		{have.ReasoningEffort, wanted.ReasoningEffort, &set.ReasoningEffort},
		{string(have.PermissionMode), string(wanted.PermissionMode), (*string)(&set.PermissionMode)},
	} {
		if s.have != s.want {
			if s.want == "" {
				return set, false // no setting restores the agent's default
			}
			*s.set = s.want
		}
	}
	for id := range have.Config {
		if _, ok := wanted.Config[id]; !ok {
			return set, false
		}
	}
	for id, value := range wanted.Config {
		if had, ok := have.Config[id]; !ok || had != value {
			if set.Config == nil {
				set.Config = make(runnel.Values)
			}
			set.Config[id] = value
		}
	}
	return set, encode(set.Apply(have)) == encode(wanted)
}

// encode returns the options that can differ between sessions of one directory,
// as JSON: those that a client can choose and those that come from a profile.
func encode(opt runnel.Options) string {
	if len(opt.Config) == 0 {
		opt.Config = nil
	}
	opt.Budget, opt.TurnBudget = runnel.Budget{}, runnel.Budget{} // are the session's, and not the agent's
	b, err := json.Marshal(struct {
		runnel.Options
		Disallowed []string
		Delegation runnel.Delegation
		Subagents  []runnel.Subagent
		Allowed    []runnel.AllowedPath
	}{opt, opt.ServerDisallowedTools, opt.Delegation, opt.Subagents, opt.Allowed})
	if err != nil {
		return uuid.NewString() // differs from every other result
	}
	return string(b)
}

// canSet reports whether these settings can be changed in a running agent.
func canSet(c runnel.Conn, set runnel.Settings) bool {
	_, model := c.(runnel.ModelSetter)
	_, mode := c.(runnel.ModeSetter)
	_, effort := c.(runnel.EffortSetter)
	_, config := c.(runnel.ConfigSetter)
	return (set.Model == "" || model) && (set.PermissionMode == "" || mode) && (set.ReasoningEffort == "" || effort) && (len(set.Config) == 0 || config)
}
