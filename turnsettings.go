package runnel

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// checkTurnSettings returns set in the form in which a turn applies it, or the
// error for the first invalid setting. It changes nothing.
func (s *Session) checkTurnSettings(set Settings) (Settings, error) {
	set, err := checkSettings(s.provider, s.opt, set, s.facts.config)
	if set.DisallowedTools != nil { // a turn cannot allow what the session disallows
		set.DisallowedTools = union(s.opt.DisallowedTools, set.DisallowedTools)
	}
	missing := s.missing(set)
	if err != nil || missing.IsZero() {
		return set, err
	}
	if !s.alive() {
		if p, ok := s.provider.(ConnPrototype); ok && checkSetters(p.Prototype(), missing) != nil {
			err = notForOneTurn(s.provider, missing.names())
		}
		return set, err
	}
	if _, err = s.replaced(missing); err != nil {
		return set, err
	}
	return set, s.checkLive(missing)
}

// missing returns the part of set that differs from the settings of the running
// agent, or from the options with which the next agent starts.
func (s *Session) missing(set Settings) Settings {
	g := s.given
	if !s.alive() {
		g = startedWith(s.opt)
	}
	return g.missing(set)
}

// notForOneTurn returns the error for options that cannot change for one turn,
// because the agent sets them only at its start or the session does not know
// the values to restore.
func notForOneTurn(p Provider, names []string) error {
	return &Error{
		Code:    UnsupportedCapability,
		Message: oneOf(names) + ": " + DisplayName(p) + " cannot change this for one turn; choose it for the session",
		Details: map[string]any{"options": names},
	}
}

// names returns the JSON names of the fields that are set.
func (s Settings) names() (out []string) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"model", s.Model != ""}, {"permissionMode", s.PermissionMode != ""},
		{"reasoningEffort", s.ReasoningEffort != ""}, {"config", len(s.Config) > 0},
		{"thinkingDisplay", s.ThinkingDisplay != ""}, {"disallowedTools", s.DisallowedTools != nil},
		{"budget", !s.Budget.IsZero()}, {"turnBudget", !s.TurnBudget.IsZero()},
	} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return out
}

// replaced returns the values that the settings of a turn replace in the
// running agent. They are the session's own, and what the agent reported where
// the session has none. It fails if the agent cannot change one of the
// settings, or if a value is not known.
func (s *Session) replaced(set Settings) (Settings, error) {
	if checkSetters(s.link.conn, set) != nil {
		return Settings{}, notForOneTurn(s.provider, set.names())
	}
	back, now := s.ownOf(set), s.returned
	if r, ok := s.link.conn.(SettingsReporter); ok {
		now = now.or(r.Settings())
	}
	back = back.or(now.only(set))
	if missing := set.without(back); !missing.IsZero() {
		return back, notForOneTurn(s.provider, missing.names())
	}
	return back, nil
}

// ownOf returns the session's own values of the settings that set contains. For
// a permission mode it adds the session's Config, because a setting in Config
// may affect the permission mode.
func (s *Session) ownOf(set Settings) Settings {
	own := Settings{
		Model: s.opt.Model, PermissionMode: cmp.Or(s.opt.PermissionMode, ModeDefault), ReasoningEffort: s.opt.ReasoningEffort, Config: s.opt.Config,
		ThinkingDisplay: cmp.Or(s.opt.ThinkingDisplay, ThinkingSummarized), DisallowedTools: union(s.opt.DisallowedTools),
	}
	out := own.only(set)
	if set.PermissionMode != "" {
		out.Config = maps.Clone(own.Config)
	}
	return out
}

// beginSettings stages the settings of a turn and the settings to restore after
// it, as far as they are known.
func (s *Session) beginSettings(lt *liveTurn, set Settings) {
	lt.chosen, lt.set = set, set
	lt.budget = set.TurnBudget.or(s.opt.TurnBudget)
	if missing := s.missing(set); !missing.IsZero() {
		back := s.ownOf(missing)
		lt.restores = &back
		s.stageSettings(missing, back)
	}
}

func (s *Session) stageSettings(set, back Settings) {
	s.stage(event.Event{At: time.Now(), Body: event.SessionUpdated{
		ModelID: set.Model, PermissionMode: string(set.PermissionMode),
		Restores: &event.SessionSettings{
			Model: back.Model, PermissionMode: string(back.PermissionMode), ReasoningEffort: back.ReasoningEffort, Config: back.Config,
			ThinkingDisplay: string(back.ThinkingDisplay), DisallowedTools: back.DisallowedTools,
		},
	}})
}

// settingsOf converts the settings of an event.
func settingsOf(s event.SessionSettings) Settings {
	return Settings{
		Model: s.Model, PermissionMode: PermissionMode(s.PermissionMode), ReasoningEffort: s.ReasoningEffort, Config: s.Config,
		ThinkingDisplay: ThinkingDisplay(s.ThinkingDisplay), DisallowedTools: s.DisallowedTools,
	}
}

