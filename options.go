package runnel

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// An OptionTaker is a Provider that declares which options its agent accepts.
// [CheckOptions] rejects all other options before it starts an agent. A
// Provider without this method receives all options, and must itself reject
// options that its agent does not accept.
type OptionTaker interface{ Takes() Takes }

// Takes declares which of the Options an agent accepts. Every agent accepts
// Model and PermissionMode.
type Takes struct {
	Tools              bool
	MaxTurns           bool
	MaxThinkingTokens  bool
	ThinkingDisplay    bool
	AddDirs            bool
	SystemPromptAppend bool
	MCPServers         bool
	Resume             bool
	APIKey             bool // see [KeyHolder]
	Sandbox            bool // the agent can run in a sandbox
	ReportsTokens      bool // the agent reports the tokens of each turn, while it runs or at its end
	ReportsCost        bool // the agent reports the cost of each turn, while it runs or at its end
	Broker             bool // the agent can use a broker for its API key; see [KeysBroker]

	// Modes are the permission modes that the agent has. Default: all.
	Modes []PermissionMode

	// Efforts are the agent's values for ReasoningEffort. If a model accepts
	// only some of them, the provider's Open rejects the others. Default: the
	// agent has no reasoning effort, unless AnyEffort is set.
	Efforts []string

	// AnyEffort is set if the agent lists its reasoning efforts only in a
	// running conversation.
	AnyEffort bool

	// DisallowedTools is set if the agent can leave out the tools of
	// Options.ServerDisallowedTools and Options.DisallowedTools. For other
	// agents Options.ServerDisallowedTools has no effect, and DisallowedTools
	// is rejected.
	DisallowedTools bool

	// SubagentTools are the names of the tools with which the agent starts
	// subagents and sends them further messages.
	SubagentTools []string

	// SubagentKey is the argument in which these tools name the subagent. A
	// call can have other arguments with the name of another subagent, which the
	// agent ignores. Default: any of the usual names.
	SubagentKey string

	// Delegations are the values of Options.Delegation that the agent accepts,
	// in addition to DelegateFreely.
	Delegations []Delegation

	// Config is set if the agent accepts Options.Config.
	Config bool

	// Settings are the settings for Options.Config that every conversation has
	// in every version of the agent. A setting without Choices accepts any
	// value.
	Settings []event.ConfigOption

	fork bool // the provider is a Forker
}

// The bounds of options.
const (
	maxModel   = 128  // bytes of a model's name
	maxAddDirs = 16   // directories
	maxAddDir  = 1024 // bytes of a directory's path
	maxTools   = 100
	maxConfig  = 100 // settings
)

// The suffixes with which the universal API marks the messages for invalid
// values.
const (
	invalidModel   = " (invalid agent_api.config.model.v1)"
	invalidAddDirs = " (invalid agent_api.exec.add_dirs.v1.dirs%s)" // with the index in brackets
)

