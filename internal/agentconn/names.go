package agentconn

import (
	"encoding/json"
	"maps"
	"slices"
)

// Names returns the keys of the objects, sorted and each once, and never nil.
func Names(objects ...map[string]json.RawMessage) []string {
	names := []string{}
	for _, o := range objects {
		names = slices.AppendSeq(names, maps.Keys(o))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