// giveSettings sends the settings of a turn to the running agent. It first logs
// the values that they replace, so that a restarted server can restore them. If
// the agent rejects a setting, giveSettings stops it, because the agent may
// already have applied others.
func (s *Session) giveSettings(lt *liveTurn) error {
	set := s.given.missing(lt.set)
	if set.IsZero() {
		lt.set = Settings{}
		return nil
	}
	back, err := s.replaced(set)
	if err == nil {
		err = s.checkLive(set)
	}
	if err == nil {
		err = s.checkLive(back)
	}
	if err != nil {
		return err
	}
	if lt.restores == nil || !reflect.DeepEqual(back, *lt.restores) {
		lt.restores = &back
		s.stageSettings(set, back)
		if err := s.flush(); err != nil {
			return err
		}
	}
	lt.set = Settings{}
	if err := s.setLive(set); err != nil {
		s.link.beginClose(s)
		return err
	}
	if set.PermissionMode != "" {
		warnOfBypass(set.Apply(s.opt))
	}
	return nil
}

// returnsTo returns the settings to restore after a turn. It prefers the
// session's own, which may have changed while the turn ran.
func (s *Session) returnsTo(lt *liveTurn) Settings { return s.ownOf(*lt.restores).or(*lt.restores) }

// stageReturn stages the restored settings after the terminal event of a turn.
func (s *Session) stageReturn(lt *liveTurn, at time.Time) {
	if lt.restores != nil {
		s.handleOutOfTurn(returnFact(at, s.returnsTo(lt)))
	}
}

// returnFact returns the event that reports restored settings.
func returnFact(at time.Time, back Settings) event.Event {
	return event.Event{At: at, Body: event.SessionUpdated{ModelID: back.Model, PermissionMode: string(back.PermissionMode)}}
}

// restore sends the agent the settings that a turn replaced, once the terminal
// event is in the log. It stops an agent that rejects them.
func (s *Session) restore(lt *liveTurn, end event.Body) {
	if lt.restores == nil || !lt.set.IsZero() {
		return
	}
	back := s.returnsTo(lt)
	_, failed := end.(event.ResponseError) // after an error, the agent may be stopped before it accepts settings
	if failed || !s.alive() {
		s.pin(back)
	}
	if !s.alive() {
		return
	}
	if s.setLive(back) != nil {
		s.link.beginClose(s)
		s.pin(back)
		return
	}
	s.returned = back.or(s.returned)
}

// pin sets the model and the effort in the session's options to those of back,
// where the session's own are empty. Agents such as Codex store both with the
// conversation. Without pin, an agent that exited before restore would keep the
// values of the last turn.
func (s *Session) pin(back Settings) {
	var set Settings
	if s.opt.Model == "" {
		set.Model = back.Model
	}
	if s.opt.ReasoningEffort == "" {
		set.ReasoningEffort = back.ReasoningEffort
	}
	for id, value := range back.Config {
		if o := offer(s.facts.config, id); o != nil && (o.Category == "model" || o.Category == "effort") && s.opt.Config[id] == "" {
			set.Config = merged(set.Config, Values{id: value})
		}
	}
	if !set.IsZero() {
		s.mergeSettings(set)
	}
}

// reported processes a report of the agent's settings. Unless a turn with
// settings of its own runs, the report replaces the values in returned.
func (s *Session) reported(b event.SessionUpdated) {
	s.given.reported(b)
	if slices.ContainsFunc(s.live, func(lt *liveTurn) bool { return lt.restores != nil }) {
		return
	}
	if b.ModelID != "" {
		s.returned.Model = ""
	}
	if b.Config != nil {
		s.returned = Settings{Model: s.returned.Model}
	}
}

// or returns s with its empty fields set to the values of other.
func (s Settings) or(other Settings) Settings {
	s.Model = cmp.Or(s.Model, other.Model)
	s.PermissionMode = cmp.Or(s.PermissionMode, other.PermissionMode)
	s.ReasoningEffort = cmp.Or(s.ReasoningEffort, other.ReasoningEffort)
	s.Config = merged(other.Config, s.Config)
	s.ThinkingDisplay = cmp.Or(s.ThinkingDisplay, other.ThinkingDisplay)
	if s.DisallowedTools == nil {
		s.DisallowedTools = other.DisallowedTools
	}
	return s
}

// only returns the values of s for the fields that set contains.
func (s Settings) only(set Settings) Settings { return s.without(s.without(set)) }

// without returns the values of s for the fields that other does not contain.
func (s Settings) without(other Settings) Settings {
	for _, f := range [][2]*string{
		{&s.Model, &other.Model}, {(*string)(&s.PermissionMode), (*string)(&other.PermissionMode)}, {&s.ReasoningEffort, &other.ReasoningEffort},
		{(*string)(&s.ThinkingDisplay), (*string)(&other.ThinkingDisplay)},
	} {
		if *f[1] != "" {
			*f[0] = ""
		}
	}
	if other.DisallowedTools != nil {
		s.DisallowedTools = nil
	}
	s.Config = maps.Clone(s.Config)
	maps.DeleteFunc(s.Config, func(id, _ string) bool { return other.Config[id] != "" })
	if len(s.Config) == 0 {
		s.Config = nil
	}
	return s
}

// union returns the elements of all lists without duplicates. It is never nil.
func union(lists ...[]string) []string {
	out := []string{}
	for _, list := range lists {
		for _, s := range list {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

func merged(first, second Values) Values {
	if len(first)+len(second) == 0 {
		return nil
	}
	out := make(Values)
	maps.Copy(out, first)
	maps.Copy(out, second)
	return out
}