// word matches the name of a reasoning effort or a tool.
var word = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$`) })

// CheckOptions checks opt before p starts an agent with it. It returns opt with
// white space around the model removed and without duplicate directories. It
// fails with UNSUPPORTED_CAPABILITY if the agent does not accept an option, and
// with INVALID_REQUEST if the value of an option is invalid. It starts no
// agent.
//
// known is the result of the last probe of the agent; nil if there is none.
// Provider.Open rejects values that CheckOptions cannot check, such as a
// reasoning effort that the model does not have.
func CheckOptions(p Provider, opt Options, known *Installation) (Options, error) {
	opt.Model = trimmed(opt.Model)
	if err := checkTaken(p, opt, configOf(known)); err != nil {
		return opt, err
	}
	var err error
	opt.AddDirs, err = existing(opt.AddDirs)
	return opt, err
}

// CheckSettings is [CheckOptions] for a change of settings in a session with
// the options opt.
func CheckSettings(p Provider, opt Options, set Settings, known *Installation) (Settings, error) {
	return checkSettings(p, opt, set, configOf(known))
}

func checkSettings(p Provider, opt Options, set Settings, offered []event.ConfigOption) (Settings, error) {
	set.Model = trimmed(set.Model)
	return set, checkTaken(p, set.Apply(Options{AllowBypass: opt.AllowBypass}), offered)
}

// trimmed returns the name of a model without white space around it. It returns
// a blank name unchanged, because an empty name means the agent's default.
func trimmed(model string) string {
	if name := strings.TrimSpace(model); name != "" {
		return name
	}
	return model
}

func configOf(known *Installation) []event.ConfigOption {
	if known == nil {
		return nil
	}
	return known.Config
}

// An optionCheck contains the rules of one option.
type optionCheck struct {
	name  string // in JSON
	given func(*Options) bool
	taken func(*Takes) bool // nil: every agent takes the option
	valid func(checked) error
}

// checked is the input of the check of an option's value.
type checked struct {
	agent   string // display name
	opt     *Options
	takes   *Takes               // nil: the provider is no OptionTaker
	offered []event.ConfigOption // by the session or the last probe; nil: unknown
}

// optionChecks returns the rules of all options that a client can set, and of
// Resume and Fork, in the order in which they are checked.
func optionChecks() []optionCheck {
	return []optionCheck{
		{"model", func(o *Options) bool { return o.Model != "" }, nil, checkModel},
		{"tools", func(o *Options) bool { return o.Tools != nil }, func(t *Takes) bool { return t.Tools }, checkTools},
		{"maxTurns", func(o *Options) bool { return o.MaxTurns != 0 }, func(t *Takes) bool { return t.MaxTurns },
			func(c checked) error { return checkCount("maxTurns", c.opt.MaxTurns) }},
		{"permissionMode", func(*Options) bool { return true }, nil, checkMode},
		{"reasoningEffort", func(o *Options) bool { return o.ReasoningEffort != "" },
			func(t *Takes) bool { return t.AnyEffort || len(t.Efforts) > 0 }, checkEffort},
		{"config", func(o *Options) bool { return len(o.Config) > 0 }, func(t *Takes) bool { return t.Config }, checkConfig},
		{"maxThinkingTokens", func(o *Options) bool { return o.MaxThinkingTokens != 0 }, func(t *Takes) bool { return t.MaxThinkingTokens },
			func(c checked) error { return checkCount("maxThinkingTokens", c.opt.MaxThinkingTokens) }},
		{"disallowedTools", func(o *Options) bool { return len(o.DisallowedTools) > 0 }, func(t *Takes) bool { return t.DisallowedTools },
			func(c checked) error { return checkToolNames("disallowedTools", c.opt.DisallowedTools) }},
		{"thinkingDisplay", func(o *Options) bool { return o.ThinkingDisplay != "" }, func(t *Takes) bool { return t.ThinkingDisplay }, checkThinkingDisplay},
		{"addDirs", func(o *Options) bool { return len(o.AddDirs) > 0 }, func(t *Takes) bool { return t.AddDirs }, checkDirs},
		{"systemPromptAppend", func(o *Options) bool { return o.SystemPromptAppend != "" }, func(t *Takes) bool { return t.SystemPromptAppend },
			func(c checked) error { return checkText("systemPromptAppend", c.opt.SystemPromptAppend) }},
		{"mcpServers", func(o *Options) bool { return len(o.MCPServers) > 0 }, func(t *Takes) bool { return t.MCPServers }, checkServers},
		{"budget", func(o *Options) bool { return !o.Budget.IsZero() }, nil, checkBudget("budget", func(o *Options) Budget { return o.Budget })},
		{"turnBudget", func(o *Options) bool { return !o.TurnBudget.IsZero() }, nil, checkBudget("turnBudget", func(o *Options) Budget { return o.TurnBudget })},
		{"auth", func(o *Options) bool { return o.Auth != "" }, nil, checkAuth},
		{"keys", func(o *Options) bool { return o.Keys != "" }, nil, checkKeys},
		{"sandbox", func(o *Options) bool { return o.Sandbox != "" }, nil, checkSandbox},
		{"egress", func(o *Options) bool { return !o.Egress.IsZero() }, nil, checkEgress},
		{"resume", func(o *Options) bool { return o.Resume != "" }, func(t *Takes) bool { return t.Resume }, nil},
		{"fork", func(o *Options) bool { return o.Fork }, func(t *Takes) bool { return t.fork }, checkFork},
		{"projectDir", func(o *Options) bool { return o.Dir != "" }, nil, checkDir},
	}
}

// checkTaken is CheckOptions without access to the file system. It reports an
// option that the agent does not accept before any invalid value.
func checkTaken(p Provider, opt Options, offered []event.ConfigOption) error {
	c := checked{agent: DisplayName(p), opt: &opt, offered: offered}
	if t, ok := p.(OptionTaker); ok {
		takes := t.Takes()
		_, takes.fork = p.(Forker)
		c.takes = &takes
	}
	given := slices.DeleteFunc(optionChecks(), func(o optionCheck) bool { return !o.given(&opt) })
	for _, o := range given {
		if c.takes != nil && o.taken != nil && !o.taken(c.takes) {
			return lacks(c.agent, o.name)
		}
	}
	for _, o := range given {
		if o.valid == nil {
			continue
		}
		if err := o.valid(c); err != nil {
			return err
		}
	}
	return nil
}

// capabilities maps options to the capabilities that stand for them.
var capabilities = map[string]Capability{"addDirs": CapAddDirs, "resume": CapSessionResume, "fork": CapSessionFork}

// lacks returns the error for an option that an agent does not accept.
func lacks(agent, option string) error {
	details := map[string]any{"option": option}
	if c, ok := capabilities[option]; ok {
		details["capability"] = c
	}
	return &Error{Code: UnsupportedCapability, Message: option + ": " + agent + " does not support this option; leave it out", Details: details}
}

// DisplayName returns the name of a provider's agent for people, such as Claude
// Code. If the provider has none, it returns the words of the provider's name
// with capitals.
func DisplayName(p Provider) string {
	if d, ok := p.(interface{ DisplayName() string }); ok {
		return d.DisplayName()
	}
	words := strings.Split(p.Name(), "-")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, " ")
}

func checkModel(c checked) error {
	switch model := c.opt.Model; {
	case strings.TrimSpace(model) == "":
		return Fail(InvalidRequest, "model: is blank; leave it out for the agent's default"+invalidModel)
	case len(model) > maxModel:
		return Fail(InvalidRequest, fmt.Sprintf("model: has %d bytes; at most %d are allowed", len(model), maxModel)+invalidModel)
	case !isText(model):
		return Fail(InvalidRequest, notText("model")+invalidModel)
	}
	return nil
}

// checkText rejects text with characters that agents do not accept.
func checkText(field, s string) error {
	if !isText(s) {
		return Fail(InvalidRequest, notText(field))
	}
	return nil
}

func isText(s string) bool { return !strings.ContainsRune(s, 0) && strings.ToValidUTF8(s, "") == s }

func notText(field string) string {
	return field + ": contains a NUL character or is not valid UTF-8; agents accept neither"
}

func checkTools(c checked) error {
	if len(c.opt.Tools) == 0 { // ambiguous: no tools, or all tools
		return Fail(InvalidRequest, "tools: is an empty list; name tools, or leave it out for the agent's own")
	}
	return checkToolNames("tools", c.opt.Tools)
}

func checkToolNames(field string, tools []string) error {
	if n := len(tools); n > maxTools {
		return Fail(InvalidRequest, fmt.Sprintf("%s: %d are too many; at most %d are allowed", field, n, maxTools))
	}
	for i, tool := range tools {
		if !word().MatchString(tool) {
			return Fail(InvalidRequest, fmt.Sprintf("%s.%d: %s is not the name of a tool; it has letters, digits and . _ : / @ -", field, i, shown(tool)))
		}
	}
	return nil
}

func checkThinkingDisplay(c checked) error {
	if has := []ThinkingDisplay{ThinkingSummarized, ThinkingOmitted}; !slices.Contains(has, c.opt.ThinkingDisplay) {
		return Fail(InvalidRequest, "thinkingDisplay: unknown value "+shown(string(c.opt.ThinkingDisplay))+"; want "+oneOf(has))
	}
	return nil
}

func checkCount(field string, n int) error {
	if n < 0 {
		return Fail(InvalidRequest, fmt.Sprintf("%s: %d is negative; give 1 or more, or leave it out", field, n))
	}
	return nil
}

// modes are all permission modes.
var modes = []PermissionMode{ModeDefault, ModeAcceptEdits, ModePlan, ModeDontAsk, ModeBypass}

func checkMode(c checked) error {
	mode, has := c.opt.PermissionMode, modes
	if mode == "" {
		return nil
	}
	if !slices.Contains(modes, mode) {
		return Fail(InvalidRequest, "permissionMode: unknown value "+shown(string(mode))+"; want "+oneOf(modes))
	}
	if mode == ModeBypass && !c.opt.AllowBypass {
		return Fail(InvalidRequest, "permissionMode: bypass runs every tool without asking, which is not allowed here; a server allows it with --allow-bypass")
	}
	if c.takes != nil && len(c.takes.Modes) > 0 {
		has = c.takes.Modes
	}
	if !slices.Contains(has, mode) {
		return Fail(InvalidRequest, "permissionMode: "+c.agent+" has no mode "+shown(string(mode))+"; want "+oneOf(has))
	}
	return nil
}

func checkEffort(c checked) error {
	effort := c.opt.ReasoningEffort
	switch {
	case c.takes != nil && len(c.takes.Efforts) > 0 && !slices.Contains(c.takes.Efforts, effort):
		return Fail(InvalidRequest, "reasoningEffort: unknown value "+shown(effort)+"; want "+oneOf(c.takes.Efforts))
	case !word().MatchString(effort):
		return Fail(InvalidRequest, "reasoningEffort: "+shown(effort)+" is not the name of an effort; it has letters, digits and . _ : / @ -")
	}
	return nil
}

func checkConfig(c checked) error {
	if n := len(c.opt.Config); n > maxConfig {
		return Fail(InvalidRequest, fmt.Sprintf("config: %d settings are too many; at most %d are allowed", n, maxConfig))
	}
	for _, id := range slices.Sorted(maps.Keys(c.opt.Config)) {
		if err := c.setting(id, c.opt.Config[id]); err != nil {
			return err
		}
	}
	return nil
}

// setting checks one of the agent's own settings. An id is unknown if neither
// Takes.Settings nor c.offered has it. If c.offered is nil, only the agent
// itself can reject the id. Only the agent can also reject a value that is not
// among the choices of an offered setting, because these choices may depend on
// the model.
func (c checked) setting(id, value string) error {
	if id == "" || len(id) > 200 || len(value) > 1000 {
		return Fail(InvalidRequest, "config: an id has 1 to 200 bytes, a value up to 1000")
	}
	var declared []event.ConfigOption
	if c.takes != nil {
		declared = c.takes.Settings
	}
	o := find(declared, id)
	judged := o != nil && (o.Type == event.ConfigBoolean || len(o.Choices) > 0)
	if o == nil {
		o = offer(c.offered, id)
		judged = o != nil && o.Type == event.ConfigBoolean
	}
	switch {
	case o == nil && c.offered != nil:
		return NoSetting(c.agent, id, slices.Concat(declared, c.offered))
	case judged && !o.Allows(value):
		return NoValue("config."+id, value, *o)
	}
	return nil
}

// NoSetting returns the error for an unknown setting in Options.Config. has are
// the settings of the agent.
func NoSetting(agent, id string, has []event.ConfigOption) error {
	names := "none"
	if len(has) > 0 {
		names = oneOf(ids(has))
	}
	return Fail(InvalidRequest, "config: "+agent+" has no setting "+shown(id)+"; it has "+names)
}

// NoValue returns the error for an invalid value of the setting o. field is the
// name of the option in JSON, or "config." with the id of the setting.
func NoValue(field, value string, o event.ConfigOption) error {
	want := "leave it out"
	if has := values(&o); len(has) > 0 {
		want = "want " + oneOf(has)
	}
	return Fail(InvalidRequest, text.OneLine(field, 100)+": unknown value "+shown(value)+"; "+want)
}

// find returns the setting with an id; nil if there is none.
func find(list []event.ConfigOption, id string) *event.ConfigOption {
	i := slices.IndexFunc(list, func(o event.ConfigOption) bool { return o.ID == id })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// offer returns the setting with an id or, because agents also accept the
// category of a setting in place of its id, the first setting of that category.
// An example is the category effort for the id reasoning_effort.
func offer(list []event.ConfigOption, id string) *event.ConfigOption {
	if o := find(list, id); o != nil {
		return o
	}
	i := slices.IndexFunc(list, func(o event.ConfigOption) bool { return id != "" && o.Category == id })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// ids returns the ids of settings without duplicates.
func ids(list []event.ConfigOption) (out []string) {
	for _, o := range list {
		if !slices.Contains(out, o.ID) {
			out = append(out, o.ID)
		}
	}
	return out
}

// values returns the values that a setting accepts; nil if it accepts any.
func values(o *event.ConfigOption) (out []string) {
	if o.Type == event.ConfigBoolean {
		return []string{"true", "false"}
	}
	for _, c := range o.Choices {
		out = append(out, c.Value)
	}
	return out
}

func checkDirs(c checked) error {
	if n := len(c.opt.AddDirs); n > maxAddDirs {
		return Fail(InvalidRequest, fmt.Sprintf("addDirs: %d directories are too many; at most %d are allowed"+invalidAddDirs, n, maxAddDirs, ""))
	}
	for i, dir := range c.opt.AddDirs {
		field := fmt.Sprintf("addDirs.%d", i)
		switch {
		case len(dir) > maxAddDir:
			return invalidDir(i, fmt.Sprintf("%s: has %d bytes; at most %d are allowed", field, len(dir), maxAddDir))
		case !filepath.IsAbs(dir):
			return invalidDir(i, field+": "+shown(dir)+" is not an absolute path; ~ is not expanded")
		case !isText(dir):
			return invalidDir(i, notText(field))
		}
	}
	return nil
}

func invalidDir(i int, why string, cause ...error) error {
	return Fail(InvalidRequest, why+fmt.Sprintf(invalidAddDirs, fmt.Sprintf("[%d]", i)), cause...)
}

// existing returns the cleaned paths without duplicates. It fails if one of
// them is not a directory.
func existing(dirs []string) ([]string, error) {
	var out []string
	for i, dir := range dirs {
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return dirs, invalidDir(i, fmt.Sprintf("addDirs.%d: %s is not a directory that can be reached", i, shown(dir)), err)
		}
		if dir = filepath.Clean(dir); !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out, nil
}

func checkServers(c checked) error {
	var servers map[string]map[string]json.RawMessage
	if err := json.Unmarshal(c.opt.MCPServers, &servers); err != nil || servers == nil {
		return Fail(InvalidRequest, "mcpServers: must be a JSON object of servers by name", err)
	}
	return nil
}

func checkFork(c checked) error {
	if c.opt.Resume == "" {
		return Fail(InvalidRequest, "fork: needs resume, the conversation to copy")
	}
	return nil
}

func checkDir(c checked) error {
	if !filepath.IsAbs(c.opt.Dir) {
		return Fail(InvalidRequest, "projectDir: "+shown(c.opt.Dir)+" is not an absolute path")
	}
	return nil
}

// oneOf lists values for an error message, at most 20.
func oneOf[S ~string](list []S) string {
	words := make([]string, 0, len(list))
	for _, s := range list[:min(len(list), 20)] {
		words = append(words, string(s))
	}
	if len(list) > len(words) {
		words = append(words, "…")
	}
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " or " + words[last]
	}
	return strings.Join(words, "")
}

// shown quotes a value of a user for an error message, at most 64 bytes of it.
func shown(s string) string {
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
