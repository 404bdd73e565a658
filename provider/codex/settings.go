package codex

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// settings are the settings of a conversation as last reported by the agent.
type settings struct {
	Model    string       `json:",omitzero"`
	Effort   string       `json:",omitzero"`
	Approval string       `json:",omitzero"` // untrusted, on-request, never, granular
	Sandbox  string       `json:",omitzero"` // read-only, workspace-write, danger-full-access, external
	Plan     bool         `json:",omitzero"` // the agent only plans
	Mode     string       `json:",omitzero"` // the permission mode that these settings amount to
	Asked    string       `json:",omitzero"` // the permission mode that was set last
	Models   []modelEntry `json:",omitzero"`

	modes int // number of requests that set a mode
}

// Ids of the options; the agent uses the same words.
const (
	optionModel    = "model"
	optionEffort   = "effort"
	optionApproval = "approval_policy"
	optionSandbox  = "sandbox"
)

const (
	readOnly   = "read-only"
	workspace  = "workspace-write"
	fullAccess = "danger-full-access"
	onRequest  = "on-request"
	never      = "never"
	untrusted  = "untrusted"
)

// mode holds the agent's settings for one permission mode.
type mode struct {
	approval, sandbox string
	plan              bool
}

// modeOf returns the agent's settings for a permission mode. Codex relies on
// its sandbox: within it, the agent may change the project without asking, and
// it asks for everything else. So "default" and "acceptEdits" have the same
// settings.
func modeOf(m runnel.PermissionMode, allowBypass bool) (mode, error) {
	switch m {
	case "", runnel.ModeDefault, runnel.ModeAcceptEdits:
		return mode{onRequest, workspace, false}, nil
	case runnel.ModePlan:
		return mode{onRequest, readOnly, true}, nil
	case runnel.ModeDontAsk:
		return mode{never, workspace, false}, nil
	case runnel.ModeBypass:
		if allowBypass {
			return mode{never, fullAccess, false}, nil
		}
		return mode{}, agentconn.ErrBypass()
	}
	return mode{}, agentconn.NoMode(product.Name, m)
}

// modeLabels describe the modes to users. Within the sandbox, Codex asks
// neither before an edit in the project nor before a command.
var modeLabels = map[string]string{
	string(runnel.ModeDefault):     "Ask only outside the project",
	string(runnel.ModeAcceptEdits): "Ask only outside the project",
	string(runnel.ModeDontAsk):     "Deny outside the project",
}

// permissionMode returns the permission mode that the settings correspond to;
// "" if there is none. Plan mode needs the read-only sandbox; with another one, the
// other settings decide.
func (s *settings) permissionMode() string {
	m, box := mode{s.Approval, s.Sandbox, s.Plan}, runnel.SandboxOff
	if s.Sandbox == external {
		box = runnel.SandboxProject
	}
	if asked, err := modeOf(runnel.PermissionMode(s.Asked), true); err == nil && s.Asked != "" && asked.enclosed(box) == m {
		return s.Asked
	}
	for _, w := range []runnel.PermissionMode{runnel.ModeDefault, runnel.ModePlan, runnel.ModeDontAsk, runnel.ModeBypass} {
		if known, err := modeOf(w, true); err == nil && known.enclosed(box) == m {
			return string(w)
		}
	}
	if !s.Plan {
		return ""
	}
	others := *s // an option was changed alone
	others.Plan = false
	switch {
	case s.Sandbox == readOnly:
		return string(runnel.ModePlan)
	case s.Sandbox == fullAccess:
		return string(runnel.ModeBypass)
	case s.Sandbox == workspace && s.Approval == untrusted:
		return string(runnel.ModeDefault)
	}
	return others.permissionMode()
}

// sandboxTypes maps the agent's names of sandbox policies to the values of the
// option "sandbox".
var sandboxTypes = map[string]string{"readOnly": readOnly, "workspaceWrite": workspace, "dangerFullAccess": fullAccess, "externalSandbox": external}

// policy returns a sandbox policy in the form that a request in a live
// conversation has.
func policy(sandbox string, dirs []string) map[string]any {
	switch sandbox {
	case readOnly:
		return map[string]any{"type": "readOnly", "networkAccess": false}
	case fullAccess:
		return map[string]any{"type": "dangerFullAccess"}
	case external:
		return map[string]any{"type": "externalSandbox", "networkAccess": "enabled"}
	}
	if dirs == nil {
		dirs = []string{}
	}
	return map[string]any{"type": "workspaceWrite", "writableRoots": dirs, "networkAccess": false, "excludeTmpdirEnvVar": false, "excludeSlashTmp": false}
}

func (s *settings) opened(o opened) {
	s.take(o.Model, o.Effort, o.ApprovalPolicy, o.Sandbox)
}

func (s *settings) take(model, effort string, approval json.RawMessage, sandbox sandboxPolicy) {
	s.Model, s.Effort, s.Sandbox = oneLine(model, 200), oneLine(effort, 40), sandboxTypes[sandbox.Type]
	if s.Approval = ""; json.Unmarshal(approval, &s.Approval) != nil {
		s.Approval = "granular"
	}
	s.Mode = s.permissionMode()
}

