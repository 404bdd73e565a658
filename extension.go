package runnel

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/strictjson"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/universal"
)

// Extensions are options of a run in the form of the universal API: JSON values
// by key. [ExtensionKeys] returns the keys that an agent accepts.
//
//	agent_api.config.model.v1            "MODEL"
//	agent_api.exec.add_dirs.v1           {"dirs": ["DIR", …]}, relative to Options.Dir
//	agent_api.exec.non_interactive       true denies what would be asked; false needs Options.Approve
//	agent_api.exec.external_sandbox.v1   true bypasses permissions; needs Options.AllowBypass
//	agent_api.session.resume.v1          {"selector": "last"} or {"selector": "id", "id": "ID"}
//	agent_api.session.fork.v1            the same; the run begins with a copy
//	agent_api.tools.results.v1           true gives universal events arguments and outputs
//	backend.KIND.config.ID               "VALUE" or true, a setting of the agent's own
//
// [Start] fails with UNSUPPORTED_CAPABILITY if the agent does not accept a key.
// It fails with INVALID_REQUEST for an invalid value, for an option that is set
// both as a key and in Options, and for keys that contradict each other. After
// such an error no agent was started.
type Extensions map[string]json.RawMessage

// Results reports whether universal events are to have the arguments and
// outputs of tools.
func (x Extensions) Results() bool {
	on, err := boolean(CapToolsResults, x[string(CapToolsResults)])
	return on && err == nil
}

// extensionKey matches the keys of Extensions.
var extensionKey = regexp.MustCompile(`^[a-z][a-z0-9_.-]*$`)

// valued are the capabilities that are extension keys as well.
var valued = []Capability{
	CapConfigModel, CapAddDirs, CapNonInteractive, CapExternalSandbox, CapSessionResume, CapSessionFork, CapToolsResults,
}

// ExtensionKeys returns the keys of [Extensions] that p's agent has, sorted:
// its capabilities that take a value, and its own settings.
func ExtensionKeys(p Provider) []Capability {
	keys := slices.DeleteFunc(Capabilities(p), func(c Capability) bool { return !slices.Contains(valued, c) })
	for key := range backendKeys(p) {
		keys = append(keys, Capability(key))
	}
	slices.Sort(keys)
	return keys
}

// backendKeys returns the settings of p's agent that every conversation has, by
// extension key.
func backendKeys(p Provider) map[string]event.ConfigOption {
	t, ok := p.(OptionTaker)
	if !ok {
		return nil
	}
	keys := make(map[string]event.ConfigOption)
	for _, o := range t.Takes().Settings {
		if key := "backend." + AgentKind(p) + ".config." + o.ID; extensionKey.MatchString(key) {
			keys[key] = o
		}
	}
	return keys
}

// extended is the result of applying the extensions of a run to its options.
type extended struct {
	opt        Options
	own        map[string]event.ConfigOption // the agent's keys
	results    bool                          // universal events have arguments and outputs
	unattended *bool                         // as asked for
	sandboxed  bool
	selected   bool // a key selects the conversation to resume or copy
}

// extend returns opt with its extensions applied to the other options.
func extend(p Provider, opt Options) (extended, error) {
	x := extended{opt: opt, own: backendKeys(p)}
	x.opt.Extensions = nil
	keys := slices.Sorted(maps.Keys(opt.Extensions))
	for _, key := range keys {
		if err := hasKey(p, opt, key); err != nil {
			return x, err
		}
	}
	for _, key := range keys {
		if err := x.apply(Capability(key), opt.Extensions[key]); err != nil {
			return x, err
		}
	}
	return x, x.contradiction(opt)
}

// hasKey fails with UNSUPPORTED_CAPABILITY if an agent does not have an
// extension key, or if the options do not allow the key.
func hasKey(p Provider, opt Options, key string) error {
	have := ExtensionKeys(p)
	why := ""
	switch {
	case !extensionKey.MatchString(key) || !slices.Contains(have, Capability(key)):
		why = DisplayName(p) + " has no extension key " + shown(key) + "; it has " + oneOf(have)
	case Capability(key) == CapExternalSandbox && !opt.AllowBypass:
		why = key + ": bypassing permissions is not allowed here; Options.AllowBypass allows it"
	default:
		return nil
	}
	return &Error{Code: UnsupportedCapability, Message: why, Details: map[string]any{"capability": text.OneLine(key, maxModel), "capabilities": have}}
}

