package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
)

// A From is the kind of source that the value of an option comes from.
type From string

// The sources, strongest first.
const (
	FromTurn        From = "turn"        // options of the prompt
	FromSession     From = "session"     // options of the session
	FromProfile     From = "profile"     // the profile of the session
	FromProject     From = "project"     // .runnel/config.yaml of the project
	FromEnvironment From = "environment" // variables of the server
	FromGlobal      From = "global"      // the configuration of the server
	FromAgent       From = "agent"       // no source has the option: the agent's own default
)

// A Source is a set of options from one place.
type Source struct {
	From    From
	Name    string         // name of the file or variable in errors. Default: errors name only the option
	Agent   string         // name of the provider that the source applies to. Default: all providers
	Options runnel.Options // only fields with a JSON name count
	Lines   map[string]int // line numbers in the file, by option. Default: not known

	profile *Profile // the profile that the source was made from; nil for other sources
	agent   string   // display name of the agent, for errors about a profile
}

// A ResolvedOption is the resolved value of an option.
type ResolvedOption struct {
	Value any    `json:"value,omitempty" doc:"The resolved value. Absent if only the agent knows it. For mcpServers, the names of the servers; for systemPromptAppend, the beginning of the text. The value default of tools stands for the agent's default tools."`
	From  From   `json:"from" doc:"The source with the highest precedence that sets the option."`
	Also  []From `json:"also,omitempty" doc:"Other sources that contribute to the value."`
}

// Resolved holds the resolved options by their JSON names. One of the agent's
// own settings has the name config.ID. Of the options that no source has,
// Resolved holds only model, tools and permissionMode. It also holds
// autoApproveTools, which only a profile can have.
type Resolved map[string]ResolvedOption

// ends has the options that Resolved holds even if no source has them, with the
// agent's defaults. The default model has no value, because only the agent
// knows it. The default set of tools is called default, and so is the
// permission mode in which agents start.
var ends = Resolved{
	"model":          {From: FromAgent},
	"tools":          {Value: "default", From: FromAgent},
	"permissionMode": {Value: string(runnel.ModeDefault), From: FromAgent},
}

// Resolve returns the options with which an agent starts, and the source of
// each. Sources are in order, strongest first. For each option the first source
// that has it counts. Each of the agent's own settings in config is an option
// of its own.
//
// Four options accumulate. sandbox and keys are the strictest ones, so no source
// can switch off what another source asks for. systemPromptAppend is the text of
// the profile, followed by the text of the strongest other source.
// disallowedTools has the tools of all sources, so no source can allow a tool
// that another source disallows.
//
// Fields without a JSON name are those of the first source. Resolve does no I/O
// and validates nothing; see [Source.Checked].
func Resolve(sources ...Source) (runnel.Options, Resolved) {
	out := sources[0].Options
	by := maps.Clone(ends)
	for _, o := range options {
		o.resolve(sources, &out, by)
	}
	showDisallowed(sources, by)
	showApproved(sources, by)
	return out, by
}

// showDisallowed adds the tools that a profile disallows to the disallowedTools
// in by. They are not part of the resolved option, because only some agents
// take that option. The server denies calls of these tools for every agent.
func showDisallowed(sources []Source, by Resolved) {
	var shown ResolvedOption
	var tools []string
	for _, s := range sources {
		own := s.Options.DisallowedTools
		if s.profile != nil {
			own = s.profile.DisallowedTools
		}
		switch {
		case len(own) == 0:
			continue
		case shown.From == "":
			shown.From = s.From
		default:
			shown.Also = append(shown.Also, s.From)
		}
		tools = union(tools, own)
	}
	if shown.Value = tools; len(tools) > 0 {
		by["disallowedTools"] = shown
	}
}

// showApproved adds the tools that a profile allows without asking to by, as
// autoApproveTools. No agent takes them: the server answers for the user.
func showApproved(sources []Source, by Resolved) {
	for _, s := range sources {
		if s.profile == nil {
			continue
		}
		tools := slices.DeleteFunc(slices.Clone(s.profile.AutoApproveTools), func(tool string) bool {
			_, forbidden := Enforced{Session: s.profile}.Forbids(tool)
			return forbidden
		})
		if len(tools) > 0 {
			by["autoApproveTools"] = ResolvedOption{Value: tools, From: s.From}
		}
	}
}

// An option is a field of runnel.Options that has a JSON name.
type option struct {
	name  string
	index int
}

var options = func() (out []option) {
	t := reflect.TypeFor[runnel.Options]()
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			out = append(out, option{name, i})
		}
	}
	return out
}()