// requested processes the id of a request that Runnel sends. The request may
// set a mode.
func (s *settings) requested(name string) {
	if rest, ok := strings.CutPrefix(name, modePrefix); ok {
		s.Asked, _, _ = strings.Cut(rest, ":")
	}
}

// update processes the agent's report of its settings. It returns the settings
// that changed, and whether the sandbox changed.
func (s *settings) update(n threadSettings) (u event.SessionUpdated, sandboxChanged bool) {
	before, old := *s, s.options()
	s.Plan = n.Collaboration.Mode == "plan"
	s.take(n.Model, n.Effort, n.ApprovalPolicy, n.Sandbox)
	if s.Model != before.Model {
		u.ModelID = s.Model
	}
	if s.Mode != before.Mode {
		u.PermissionMode = s.Mode
	}
	if now := s.options(); string(translate.Object(old)) != string(translate.Object(now)) {
		u.Config = now
	}
	return u, s.Sandbox != before.Sandbox
}

// offered processes the agent's list of models.
func (s *settings) offered(result json.RawMessage) {
	list := translate.DecodeLenient[struct {
		Data []modelEntry `json:"data"`
	}](result).Data
	s.Models = nil
	for _, e := range list[:min(len(list), 100)] {
		if !e.Hidden && token().MatchString(e.Model) {
			e.Description = oneLine(e.Description, 300)
			e.DisplayName = oneLine(e.DisplayName, 100)
			s.Models = append(s.Models, e)
		}
	}
}

// options returns the options of a conversation with their current values.
func (s *settings) options() []event.ConfigOption {
	choice := func(value, name, about string) event.ConfigChoice {
		return event.ConfigChoice{Value: value, Name: name, Description: about}
	}
	model := event.ConfigOption{ID: optionModel, Name: "Model", Category: "model", Type: event.ConfigSelect, Value: s.Model}
	effort := event.ConfigOption{ID: optionEffort, Name: "Reasoning effort", Category: "effort", Type: event.ConfigSelect, Value: s.Effort}
	for _, e := range s.Models {
		model.Choices = append(model.Choices, choice(e.Model, e.DisplayName, e.Description))
		if e.Model != s.Model {
			continue
		}
		if effort.Value == "" {
			effort.Value = oneLine(e.DefaultEffort, 40)
		}
		for _, f := range e.Efforts[:min(len(e.Efforts), 20)] {
			effort.Choices = append(effort.Choices, choice(oneLine(f.Effort, 40), oneLine(f.Effort, 40), oneLine(f.Description, 300)))
		}
	}
	if !model.Allows(s.Model) && s.Model != "" { // a model that the user configured
		model.Choices = append(model.Choices, choice(s.Model, s.Model, ""))
	}
	out := []event.ConfigOption{model}
	if effort.Value != "" && !effort.Allows(effort.Value) {
		effort.Choices = append(effort.Choices, choice(effort.Value, effort.Value, ""))
	}
	if len(effort.Choices) > 0 {
		out = append(out, effort)
	}
	return append(out, event.ConfigOption{
		ID: optionApproval, Name: "Approval policy", Type: event.ConfigSelect, Value: s.Approval, Description: "When the agent asks before it goes on.",
		Choices: with(s.Approval, []event.ConfigChoice{
			choice("untrusted", "Untrusted", "Asks for all that is not known to be harmless."),
			choice(onRequest, "On request", "Asks for what the sandbox does not allow."),
			choice(never, "Never", "Never asks; what the sandbox does not allow fails."),
		}),
	}, event.ConfigOption{
		ID: optionSandbox, Name: "Sandbox", Type: event.ConfigSelect, Value: s.Sandbox, Description: "What commands may do without asking.",
		Choices: with(s.Sandbox, []event.ConfigChoice{
			choice(readOnly, "Read only", "Commands may read files."),
			choice(workspace, "Workspace", "Commands may change files in the project."),
			choice(fullAccess, "Full access", "Commands may do anything. Dangerous."),
		}),
	})
}

// declared returns the options that every conversation has. The models depend
// on the user's account, so the option "model" has no choices and accepts any
// valid name.
func declared() []event.ConfigOption {
	effort := event.ConfigOption{ID: optionEffort, Type: event.ConfigSelect}
	for _, word := range efforts {
		effort.Choices = append(effort.Choices, event.ConfigChoice{Value: word})
	}
	return append((&settings{Approval: onRequest, Sandbox: workspace}).options(), effort)
}

// with returns choices. It adds value if value is not among them.
func with(value string, choices []event.ConfigChoice) []event.ConfigChoice {
	for _, c := range choices {
		if c.Value == value {
			return choices
		}
	}
	return append(choices, event.ConfigChoice{Value: value, Name: value})
}

// token matches a valid name of a model, an effort or a tool.
var token = agentconn.Token

// check fails with InvalidRequest if a value is neither empty nor a token.
func check(field, value string) error {
	if value == "" {
		return nil
	}
	return agentconn.CheckToken(field, value, token())
}
