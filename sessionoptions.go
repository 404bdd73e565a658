package runnel

import (
	"cmp"
	"slices"
)

// Settings returns the options that can change while an agent runs, and the
// JSON names of the other options that are set.
func (o Options) Settings() (set Settings, others []string) {
	set = Settings{
		Model: o.Model, PermissionMode: o.PermissionMode, ReasoningEffort: o.ReasoningEffort, Config: o.Config, ThinkingDisplay: o.ThinkingDisplay,
		Budget: o.Budget, TurnBudget: o.TurnBudget,
	}
	live := []string{"model", "permissionMode", "reasoningEffort", "config", "thinkingDisplay", "budget", "turnBudget", "resume", "projectDir"}
	for _, c := range optionChecks() {
		if !slices.Contains(live, c.name) && c.given(&o) {
			others = append(others, c.name)
		}
	}
	return set, others
}

// AllDisallowedTools returns the disallowed tools: ServerDisallowedTools and
// DisallowedTools.
func (o Options) AllDisallowedTools() []string {
	return union(o.ServerDisallowedTools, o.DisallowedTools)
}

// TurnSettings returns the options of a prompt as settings for its turn alone.
// It fails with UNSUPPORTED_CAPABILITY for an option that the agent of p does
// not take, or takes only when it starts.
func TurnSettings(p Provider, opt Options) (Settings, error) {
	set, others := opt.Settings()
	if err := checkTakes(p, others); err != nil {
		return set, err
	}
	if i := slices.Index(others, "disallowedTools"); i >= 0 { // a turn can only disallow more tools
		set.DisallowedTools, others = opt.DisallowedTools, slices.Delete(others, i, i+1)
	}
	if len(others) > 0 {
		return set, notForOneTurn(p, others)
	}
	if !set.Budget.IsZero() {
		return set, &Error{Code: UnsupportedCapability, Message: "budget: is the budget of the session; use turnBudget for one turn", Details: map[string]any{"options": []string{"budget"}}}
	}
	return set, nil
}

// checkTakes returns the error for the first of the options that the agent of p
// does not take.
func checkTakes(p Provider, names []string) error {
	t, ok := p.(OptionTaker)
	if !ok {
		return nil
	}
	takes := t.Takes()
	for _, c := range optionChecks() {
		if c.taken != nil && slices.Contains(names, c.name) && !c.taken(&takes) {
			return lacks(DisplayName(p), c.name)
		}
	}
	return nil
}

// mergeSettings adds settings to the session's options and calls
// Config.Changed.
func (s *Session) mergeSettings(set Settings) {
	s.opt = set.Apply(s.opt)
	if s.cfg.Changed != nil {
		s.cfg.Changed(set)
	}
}

// renew replaces the options of the next agent; see [Session.Renew].
func (s *Session) renew(opt Options) (bool, error) {
	if s.alive() || s.opening != nil || len(s.live) > 0 {
		return false, nil
	}
	if err := checkMode(checked{opt: &opt}); err != nil {
		return false, err
	}
	if opt.PermissionMode != s.opt.PermissionMode {
		warnOfBypass(opt)
	}
	s.opt = opt
	s.facts.modelID = cmp.Or(opt.Model, s.facts.modelID)
	s.facts.permissionMode = string(cmp.Or(opt.PermissionMode, ModeDefault))
	return true, nil
}
