package agentconn

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/jsonl"
)

// Decoding such a line would take gigabytes.
func TestLineWithTooManyValuesIsNotDecoded(t *testing.T) {
	list := func(n int) string { return `{"options":[` + strings.Repeat("0,", n) + `0]}` }
	if got := decodable([]byte(list(jsonl.MaxValues + 1))); got != nil {
		t.Errorf("the translator receives %d bytes", len(got))
	}
	if got := decodable([]byte(list(jsonl.MaxValues))); got == nil {
		t.Error("the translator receives nothing of a line at the bound")
	}
}
