package acp

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// setting is a value of one of an agent's options.
type setting struct{ option, value string }

// Bounds of what an agent offers.
const (
	maxOptions = 100
	maxChoices = 500
)

// offered takes what can be set, as a whole: config options, and modes and
// models of agents that have no such options for them.
func (t *translator) offered(o opened) {
	var config []event.ConfigOption
	for _, c := range o.ConfigOptions[:min(len(o.ConfigOptions), maxOptions)] {
		if opt := c.event(); opt.ID != "" {
			config = append(config, opt)
		}
	}
	legacy := map[string]string{}
	if o.ConfigOptions == nil && o.Modes == nil && o.Models == nil {
		return
	}
	if o.Modes != nil && find(config, "mode") == nil {
		opt := event.ConfigOption{ID: "mode", Name: "Mode", Category: "mode", Type: event.ConfigSelect, Value: o.Modes.Current}
		for _, m := range o.Modes.Available[:min(len(o.Modes.Available), maxChoices)] {
			opt.Choices = append(opt.Choices, choice(m.ID, m.Name, m.Description))
		}
		config, legacy["mode"] = append(config, opt), methodSetMode
	}
	if o.Models != nil && find(config, "model") == nil {
		opt := event.ConfigOption{ID: "model", Name: "Model", Category: "model", Type: event.ConfigSelect, Value: o.Models.Current}
		for _, m := range o.Models.Available[:min(len(o.Models.Available), maxChoices)] {
			opt.Choices = append(opt.Choices, choice(m.ID, m.Name, m.Description))
		}
		config, legacy["model"] = append(config, opt), methodSetModel
	}
	for id, method := range t.Legacy { // what only the beginning tells
		if old := find(t.Config, id); old != nil && find(config, id) == nil {
			config, legacy[id] = append(config, *old), method
		}
	}
	t.Legacy = legacy
	t.configured(config)
}

// find returns the option about something: that of a category, or else that of
// an id.
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
	return event.ConfigChoice{Value: bounded(value), Name: oneLine(name, 200), Description: oneLine(description, 300)}
}

// bounded is a value that is sent back as it is: one that is too long is none.
func bounded(value string) string {
	if len(value) > 500 {
		return ""
	}
	return value
}

func (c configOption) event() event.ConfigOption {
	o := event.ConfigOption{
		ID: bounded(c.ID + c.ConfigID), Name: oneLine(c.Name, 200), Description: oneLine(c.Description, 300),
		Category: oneLine(c.Category, 40), Type: event.ConfigSelect, Value: configText(decodeLoose[any](c.Current)),
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
				ch.Group = oneLine(v.Name, 200)
				o.Choices = append(o.Choices, ch)
			}
		}
	}
	return o
}

