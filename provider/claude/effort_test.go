package claude

import (
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// Open fails in the handshake and stops the agent. The agent is a shell script
// that lists two models.
func TestOpenRejectsAnEffortThatTheModelLacks(t *testing.T) {
	const program = `#!/bin/sh
while read -r line; do
	id=${line#*\"request_id\":\"}
	id=${id%%\"*}
	echo '{"type":"control_response","response":{"subtype":"success","request_id":"'"$id"'","response":{"models":[{"value":"small","resolvedModel":"small-1"},{"value":"large","resolvedModel":"large-1","supportedEffortLevels":["low","high"]}]}}}'
done
`
	path := filepath.Join(t.TempDir(), "claude")
	if err := testexec.Write(path, program); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		model, effort string
		want          runnel.Code
	}{
		{"small", "low", runnel.InvalidRequest},
		{"small-1", "low", runnel.InvalidRequest},
		{"large", "max", runnel.InvalidRequest},
		{"large", "high", ""},
		{"unlisted", "max", ""}, // the agent does not list this model, so Open accepts any effort
		{"small", "", ""},
	} {
		opt := runnel.Options{Path: path, Dir: t.TempDir(), Model: tt.model, ReasoningEffort: tt.effort}
		s, err := runnel.Open(t.Context(), New(), opt, runnel.Config{})
		if runnel.CodeOf(err) != tt.want {
			t.Errorf("%s with %s: got %v, want %q", tt.model, tt.effort, err, tt.want)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}
