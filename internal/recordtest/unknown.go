package recordtest

import (
	"maps"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/internal/agentconn"
)

// Unknown returns the types of the messages in the file "in" of a recording
// that the translator does not know. A server that runs a recorded version
// would count these messages as unknown.
func Unknown(t testing.TB, tr agentconn.Translator, in []byte) []string {
	t.Helper()
	found := make(map[string]bool)
	for _, l := range All(t, in) {
		agentconn.Feed(tr, l)
		for _, typ := range tr.Unknown() {
			found[typ] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