// apply applies one extension, the value of key, to the options.
func (x *extended) apply(key Capability, value json.RawMessage) (err error) {
	switch key {
	case CapConfigModel:
		return x.model(value)
	case CapAddDirs:
		return x.addDirs(value)
	case CapSessionResume, CapSessionFork:
		return x.conversation(key, value)
	case CapNonInteractive:
		unattended, err := boolean(key, value)
		x.unattended = &unattended
		return err
	case CapExternalSandbox:
		x.sandboxed, err = boolean(key, value)
		return err
	case CapToolsResults:
		x.results, err = boolean(key, value)
		return err
	}
	return x.setting(key, value)
}

func (x *extended) model(value json.RawMessage) error {
	if x.opt.Model != "" {
		return twice(CapConfigModel, "Model")
	}
	var model string
	if !decodes(value, &model) {
		return pinned(invalidModelKey, "want a string")
	}
	model = strings.TrimSpace(model)
	if err := checkModel(checked{opt: &Options{Model: model}}); err != nil {
		return pinned(invalidModelKey, Safe(err).Message)
	}
	x.opt.Model = model
	return nil
}

// The messages for invalid values of the two keys that programs compare.
const (
	invalidModelKey   = "invalid agent_api.config.model.v1"
	invalidAddDirsKey = "invalid agent_api.exec.add_dirs.v1"
)

// pinned returns the error for an invalid value whose message programs compare.
// The reason is among the details.
func pinned(message, reason string) error {
	return &Error{Code: InvalidRequest, Message: message, Details: map[string]any{"reason": reason}}
}

func (x *extended) addDirs(value json.RawMessage) error {
	if len(x.opt.AddDirs) > 0 {
		return twice(CapAddDirs, "AddDirs")
	}
	var v struct {
		Dirs json.RawMessage `json:"dirs"`
	}
	if !decodes(value, &v) {
		return pinned(invalidAddDirsKey, `want an object with the one key "dirs"`)
	}
	var dirs []json.RawMessage
	if !decodes(v.Dirs, &dirs) || len(dirs) < 1 || len(dirs) > maxAddDirs {
		return pinned(invalidAddDirsKey+".dirs", fmt.Sprintf("want a list of 1 to %d directories", maxAddDirs))
	}
	base, err := filepath.Abs(x.opt.Dir)
	if err != nil {
		return Fail(WorkingRootInaccessible, "the current directory is not accessible", err)
	}
	for i, raw := range dirs {
		dir, reason := addDir(base, raw)
		if reason != "" {
			return pinned(fmt.Sprintf("%s.dirs[%d]", invalidAddDirsKey, i), reason)
		}
		if !slices.Contains(x.opt.AddDirs, dir) {
			x.opt.AddDirs = append(x.opt.AddDirs, dir)
		}
	}
	return nil
}

// addDir returns the directory in raw, an element of the value of
// agent_api.exec.add_dirs.v1, as an absolute path. If raw is invalid, addDir
// returns the reason instead.
func addDir(base string, raw json.RawMessage) (dir, reason string) {
	if !decodes(raw, &dir) {
		return "", "want a string"
	}
	switch dir = strings.TrimSpace(dir); {
	case dir == "":
		return "", "is blank"
	case len(dir) > maxAddDir:
		return "", fmt.Sprintf("has %d bytes; at most %d are allowed", len(dir), maxAddDir)
	case !filepath.IsAbs(dir):
		dir = filepath.Join(base, dir) // ~ is the name of a file like any other
	}
	opt := Options{AddDirs: []string{dir}}
	err := checkDirs(checked{opt: &opt})
	if err == nil {
		opt.AddDirs, err = existing(opt.AddDirs)
	}
	if err != nil {
		return "", Safe(err).Message
	}
	return opt.AddDirs[0], ""
}

