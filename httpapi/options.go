package httpapi

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
)

// options are what a client may say of how an agent runs.
type options struct {
	runnel.Options
	persona  string // a profile
	warnings []string
}

// profileOptions are those of the contract that a profile gives a meaning.
type profileOptions struct {
	Persona            string          `json:"persona,omitempty"`
	Mode               string          `json:"mode,omitempty"`
	SubagentGovernance json.RawMessage `json:"subagentGovernance,omitempty"`
}

// callersOptions reads the options in r. Those that answer in advance what an
// agent would ask, or have it run a command that nobody is asked about, are for
// callers who may answer.
func callersOptions(r *http.Request, data json.RawMessage) (options, error) {
	opt, err := decodeOptions(data)
	if err == nil && len(opt.AddDirs) > 0 && caller(r.Context()).Project != "" {
		return options{}, runnel.Fail(runnel.Forbidden, "addDirs: this credential is for one project, and its agents work in no other directory")
	}
	if err != nil || caller(r.Context()).Has(auth.Approve) {
		return opt, err
	}
	what := ""
	switch {
	case len(opt.MCPServers) > 0:
		what = "mcpServers"
	case len(opt.Config) > 0: // any of it may be about what the agent does without asking
		what = "config"
	case opt.PermissionMode == runnel.ModeAcceptEdits, opt.PermissionMode == runnel.ModeBypass:
		what = "permissionMode " + quoted(string(opt.PermissionMode))
	default:
		return opt, nil
	}
	return options{}, runnel.Fail(runnel.Forbidden, what+": this credential lacks the scope \"approve\", which answering in advance needs")
}

// decodeOptions reads the options of a client. Unlike in other bodies a field
// that we do not know is passed over, with a warning in the answer; one that is
// almost ours is refused, as everywhere.
func decodeOptions(data json.RawMessage) (options, error) {
	var out options
	if len(data) == 0 || string(data) == "null" {
		return out, nil
	}
	if err := checkJSON(data); err != nil {
		return out, invalid("opts: " + err.Error())
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return out, invalid("opts: must be an object")
	}
	ours, profile := jsonFields(reflect.TypeFor[runnel.Options]()), jsonFields(reflect.TypeFor[profileOptions]())
	profiled := make(map[string]json.RawMessage)
	for key, value := range members {
		if _, ok := ours[key]; ok {
			continue
		}
		delete(members, key)
		if _, ok := profile[key]; ok {
			profiled[key] = value
			continue
		}
		if almost(key, ours) || almost(key, profile) {
			return out, invalid("opts." + unknown(key, ours))
		}
		out.warnings = append(out.warnings, "opts."+quoted(key)+": unknown, ignored")
	}
	slices.Sort(out.warnings)
	var p profileOptions
	if err := errors.Join(fit("opts", members, &out.Options), fit("opts", profiled, &p)); err != nil {
		return out, err
	}
	out.persona = p.Persona
	if p.Mode != "" {
		out.warnings = append(out.warnings, "opts.mode: has a meaning only with a profile, ignored")
	}
	if len(p.SubagentGovernance) > 0 {
		out.warnings = append(out.warnings, "opts.subagentGovernance: delegation is not enabled on this server, ignored")
	}
	return out, nil
}

func almost(key string, fields map[string]reflect.Type) bool {
	for name := range fields {
		if fold(name) == fold(key) {
			return true
		}
	}
	return false
}

func fit(name string, members map[string]json.RawMessage, v any) error {
	data, err := json.Marshal(members)
	if err != nil {
		return invalid(name + ": not JSON")
	}
	if err := json.Unmarshal(data, v); err != nil {
		return invalid(name + "." + mismatch(err))
	}
	return nil
}

// settings returns what can change in a session that exists. The rest becomes
// a warning.
func (o *options) settings() runnel.Settings {
	set := runnel.Settings{Model: o.Model, PermissionMode: o.PermissionMode, ReasoningEffort: o.ReasoningEffort, Config: o.Config}
	rest := o.Options
	rest.Model, rest.PermissionMode, rest.ReasoningEffort, rest.Config = "", "", "", nil
	data, _ := json.Marshal(rest) // it was decoded from JSON
	var left map[string]json.RawMessage
	_ = json.Unmarshal(data, &left)
	for _, key := range slices.Sorted(maps.Keys(left)) {
		o.warnings = append(o.warnings, "opts."+key+": counts only when a session is created, ignored")
	}
	return set
}