// configText is how we write a value.
func configText(v any) string {
	switch v := v.(type) {
	case string:
		return bounded(v)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// configured tells what changed.
func (t *translator) configured(config []event.ConfigOption) {
	var changed event.SessionUpdated
	goneSo := t.Config != nil && t.q.bypassing(t.Config) == "" && t.q.bypassing(config) != ""
	if !slices.EqualFunc(config, t.Config, equal) {
		t.Config, changed.Config = config, config
	}
	if m := find(config, "model"); m != nil && m.Value != "" && m.Value != t.Model {
		t.Model, changed.ModelID = m.Value, m.Value
	}
	if mode := t.modeOf(); mode != "" && mode != t.Mode {
		t.Mode, changed.PermissionMode = mode, mode
	}
	if changed.Config == nil && changed.ModelID == "" && changed.PermissionMode == "" {
		return
	}
	t.emit(changed)
	if goneSo || changed.PermissionMode == string(runnel.ModeBypass) {
		t.notice(event.LevelWarning, "PERMISSIONS_BYPASSED", "Every tool runs without asking.")
	}
}

func equal(a, b event.ConfigOption) bool {
	choices := slices.Equal(a.Choices, b.Choices)
	a.Choices, b.Choices = nil, nil
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return choices && errX == nil && errY == nil && string(x) == string(y)
}

// set takes a new value of one option.
func (t *translator) set(about, value string) {
	o := find(t.Config, about)
	if o == nil || value == "" || o.Value == value {
		return
	}
	config := slices.Clone(t.Config)
	byID(config, o.ID).Value = bounded(value)
	t.configured(config)
}

// changed takes the answer to a change that we asked for.
func (t *translator) changed(a asked, m jsonrpc.Message) {
	if m.Error != nil {
		t.notice(event.LevelWarning, "OPTION_REFUSED", "The agent refused to change "+oneLine(a.Option, 100)+".")
		return
	}
	if o := decodeLoose[opened](m.Result); o.ConfigOptions != nil {
		t.offered(o)
		return
	}
	t.set(a.Option, a.Value)
}

// has reports whether all of these are set.
func (t *translator) has(want []setting) bool {
	return !slices.ContainsFunc(want, func(s setting) bool {
		o := find(t.Config, s.option)
		return o == nil || o.Value != s.value
	})
}

// change returns the request that sets a value, and nothing if it is set
// already. What is not offered is refused.
func (t *translator) change(s setting, bypass bool) (method string, params map[string]any, err error) {
	o := byID(t.Config, s.option)
	if o == nil {
		o = find(t.Config, s.option)
	}
	switch {
	case o == nil:
		return "", nil, runnel.Fail(runnel.InvalidRequest, "config: "+t.agent.Name+" has no such option")
	case !o.Allows(s.value):
		return "", nil, runnel.Fail(runnel.InvalidRequest, "config: "+t.agent.Name+" does not offer this value of "+oneLine(o.Name, 100))
	case !bypass && t.q.unasked(*o, s.value):
		return "", nil, runnel.Fail(runnel.InvalidRequest, "config: this would run tools without asking; it has to be allowed on the server first")
	case o.Value == s.value:
		return "", nil, nil
	}
	params = map[string]any{"sessionId": t.Session}
	switch method = t.Legacy[o.ID]; method {
	case methodSetMode:
		params["modeId"] = s.value
	case methodSetModel:
		params["modelId"] = s.value
	default:
		method = methodSetConfig
		params["configId"], params["value"] = o.ID, s.value
		if t.Version >= 2 {
			params["type"] = "id"
		}
		if o.Type == event.ConfigBoolean {
			params["type"], params["value"] = "boolean", s.value == "true"
		}
	}
	return method, params, nil
}

// reckless are words of values with which an agent asks nobody any more. Agents
// are many; those whose words are known have them in their quirks besides.
var reckless = []string{"bypass", "yolo", "full-access", "full_access", "fullaccess", "dangerous", "autopilot", "allow-all", "allow_all", "skip-permissions"}

// bypasses reports whether a value's name says that nobody would be asked.
func (q *quirks) bypasses(value string) bool {
	value = strings.ToLower(value)
	return slices.ContainsFunc(reckless, func(word string) bool { return strings.Contains(value, word) })
}

// off are values that switch off what an option's id says.
var off = []string{"", "false", "off", "no", "none", "never", "disabled", "0"}

// unasked reports whether nobody is asked any more where an option has a value.
func (q *quirks) unasked(o event.ConfigOption, value string) bool {
	if slices.Contains(q.startup.bypass, setting{o.ID, value}) || slices.Contains(q.startup.bypass, setting{o.Category, value}) {
		return true
	}
	if o.Category == "model" || o.ID == "model" || o.Category == "effort" {
		return false
	}
	return q.bypasses(value) || q.bypasses(o.ID) && !slices.Contains(off, strings.ToLower(value))
}

// bypassing returns the name of the first option that has a value with which
// nobody is asked.
func (q *quirks) bypassing(config []event.ConfigOption) string {
	for _, o := range config {
		if q.unasked(o, o.Value) {
			return o.Name
		}
	}
	return ""
}