// conversation applies the selector of a conversation to resume or to copy.
func (x *extended) conversation(key Capability, value json.RawMessage) error {
	if x.opt.Resume != "" { // keys are applied in order: fork before resume
		if x.opt.Fork && key == CapSessionResume {
			return invalid(key, "excludes "+string(CapSessionFork)+"; give one of them")
		}
		return twice(key, "Resume")
	}
	var v struct {
		Selector string  `json:"selector"`
		ID       *string `json:"id"`
	}
	if !decodes(value, &v) {
		return invalid(key, `want {"selector": "last"} or {"selector": "id", "id": "ID"}`)
	}
	switch {
	case v.Selector == "last" && v.ID == nil:
		x.opt.Resume = ResumeLast
	case v.Selector == "last":
		return invalid(key, `the selector "last" takes no id`)
	case v.Selector != "id":
		return invalid(key, "unknown selector "+shown(v.Selector)+`; want "last" or "id"`)
	case v.ID == nil || strings.TrimSpace(*v.ID) == "":
		return invalid(key, `the selector "id" needs an id`)
	case len(*v.ID) > event.MaxAgentSessionID:
		return invalid(key, fmt.Sprintf("the id has %d bytes; at most %d are allowed", len(*v.ID), event.MaxAgentSessionID))
	case strings.TrimSpace(*v.ID) == ResumeLast: // Options would take it for the selector
		return Fail(SessionNotFound, universal.SessionNotFound+": no agent gives a conversation the id "+ResumeLast)
	default:
		x.opt.Resume = strings.TrimSpace(*v.ID)
	}
	x.opt.Fork, x.selected = key == CapSessionFork, true
	return nil
}

// setting applies a setting of the agent's own.
func (x *extended) setting(key Capability, value json.RawMessage) error {
	o := x.own[string(key)]
	var s string
	var b bool
	switch {
	case decodes(value, &s):
	case o.Type == event.ConfigBoolean && decodes(value, &b):
		s = fmt.Sprint(b)
	default:
		return invalid(key, "want a string, or true or false for a switch")
	}
	if _, given := x.opt.Config[o.ID]; given {
		return twice(key, "Config")
	}
	if o.Type == event.ConfigBoolean || len(o.Choices) > 0 {
		if !o.Allows(s) {
			return NoValue(string(key), s, o)
		}
	}
	x.opt.Config = merged(x.opt.Config, Values{o.ID: s})
	return nil
}

// contradiction fails if the options contradict each other. Otherwise it sets
// the permission mode if the agent runs in an external sandbox.
func (x *extended) contradiction(asked Options) error {
	switch {
	case x.unattended != nil && *x.unattended && x.opt.Approve != nil:
		return invalid(CapNonInteractive, "true contradicts Options.Approve, which answers questions; leave one of them out")
	case x.unattended != nil && !*x.unattended && x.sandboxed:
		return invalid(CapExternalSandbox, "contradicts "+string(CapNonInteractive)+" false: nothing is asked without permissions")
	case x.unattended != nil && !*x.unattended && x.opt.Approve == nil:
		return invalid(CapNonInteractive, "false needs Options.Approve, which answers questions")
	case !x.sandboxed:
		return nil
	case x.opt.PermissionMode != "" && x.opt.PermissionMode != ModeBypass:
		return invalid(CapExternalSandbox, "contradicts the permission mode "+shown(string(x.opt.PermissionMode)))
	}
	for _, key := range slices.Sorted(maps.Keys(asked.Extensions)) {
		if o, ok := x.own[key]; ok && o.Category != "model" && o.Category != "effort" {
			return invalid(CapExternalSandbox, "contradicts "+key+", which may say what the agent asks")
		}
	}
	x.opt.PermissionMode = ModeBypass
	return nil
}

// warnings returns the notices to log at the beginning of the run.
func (x *extended) warnings() []event.Notice {
	if !x.sandboxed {
		return nil
	}
	return []event.Notice{{Level: event.LevelWarning, Code: universal.ExternalSandbox, Message: universal.ExternalSandboxWarning}}
}

// decodes decodes value into v. It returns false if value is null, or has keys
// that v does not have.
func decodes(value json.RawMessage, v any) bool {
	return len(value) > 0 && string(value) != "null" && strictjson.Decode(value, v) == nil
}

func boolean(key Capability, value json.RawMessage) (b bool, err error) {
	if !decodes(value, &b) {
		return false, invalid(key, "want true or false")
	}
	return b, nil
}

func invalid(key Capability, why string) error {
	return &Error{Code: InvalidRequest, Message: string(key) + ": " + why, Details: map[string]any{"capability": key}}
}

// pinnedError returns err with the message that programs compare, if it has
// one.
func pinnedError(err error) error {
	if err == nil {
		return nil
	}
	e := Safe(err)
	message := universal.Pinned(e.Message)
	if message == e.Message {
		return err
	}
	return &Error{Code: e.Code, Message: message, Details: e.Details, Err: e}
}

func twice(key Capability, field string) error {
	return invalid(key, "Options."+field+" is given, too; leave one of them out")
}
