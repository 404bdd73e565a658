package acp

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// setting is a value for one option of an agent.
type setting struct{ option, value string }

// settingRequest is a setting that a client requests. Error messages name the
// field of the client's request.
type settingRequest struct {
	field string // JSON name of the field in the client's request
	setting
}

// fieldConfig is the field for the agent's own settings.
const fieldConfig = "config"

// name returns the name of the setting for error messages.
func (w settingRequest) name() string {
	if w.field == fieldConfig {
		return w.field + "." + text.OneLine(w.option, 100)
	}
	return w.field
}

// settingRequests returns the settings that a client asks for, in the order in
// which they are applied. mode lists the settings of the requested permission
// mode.
func settingRequests(mode []setting, set runnel.Settings) (out []settingRequest) {
	for _, s := range mode {
		out = append(out, settingRequest{"permissionMode", s})
	}
	if set.Model != "" {
		out = append(out, settingRequest{"model", setting{"model", set.Model}})
	}
	if set.ReasoningEffort != "" {
		out = append(out, settingRequest{"reasoningEffort", setting{"effort", set.ReasoningEffort}})
	}
	for _, id := range slices.Sorted(maps.Keys(set.Config)) {
		out = append(out, settingRequest{fieldConfig, setting{id, set.Config[id]}})
	}
	return out
}

// settings holds the config options of a conversation, and the model and the
// permission mode that they imply.
type settings struct {
	q     *quirks
	began runnel.PermissionMode // one of startModes; "" if the agent started in another mode
	agent string                // display name of the agent

	config      []event.ConfigOption
	legacy      map[string]string // option id → method that sets it, for modes and models outside of config options
	model, mode string            // last emitted values
}

// Maximum numbers of options of an agent, and of choices of an option.
const (
	maxOptions = 100
	maxChoices = 500
)

// offered replaces the options that can be set: the config options, and the
// modes and models of agents that have no config options for them.
func (s *settings) offered(out translate.TurnEmitter, o opened) {
	if o.ConfigOptions == nil && o.Modes == nil && o.Models == nil {
		return
	}
	var config []event.ConfigOption
	for _, c := range o.ConfigOptions[:min(len(o.ConfigOptions), maxOptions)] {
		if opt := c.event(); opt.ID != "" {
			config = append(config, opt)
		}
	}
	legacy := map[string]string{}
	if o.Modes != nil && find(config, "mode") == nil {
		config, legacy["mode"] = append(config, o.Modes.event()), methodSetMode
	}
	if o.Models != nil && find(config, "model") == nil {
		config, legacy["model"] = append(config, o.Models.event()), methodSetModel
	}
	for id, method := range s.legacy { // only the answer that opens a conversation lists modes and models
		if old := find(s.config, id); old != nil && find(config, id) == nil {
			config, legacy[id] = append(config, *old), method
		}
	}
	s.legacy = legacy
	s.update(out, config)
}

func (m *modes) event() event.ConfigOption {
	opt := event.ConfigOption{ID: "mode", Name: "Mode", Category: "mode", Type: event.ConfigSelect, Value: m.Current}
	for _, c := range m.Available[:min(len(m.Available), maxChoices)] {
		opt.Choices = append(opt.Choices, choice(c.ID, c.Name, c.Description))
	}
	return opt
}

func (m *models) event() event.ConfigOption {
	opt := event.ConfigOption{ID: "model", Name: "Model", Category: "model", Type: event.ConfigSelect, Value: m.Current}
	for _, c := range m.Available[:min(len(m.Available), maxChoices)] {
		opt.Choices = append(opt.Choices, choice(c.ID, c.Name, c.Description))
	}
	return opt
}

// find returns the option with the category about, or else the option with the
// id about, or nil.
func find(config []event.ConfigOption, about string) *event.ConfigOption {
	for i := range config {
		if config[i].Category == about {
			return &config[i]
		}
	}
	return byID(config, about)
}

func byID(config []event.ConfigOption, id string) *event.ConfigOption {
	i := slices.IndexFunc(config, func(o event.ConfigOption) bool { return o.ID == id })
	if i < 0 {
		return nil
	}
	return &config[i]
}

