package translate

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel"
)

// DecodeLenient decodes JSON and ignores unknown fields and fields of an
// unexpected type. Agents change their formats often, and the rest of a line is
// still useful.
func DecodeLenient[T any](data []byte) (v T) {
	_ = json.Unmarshal(data, &v) // fields that do not fit keep their zero value
	return v
}

// maxElements is the maximum number of elements that Each decodes. An element
// takes two bytes of a line and may take a hundred times as much memory.
const maxElements = 10_000

// Each decodes each of the first 10,000 elements of a list as DecodeLenient
// does.
func Each[T any](data []byte) []T {
	out, _ := FirstOf[T](data, maxElements) // fields that do not fit keep their zero value
	return out
}

// FirstOf decodes the first most elements of a list. An element that does not
// fit T keeps zero values, and FirstOf returns the first error of such an
// element. It returns no elements if data is not a list.
func FirstOf[T any](data []byte, most int) (out []T, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil, err
	}
	for len(out) < most && dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return out, err
		}
		var v T
		if failed := json.Unmarshal(raw, &v); err == nil {
			err = failed
		}
		out = append(out, v)
	}
	return out, err
}

// Object encodes the arguments of a call or a question. It returns an empty
// object if v cannot be encoded.
func Object(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}

// IsObject reports whether raw looks like a JSON object that is not empty. It
// does not check the syntax.
func IsObject(raw json.RawMessage) bool {
	s := strings.TrimSpace(string(raw))
	return strings.HasPrefix(s, "{") && s != "{}"
}

// Arguments returns raw, or an empty object if raw is empty or null.
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
