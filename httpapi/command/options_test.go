package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// Unknown options are ignored with a warning. Options in the wrong case, of the
// wrong type or given twice are rejected.
func TestOptionsAreLenientOnlyWithWhatIsUnknown(t *testing.T) {
	opt, err := decodeOptions("opts", json.RawMessage(`{"model":"m","maxTurns":2,"futureThing":{"a":1},"mode":"","subagentGovernance":null}`))
	if err != nil || opt.Model != "m" || opt.MaxTurns != 2 || len(opt.Warnings) != 1 || !strings.Contains(opt.Warnings[0], "futureThing") {
		t.Errorf("got %+v, %v", opt, err)
	}
	for _, bad := range []string{`{"Model":"m"}`, `{"permissionmode":"bypass"}`, `{"PERSONA":"x"}`, `{"model":"a","model":"b"}`, `{"maxTurns":"2"}`,
		`{"maxTurns":99999999999999999999}`, `[]`, `"x"`, `{"Dir":"/"}`, `{"Path":"/bin/sh"}`, `{"dir":"/"}`} {
		opt, err := decodeOptions("opts", json.RawMessage(bad))
		if strings.Contains(strings.ToLower(bad), "dir") || strings.Contains(bad, "Path") {
			if err != nil || len(opt.Warnings) != 1 || opt.Dir != "" || opt.Path != "" { // a client must not set these, so they are unknown
				t.Errorf("%s: got %+v, %v", bad, opt, err)
			}
		} else if runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}
