package httpapi

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/runnel-dev/runnel"
)

// profileOptions are those of the contract that a profile gives a meaning.
type profileOptions struct {
	Persona            string          `json:"persona,omitempty"`
	Mode               string          `json:"mode,omitempty"`
	SubagentGovernance json.RawMessage `json:"subagentGovernance,omitempty"`
}

// decodeOptions reads the options of a client. Unlike in other bodies a field
// that we do not know is passed over, with a warning in the answer; one that is
// almost ours is refused, as everywhere.
func decodeOptions(data json.RawMessage) (opt runnel.Options, warnings []string, err error) {
	if len(data) == 0 || string(data) == "null" {
		return opt, nil, nil
	}
	if err := checkJSON(data); err != nil {
		return opt, nil, invalid("opts: " + err.Error())
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return opt, nil, invalid("opts: must be an object")
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
			return opt, nil, invalid("opts." + unknown(key, ours))
		}
		warnings = append(warnings, "opts."+quoted(key)+": unknown, ignored")
	}
	slices.Sort(warnings)
	if err := fit("opts", members, &opt); err != nil {
		return opt, nil, err
	}
	var p profileOptions
	if err := fit("opts", profiled, &p); err != nil {
		return opt, nil, err
	}
	if p.Persona != "" {
		return opt, nil, runnel.Fail(runnel.PersonaNotFound, "opts.persona: there is no such profile")
	}
	if p.Mode != "" {
		warnings = append(warnings, "opts.mode: has a meaning only with a profile, ignored")
	}
	if len(p.SubagentGovernance) > 0 {
		warnings = append(warnings, "opts.subagentGovernance: delegation is not enabled on this server, ignored")
	}
	return opt, warnings, nil
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

// settings returns what of opt can change in a session that exists, and
// warnings for the rest.
func settings(opt runnel.Options) (set runnel.Settings, warnings []string) {
	set = runnel.Settings{Model: opt.Model, PermissionMode: opt.PermissionMode}
	opt.Model, opt.PermissionMode = "", ""
	data, _ := json.Marshal(opt)
	var rest map[string]json.RawMessage
	_ = json.Unmarshal(data, &rest)
	for key := range rest {
		warnings = append(warnings, "opts."+key+": counts only when a session is created, ignored")
	}
	slices.Sort(warnings)
	return set, warnings
}
