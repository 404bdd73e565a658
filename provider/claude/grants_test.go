package claude

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// The label of a choice for the session names the permissions. A grant that the
// label cannot describe is not offered.
func TestLabelOfASessionGrantNamesThePermissions(t *testing.T) {
	rule := func(tool, content string) string {
		return `{"type":"addRules","behavior":"allow","destination":"localSettings","rules":[{"toolName":"` + tool + `","ruleContent":"` + content + `"}]}`
	}
	for offered, want := range map[string]string{
		rule("Bash", "go test *"): "Allow `go test *` in this session",
		rule("Read", "//d/**"):    "Allow `Read(//d/**)` in this session",
		rule("Bash", ""):          "Allow every call of Bash in this session",
		`{"type":"setMode","mode":"acceptEdits","destination":"session"}`:          "Allow all edits in this session",
		`{"type":"addDirectories","directories":["/d"],"destination":"session"}`:   "Allow access to files in /d in this session",
		`{"type":"setMode","mode":"bypassPermissions","destination":"session"}`:    "",
		`{"type":"addRules","behavior":"deny","rules":[{"toolName":"Bash"}]}`:      "",
		`{"type":"replaceRules","behavior":"allow","rules":[{"toolName":"Bash"}]}`: "",
		`"addRules"`:                            "",
		rule("Bash", strings.Repeat("x", 2000)): "",
	} {
		a := question{kind: event.ApprovalTool, grants: grants([]json.RawMessage{json.RawMessage(offered)})}
		got := ""
		for _, c := range a.choices() {
			if c.ID == allowSession {
				got = c.Label
			}
		}
		if got != want {
			t.Errorf("%.80s: label %q, want %q", offered, got, want)
		}
		for _, g := range a.grants {
			if !strings.Contains(string(g.native), `"destination":"session"`) {
				t.Errorf("%s: not limited to the session", g.native)
			}
		}
	}
}
