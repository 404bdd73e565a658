package translate

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel"
)

// Loose decodes what fits. A field of an unexpected type and an unknown field
// are left out: agents are moving targets, and the rest of the line is good.
func Loose[T any](data []byte) (v T) {
	_ = json.Unmarshal(data, &v) // what does not fit stays zero
	return v
}

// Each decodes a list of which each element may be anything.
func Each[T any](data []byte) []T {
	var out []T
	for _, raw := range Loose[[]json.RawMessage](data) {
		out = append(out, Loose[T](raw))
	}
	return out
}

// Object encodes v, which is what a call or a question is about. What cannot be
// encoded gives an empty object.
func Object(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}

// IsObject reports whether raw is a JSON object with something in it.
func IsObject(raw json.RawMessage) bool {
	s := strings.TrimSpace(string(raw))
	return strings.HasPrefix(s, "{") && s != "{}"
}

// Arguments returns raw, or an empty object if there is nothing in it.
func Arguments(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// Values decodes the updatedArguments of a decision. It fails with
// InvalidRequest if they are not a JSON object.
func Values(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil || values == nil {
		return nil, NotAnObject(err)
	}
	return values, nil
}

// NotAnObject returns the error for updatedArguments that are not a JSON
// object.
func NotAnObject(cause error) error {
	return runnel.Fail(runnel.InvalidRequest, "updatedArguments is not a JSON object", cause)
}