// in returns the option's field of opt.
func (o option) in(opt *runnel.Options) reflect.Value {
	return reflect.ValueOf(opt).Elem().Field(o.index)
}

// given reports whether opt sets the option.
func (o option) given(opt *runnel.Options) bool {
	v := o.in(opt)
	if k := v.Kind(); k == reflect.Slice || k == reflect.Map {
		return v.Len() > 0
	}
	return !v.IsZero()
}

func (o option) resolve(sources []Source, out *runnel.Options, by Resolved) {
	var having []Source
	for _, s := range sources {
		if o.given(&s.Options) {
			having = append(having, s)
		}
	}
	if len(having) == 0 {
		return
	}
	switch o.name {
	case "config":
		out.Config = resolveConfig(having, by)
		return
	case "sandbox":
		having = strictest(having, func(s Source) runnel.Sandbox { return s.Options.Sandbox }, runnel.StricterSandbox)
		out.Sandbox = having[0].Options.Sandbox
	case "keys":
		having = strictest(having, func(s Source) runnel.Keys { return s.Options.Keys }, runnel.StricterKeys)
		out.Keys = having[0].Options.Keys
	case "systemPromptAppend":
		having = appended(having)
		var parts []string
		for _, s := range having {
			parts = append(parts, s.Options.SystemPromptAppend)
		}
		out.SystemPromptAppend = strings.Join(parts, "\n\n")
	case "disallowedTools":
		out.DisallowedTools = nil
		for _, s := range having {
			out.DisallowedTools = union(out.DisallowedTools, s.Options.DisallowedTools)
		}
	default:
		o.in(out).Set(o.in(&having[0].Options))
		having = having[:1]
	}
	v := ResolvedOption{Value: o.shown(out), From: having[0].From}
	for _, s := range having[1:] {
		v.Also = append(v.Also, s.From)
	}
	by[o.name] = v
}

// strictest returns the source with the strictest value, the strongest one if
// several have it.
func strictest[V comparable](having []Source, value func(Source) V, stricter func(a, b V) V) []Source {
	at := 0
	for i, s := range having {
		if stricter(value(having[at]), value(s)) != value(having[at]) {
			at = i
		}
	}
	return having[at : at+1]
}

// appended returns the sources that contribute to systemPromptAppend: the
// profile, then the strongest other source.
func appended(having []Source) (out []Source) {
	isProfile := func(s Source) bool { return s.From == FromProfile }
	if i := slices.IndexFunc(having, isProfile); i >= 0 {
		out = append(out, having[i])
	}
	if i := slices.IndexFunc(having, func(s Source) bool { return !isProfile(s) }); i >= 0 {
		out = append(out, having[i])
	}
	return out
}

// resolveConfig resolves each of the agent's own settings separately.
func resolveConfig(having []Source, by Resolved) runnel.Values {
	out := make(runnel.Values)
	for _, s := range having {
		for id, value := range s.Options.Config {
			if _, ok := out[id]; !ok {
				out[id] = value
				by["config."+id] = ResolvedOption{Value: value, From: s.From}
			}
		}
	}
	return out
}

// maxShown bounds the part of systemPromptAppend that Resolved shows, in bytes.
const maxShown = 200

// shown returns the value of the option for display. Of MCP servers it shows
// only the names, because their definitions contain credentials.
func (o option) shown(opt *runnel.Options) any {
	switch o.name {
	case "mcpServers":
		return serverNames(opt.MCPServers)
	case "systemPromptAppend":
		return text.Shorten(opt.SystemPromptAppend, maxShown)
	}
	v := o.in(opt)
	if v.Kind() == reflect.String {
		return v.String()
	}
	return v.Interface()
}

// serverNames returns the names of the MCP servers that a client defined.
func serverNames(servers json.RawMessage) []string {
	var byName map[string]json.RawMessage
	_ = json.Unmarshal(servers, &byName) // cannot fail: servers was checked to be an object
	return slices.Sorted(maps.Keys(byName))
}

// With returns r with the settings of a stronger source, which replace those in
// r. Tools of disallowedTools are added instead.
func (r Resolved) With(from From, set runnel.Settings) Resolved {
	if set.IsZero() {
		return r
	}
	sources := []Source{{From: from, Options: set.Apply(runnel.Options{})}}
	out := maps.Clone(r)
	for _, o := range options {
		o.resolve(sources, new(runnel.Options), out)
	}
	const accumulates = "disallowedTools"
	had, ok := r[accumulates]
	tools, isList := had.Value.([]string)
	if ok && isList && set.DisallowedTools != nil {
		out[accumulates] = ResolvedOption{Value: union(tools, set.DisallowedTools), From: from, Also: append([]From{had.From}, had.Also...)}
	}
	return out
}

