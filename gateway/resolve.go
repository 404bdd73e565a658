package gateway

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
)

// A resolution is the options with which an agent starts, and the source of
// each option.
type resolution struct {
	runnel.Options
	by      profile.Resolved // nil: all options are the session's own
	sources profile.Sources  // nil: all options are the session's own
	rules   constraints      // for the calls of the agent
}

// resolve returns the options with which an agent of p starts in dir. given are
// the session's own options, which were checked when the client sent them; k is
// the rest of the client's choice. id is that of the session; "" for a new one.
// It returns an error if p does not support an option or its value, from
// whatever source the option is.
func (o *opener) resolve(p runnel.Provider, dir, id string, given runnel.Options, k kept) (resolution, error) {
	var prof *profile.Profile
	if k.Persona != "" {
		found, err := o.choose(dir, k.Persona, k.Unattended)
		if err != nil {
			return resolution{}, err
		}
		prof = &found
	}
	given.Dir, given.Trusted, given.AllowBypass = dir, o.projects.trusts(dir), o.cfg.AllowBypass
	sources, err := profile.ForAgent(p, given, prof, o.detector.Last(p.Name()), o.cfg.Options)
	if err != nil {
		return resolution{}, err
	}
	opt, by := profile.Resolve(sources...)
	if opt, err = o.complete(opt, dir); err != nil {
		return resolution{}, err
	}
	opt = k.inWorktree(opt)
	opt = o.allowed(opt, rules.Session{ID: id, CLIType: p.Name(), Project: dir})
	opt, r := o.govern(p, dir, k, prof, opt)
	return resolution{opt, by, sources, r}, nil
}

// renew resolves the options of a session again if the next prompt starts its
// agent, because files may have changed since. e.sending is held.
func (o *opener) renew(ctx context.Context, e *entry) error {
	if e.session.Status().AgentAlive {
		return nil
	}
	rec, _ := e.snapshot()
	res, err := o.resolveRecord(rec)
	if err != nil {
		return err
	}
	return o.renewWith(ctx, e, res)
}

// renewWith replaces the options with which the session's next agent starts. It
// does nothing if an agent runs.
func (o *opener) renewWith(ctx context.Context, e *entry, res resolution) error {
	rec, _ := e.snapshot()
	ok, err := e.session.Renew(ctx, o.equipped(res.Options, rec.CLIType, rec.ID))
	if err != nil || !ok {
		return err
	}
	e.gov.begin(res.rules)
	e.mu.Lock()
	e.started, e.sources = res.Options, res.sources
	e.mu.Unlock()
	if reflect.DeepEqual(res.by, e.resolvedNow()) {
		return nil
	}
	e.change(func() {
		e.resolved = res.by
		setIf(&e.rec.ModelID, res.Model)
		if e.rec.PermissionMode != "" || res.PermissionMode != "" {
			e.rec.PermissionMode = string(modeOf(res.Options))
		}
	})
	return nil
}

// resolveRecord returns the options with which the next agent of a session
// starts, without the id of its conversation.
func (o *opener) resolveRecord(rec store.Session) (resolution, error) {
	p, err := o.providers.Choose(rec.CLIType)
	if err != nil {
		return resolution{}, err
	}
	given, err := decodeOptions(o.cfg.Sealer, rec.Options)
	if err != nil {
		return resolution{}, err
	}
	return o.resolve(p, rec.ProjectDir, rec.ID, given, keptOf(rec.Options))
}

// equipped returns opt with the fields that depend on the session and its
// provider.
func (o *opener) equipped(opt runnel.Options, provider, id string) runnel.Options {
	opt.Takeover, opt.Counters, opt.Reached = o.takeover(id), o.counters[provider], o.egress.reached(id, opt)
	return o.captures.equip(o.unknowns.equip(opt, provider, id), id)
}

func modeOf(opt runnel.Options) runnel.PermissionMode {
	if opt.PermissionMode == "" {
		return runnel.ModeDefault
	}
	return opt.PermissionMode
}

// startFailed implements runnel.Config.StartFailed: it adds the source of the
// option that the agent rejected.
func (e *entry) startFailed(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sources.Blame(err)
}

// resolvedNow returns the resolved options of the session.
func (e *entry) resolvedNow() profile.Resolved {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.resolved
}

// changed implements runnel.Config.Changed: the session calls it with settings
// that it added to its options. It does not block.
func (e *entry) changed(set runnel.Settings) {
	changes, err := json.Marshal(set)
	if err != nil {
		return // unreachable: settings are plain values, which marshal
	}
	e.change(func() {
		if data, err := withOptions(e.rec.Options, changes); err == nil { // an error means that the record's options are not valid JSON
			e.rec.Options = data
		}
		if e.resolved != nil {
			e.resolved = e.resolved.With(profile.FromSession, set)
		}
		if e.runs != nil {
			now := set.Apply(*e.runs)
			e.runs = &now
		}
	})
}

// withOptions returns the stored options kept with changes merged into them.
// Entries of "config" are merged one by one, so entries that only kept has
// stay.
func withOptions(kept, changes json.RawMessage) (json.RawMessage, error) {
	members, config := make(map[string]json.RawMessage), make(map[string]json.RawMessage)
	for _, data := range []json.RawMessage{kept, changes} {
		if len(data) == 0 {
			continue
		}
		if err := json.Unmarshal(data, &members); err != nil {
			return nil, err
		}
		if len(members["config"]) > 0 {
			if err := json.Unmarshal(members["config"], &config); err != nil {
				return nil, err
			}
		}
	}
	if len(config) > 0 {
		var err error
		if members["config"], err = json.Marshal(config); err != nil {
			return nil, err
		}
	}
	return json.Marshal(members)
}

// shownResolved returns the resolved options that clients see. by has the
// resolved options of the session. shownResolved adds the settings of the
// running turn, and the model that the agent chose.
func shownResolved(by profile.Resolved, st Status, turn runnel.Settings) profile.Resolved {
	if by == nil {
		return nil
	}
	by = by.With(profile.FromTurn, turn)
	if m := by["model"]; m.From == profile.FromAgent && st.ModelID != "" {
		by = by.With(profile.FromAgent, runnel.Settings{Model: st.ModelID})
	}
	return by
}