func choice(value, name, description string) event.ConfigChoice {
	return event.ConfigChoice{Value: bounded(value), Name: text.OneLine(name, 200), Description: text.OneLine(description, 300)}
}

// bounded returns value, or "" if it has more than 500 bytes. It does not cut
// the value, because the agent must get it back unchanged.
func bounded(value string) string {
	if len(value) > 500 {
		return ""
	}
	return value
}

func (c configOption) event() event.ConfigOption {
	o := event.ConfigOption{
		ID: bounded(c.ID + c.ConfigID), Name: text.OneLine(c.Name, 200), Description: text.OneLine(c.Description, 300),
		Category: text.OneLine(c.Category, 40), Type: event.ConfigSelect, Value: configText(translate.DecodeLenient[any](c.Current)),
	}
	if o.Category == "thought_level" {
		o.Category = "effort"
	}
	if c.Type == "boolean" {
		o.Type = event.ConfigBoolean
		return o
	}
	for _, v := range c.Options {
		if len(v.Options) == 0 && v.Value != "" {
			v.Options = []configChoice{v}
			v.Group, v.Name = "", ""
		}
		for _, w := range v.Options {
			if len(o.Choices) < maxChoices && w.Value != "" {
				ch := choice(w.Value, w.Name, w.Description)
				ch.Group = text.OneLine(v.Name, 200)
				o.Choices = append(o.Choices, ch)
			}
		}
	}
	return o
}

