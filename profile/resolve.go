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

// From says which source the value of an option comes from.
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

// A Source gives options.
type Source struct {
	From    From
	Name    string         // of the file or the variable, for errors. Default: errors name the option alone
	Agent   string         // the name of the provider that it counts for. Default: it counts for all
	Options runnel.Options // those that have a name in JSON
	Lines   map[string]int // of the file, by option. Default: not known

	profile *Profile // that the source is; nil for all other sources
	agent   string   // the display name of the agent that the options are for
}

// A ResolvedOption is what an option was resolved to.
type ResolvedOption struct {
	Value any    `json:"value,omitempty" doc:"absent if only the agent knows it; of mcpServers the names, of systemPromptAppend the beginning; tools: default are the agent's own"`
	From  From   `json:"from" doc:"the strongest source that has the option"`
	Also  []From `json:"also,omitempty" doc:"further sources that are part of the value"`
}

// Resolved has what options were resolved to, by their names in JSON. A setting
// of the agent's own is config. with its id. Of the options that no source has
// it holds model, tools and permissionMode only.
type Resolved map[string]ResolvedOption

// The ends of the chains that Resolved always shows. The agent has a model of
// its own, which only it knows, and tools of its own: that preset is called
// default. Agents are always started in the mode default if nothing says
// otherwise.
var ends = Resolved{
	"model":          {From: FromAgent},
	"tools":          {Value: "default", From: FromAgent},
	"permissionMode": {Value: string(runnel.ModeDefault), From: FromAgent},
}

// Resolve returns the options with which an agent starts, and where each of
// them is from. Sources are in order, strongest first: for each option the
// first one that has it counts. Settings of the agent's own are options of
// their own here. These accumulate: systemPromptAppend comes behind the text of
// a profile, and no source allows what another one has in disallowedTools.
//
// Fields without a name in JSON are those of the first source. Resolve is pure,
// and judges nothing; see [Source.Checked].
func Resolve(sources ...Source) (runnel.Options, Resolved) {
	out := sources[0].Options
	by := maps.Clone(ends)
	for _, o := range options {
		o.resolve(sources, &out, by)
	}
	showDisallowed(sources, by)
	return out, by
}

// showDisallowed adds the tools that a profile disallows to what by shows of
// disallowedTools. They are not part of the resolved option, which only some
// agents take: whatever the agent, its calls of these tools are denied.
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

// option is a field of runnel.Options that has a name in JSON.
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

// in returns the option's field in opt.
func (o option) in(opt *runnel.Options) reflect.Value {
	return reflect.ValueOf(opt).Elem().Field(o.index)
}

// given reports whether opt has the option.
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

// appended returns the sources of a text that is added to the system prompt:
// the profile, then the strongest of the others.
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

// resolveConfig resolves each of the agent's own settings.
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

// maxShown bounds the text that Resolved shows of systemPromptAppend, in bytes.
const maxShown = 200

// shown returns the value of the option for readers. The definitions of MCP
// servers hold credentials.
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

// serverNames returns the names of the servers that a client defined.
func serverNames(servers json.RawMessage) []string {
	var byName map[string]json.RawMessage
	_ = json.Unmarshal(servers, &byName) // checked: it is an object
	return slices.Sorted(maps.Keys(byName))
}

// With returns r with settings of another source in it.
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

// union returns what is in any of the lists, each once.
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

// Without returns opt without those of the options in names that have the same
// value in other.
func Without(opt runnel.Options, names []string, other runnel.Options) runnel.Options {
	for _, o := range options {
		if slices.Contains(names, o.name) && reflect.DeepEqual(o.in(&opt).Interface(), o.in(&other).Interface()) {
			o.in(&opt).SetZero()
		}
	}
	return opt
}

// Checked returns s as check returns its options, which it is given one by one.
// The error for an option says which source it is from, and in which line.
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

// wrong completes the error about an option.
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

// keys maps the options that a profile has to their keys in its file.
var keys = map[string]string{"model": "model", "tools": "tools", "maxTurns": "max_turns", "systemPromptAppend": textKey}

// Of returns the source that a profile is.
func Of(p Profile) Source {
	lines := make(map[string]int)
	for option, key := range keys {
		lines[option] = p.lines[key]
	}
	return Source{From: FromProfile, Name: p.Path, Lines: lines, profile: &p, Options: runnel.Options{
		Model: p.Model, Tools: p.Tools, MaxTurns: p.MaxTurns, SystemPromptAppend: p.Text,
	}}
}

// refusal returns the words of an error about an option that is from the
// profile. agent is the display name of the agent.
func (p *Profile) refusal(agent, option string, e *runnel.Error) string {
	name := "the profile " + strconv.Quote(p.Name)
	switch {
	case e.Code != runnel.UnsupportedCapability:
		return name + ": " + e.Message
	case keys[option] == textKey:
		return name + " has a text, but " + agent + " takes no system prompt text; choose another agent, or remove the text below the settings"
	}
	return name + " sets " + keys[option] + ", which " + agent + " does not take; choose another agent, or remove the setting from the profile"
}

// Blame names the profile in the error of an agent that did not start because of
// an option that is from the profile. by says which options those are. Blame
// returns any other error unchanged; p may be nil.
func (p *Profile) Blame(err error, by Resolved) error {
	e, ok := errors.AsType[*runnel.Error](err)
	if !ok || p == nil {
		return err
	}
	for option := range keys {
		if by[option].From == FromProfile && strings.HasPrefix(e.Message, option+": ") {
			return Of(*p).wrong(option, err)
		}
	}
	return err
}
