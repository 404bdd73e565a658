package recordtest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// content lists the event fields whose bound is event.MaxText, event.MaxOutput
// or the length of the agent's line.
var content = []string{"content", "deltaContent", "initialContent", "arguments", "updatedArguments", "output", "oldText", "newText", "lines", "detail"}

// TooLong returns the names of the fields in a JSON value whose strings exceed
// event.MaxNote bytes. It ignores the fields in content.
func TooLong(t testing.TB, encoded []byte) []string {
	t.Helper()
	var v any
	if err := json.Unmarshal(encoded, &v); err != nil {
		t.Fatal(err)
	}
	return tooLong("", v)
}

func tooLong(name string, v any) (found []string) {
	switch v := v.(type) {
	case string:
		if len(v) > event.MaxNote {
			found = append(found, name)
		}
	case []any:
		for _, e := range v {
			found = append(found, tooLong(name, e)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains(content, k) {
				found = append(found, tooLong(k, v[k])...)
			}
		}
	}
	return found
}