// configText returns the value of an option as text, or "" for an unknown type.
func configText(v any) string {
	switch v := v.(type) {
	case string:
		return bounded(v)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// update replaces the config options and emits the changes. It also emits a
// warning if tools run without asking from now on.
func (s *settings) update(out translate.TurnEmitter, config []event.ConfigOption) {
	var changed event.SessionUpdated
	bypasses := s.config != nil && s.q.bypassOption(s.config) == "" && s.q.bypassOption(config) != ""
	if !slices.EqualFunc(config, s.config, equal) {
		s.config, changed.Config = config, config
	}
	if m := find(config, "model"); m != nil && m.Value != "" && m.Value != s.model {
		s.model, changed.ModelID = m.Value, m.Value
	}
	if mode := s.reportedMode(); mode != "" && mode != s.mode {
		s.mode, changed.PermissionMode = mode, mode
	}
	if changed.Config == nil && changed.ModelID == "" && changed.PermissionMode == "" {
		return
	}
	out.Emit(changed)
	if bypasses || changed.PermissionMode == string(runnel.ModeBypass) {
		out.Emit(translate.Bypassed)
	}
}

func equal(a, b event.ConfigOption) bool {
	choices := slices.Equal(a.Choices, b.Choices)
	a.Choices, b.Choices = nil, nil
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return choices && errX == nil && errY == nil && string(x) == string(y)
}

// set changes the value of one option, as the agent reports it.
func (s *settings) set(out translate.TurnEmitter, option, value string) {
	o := find(s.config, option)
	if o == nil || value == "" || o.Value == value {
		return
	}
	config := slices.Clone(s.config)
	byID(config, o.ID).Value = bounded(value)
	s.update(out, config)
}

// changed handles the answer to a request that changes an option.
func (s *settings) changed(out translate.TurnEmitter, r request, m jsonrpc.Message) {
	if m.Error != nil {
		out.Notice(event.LevelWarning, "OPTION_REFUSED", "The agent refused to change "+text.OneLine(r.Option, 100)+".")
		return
	}
	if o := translate.DecodeLenient[opened](m.Result); o.ConfigOptions != nil {
		s.offered(out, o)
		return
	}
	s.set(out, r.Option, r.Value)
}

// has reports whether all settings in want are in effect.
func (s *settings) has(want []setting) bool {
	return !slices.ContainsFunc(want, func(w setting) bool {
		o := find(s.config, w.option)
		return o == nil || o.Value != w.value
	})
}

// permissionMode returns the permission mode whose settings are in effect, or
// "" if there is none.
func (s *settings) permissionMode() string {
	for _, m := range []runnel.PermissionMode{
		runnel.ModeBypass, runnel.ModePlan, runnel.ModeDontAsk, runnel.ModeDefault, runnel.ModeAcceptEdits,
	} {
		switch want := s.q.startup.modes[m]; {
		case len(want) == 0 || !s.has(want):
		case m == runnel.ModeDefault && s.began != "":
			return string(s.began)
		default:
			return string(m)
		}
	}
	return ""
}

// reportedMode returns the permission mode to emit, or "" if the last one remains.
// Once the option that makes the mode plan has another value, the session is no
// longer in plan, even if no permission mode has its settings.
func (s *settings) reportedMode() string {
	mode, plan := s.permissionMode(), s.q.startup.modes[runnel.ModePlan]
	switch {
	case mode != "" || s.mode != string(runnel.ModePlan) || len(plan) == 0 || s.has(plan[:1]):
		return mode
	case s.q.bypassOption(s.config) != "":
		return string(runnel.ModeBypass)
	}
	return string(cmp.Or(s.began, runnel.ModeDefault))
}

// allow returns the option that a requested setting changes. It fails with
// InvalidRequest if the agent does not offer the value. It also fails if the
// value makes tools run without asking, unless bypass is true.
func (s *settings) allow(want settingRequest, bypass bool) (*event.ConfigOption, error) {
	o := byID(s.config, want.option)
	if o == nil {
		o = find(s.config, want.option)
	}
	switch {
	case o == nil && want.field == fieldConfig:
		return nil, runnel.NoSetting(s.agent, want.option, s.config)
	case o == nil:
		return nil, runnel.Fail(runnel.InvalidRequest, want.name()+": "+s.agent+" does not offer this setting in this conversation; leave it out")
	case !o.Allows(want.value):
		return nil, runnel.NoValue(want.name(), want.value, *o)
	case s.leaves(*o, want.value):
		return nil, runnel.Fail(runnel.InvalidRequest, want.name()+": "+s.agent+" cannot change from the permission mode "+string(s.began)+" while it runs; end the session, load it again, and change it then")
	case !bypass && s.q.isBypass(*o, want.value):
		return nil, runnel.Fail(runnel.InvalidRequest, want.name()+": this value makes tools run without asking; allow it on the server first")
	}
	return o, nil
}

// leaves reports whether the value of option o is that of another permission mode
// than the one in which the agent began, which lasts until the agent exits.
func (s *settings) leaves(o event.ConfigOption, value string) bool {
	for mode, want := range s.q.startup.modes {
		if s.began != "" && mode != runnel.ModeDefault && (slices.Contains(want, setting{o.ID, value}) || slices.Contains(want, setting{o.Category, value})) {
			return true
		}
	}
	return false
}

// bypassWords lists parts of values with which agents run tools without asking.
// The quirks of known agents list their exact values too.
var bypassWords = []string{"bypass", "yolo", "full-access", "full_access", "fullaccess", "dangerous", "autopilot", "allow-all", "allow_all", "skip-permissions"}

// isBypassName reports whether an id or a value contains one of bypassWords.
func (q *quirks) isBypassName(value string) bool {
	value = strings.ToLower(value)
	return slices.ContainsFunc(bypassWords, func(word string) bool { return strings.Contains(value, word) })
}

// off lists the values that switch an option off.
var off = []string{"", "false", "off", "no", "none", "never", "disabled", "0"}

// isBypass reports whether tools run, or may run, without asking if option o has
// this value.
func (q *quirks) isBypass(o event.ConfigOption, value string) bool {
	if slices.ContainsFunc(q.startup.mayBypass, func(s setting) bool {
		return (s.option == o.ID || s.option == o.Category) && strings.HasPrefix(value, s.value)
	}) {
		return true
	}
	if slices.Contains(q.startup.bypass, setting{o.ID, value}) || slices.Contains(q.startup.bypass, setting{o.Category, value}) {
		return true
	}
	if o.Category == "model" || o.ID == "model" || o.Category == "effort" {
		return false
	}
	return q.isBypassName(value) || q.isBypassName(o.ID) && !slices.Contains(off, strings.ToLower(value))
}

// bypassOption returns the name of the first option whose value makes tools run
// without asking, or "".
func (q *quirks) bypassOption(config []event.ConfigOption) string {
	for _, o := range config {
		if q.isBypass(o, o.Value) {
			return o.Name
		}
	}
	return ""
}