// union returns the strings of all lists, each once.
func union(lists ...[]string) (out []string) {
	for _, list := range lists {
		for _, s := range list {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// OmitEqual returns opt without those options in names that have the same value
// in other.
func OmitEqual(opt runnel.Options, names []string, other runnel.Options) runnel.Options {
	for _, o := range options {
		if slices.Contains(names, o.name) && reflect.DeepEqual(o.in(&opt).Interface(), o.in(&other).Interface()) {
			o.in(&opt).SetZero()
		}
	}
	return opt
}

// Checked passes the options of s to check one by one, and returns s with the
// options that check returned. An error names the source, and the line if it is
// known.
func (s Source) Checked(check func(runnel.Options) (runnel.Options, error)) (Source, error) {
	given := s.Options
	for _, o := range options {
		if !o.given(&given) {
			continue
		}
		var one runnel.Options
		o.in(&one).Set(o.in(&given))
		one, err := check(one)
		if err != nil {
			return s, s.wrong(o.name, err)
		}
		o.in(&given).Set(o.in(&one))
	}
	s.Options = given
	return s, nil
}

// wrong adds the source and the line to the error about an option.
func (s Source) wrong(name string, err error) error {
	if s.Name == "" {
		return err
	}
	at := s.Name
	if line := s.Lines[name]; line > 0 {
		at = fmt.Sprintf("%s:%d", at, line)
	}
	e, ok := errors.AsType[*runnel.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", at, err)
	}
	out := *e
	details := map[string]any{"option": name, "source": s.From, "at": at}
	why := e.Message
	if s.profile != nil {
		details["profile"] = s.profile.Name
		why = s.profile.refusal(s.agent, name, e)
	}
	out.Message, out.Details = at+": "+why, details
	return &out
}

// keys maps the options that a profile can set to their keys in its file.
var keys = map[string]string{"model": "model", "tools": "tools", "maxTurns": "max_turns", "sandbox": "sandbox", "systemPromptAppend": textKey}

// Of returns the source that has the options of a profile.
func Of(p Profile) Source {
	lines := make(map[string]int)
	for option, key := range keys {
		lines[option] = p.lines[key]
	}
	return Source{From: FromProfile, Name: p.Path, Lines: lines, profile: &p, Options: runnel.Options{
		Model: p.Model, Tools: p.Tools, MaxTurns: p.MaxTurns, Sandbox: p.Sandbox, SystemPromptAppend: p.Text,
	}}
}

// refusal returns the text of an error about an option that the profile sets.
// Agent is the display name of the agent; if it is empty, the agent takes the
// option, but not now.
func (p *Profile) refusal(agent, option string, e *runnel.Error) string {
	name := "the profile " + strconv.Quote(p.Name)
	switch {
	case e.Code != runnel.UnsupportedCapability, agent == "":
		return name + ": " + e.Message
	case keys[option] == textKey:
		return name + " has a text, but " + agent + " does not support an additional system prompt; choose another agent, or remove the text below the settings"
	}
	return name + " sets " + keys[option] + ", which " + agent + " does not support; choose another agent, or remove the setting from the profile"
}

// Blame adds the source to the error of an agent that rejected an option, if s
// has the option. It returns any other error unchanged.
func (s Source) Blame(err error) error { return Sources{s}.Blame(err) }

// Sources are the sources of a session's options, strongest first. The agent of
// the session takes all options that they have.
type Sources []Source

// Blame adds the source of an option to the error of an agent that rejected the
// option when it started. It returns any other error unchanged, also one about
// an option of the session itself, which has no name, and one about an option
// to which several sources contribute.
func (list Sources) Blame(err error) error {
	e, ok := errors.AsType[*runnel.Error](err)
	if !ok || e.Code != runnel.InvalidRequest && e.Code != runnel.UnsupportedCapability {
		return err
	}
	name, _, _ := strings.Cut(e.Message, ": ")
	base, id, _ := strings.Cut(name, ".")
	i := slices.IndexFunc(options, func(o option) bool { return o.name == base })
	if i < 0 {
		return err
	}
	var having Sources
	for _, s := range list {
		if options[i].given(&s.Options) && (base != "config" || id == "" || s.Options.Config[id] != "") {
			having = append(having, s)
		}
	}
	contributes := base == "systemPromptAppend" || base == "disallowedTools" || base == "config" && id == ""
	if len(having) == 0 || contributes && len(having) > 1 {
		return err
	}
	return having[0].wrong(base, err)
}
