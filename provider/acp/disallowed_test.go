package acp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// What an agent must not do reaches the agent itself, where it has a word for
// it.
func TestDisallowedToolsReachTheAgent(t *testing.T) {
	claude := func(opt runnel.Options) string {
		params := map[string]any{}
		if err := claudeOptions(opt, params); err != nil {
			return err.Error()
		}
		b, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	opencode := func(opt runnel.Options) string { return opencodeAsks(opt)[0] }
	for _, tt := range []struct {
		name string
		of   func(runnel.Options) string
		opt  runnel.Options
		want string
	}{
		{"claude tools", claude, runnel.Options{Disallowed: []string{"Bash"}}, `"disallowedTools":["Bash"]`},
		{"claude never", claude, runnel.Options{Disallowed: []string{"Bash"}, Delegation: runnel.DelegateNever}, `"disallowedTools":["Bash","Agent","Task","Workflow"]`},
		{"claude ask", claude, runnel.Options{Delegation: runnel.DelegateAsking}, `"settings":{"permissions":{"ask":["Agent","Task","Workflow"]}}`},
		{"claude flag", claude, runnel.Options{Disallowed: []string{"--settings={}"}}, "must begin with a letter or digit"},
		{"opencode tools", opencode, runnel.Options{Disallowed: []string{"bash", "write"}, PermissionMode: runnel.ModeAcceptEdits}, `{"bash":"deny","edit":"deny","task":"deny","webfetch":"ask"}`},
		{"opencode bypass", opencode, runnel.Options{Disallowed: []string{"bash"}, PermissionMode: runnel.ModeBypass}, `{"bash":"deny","edit":"allow","webfetch":"allow"}`},
		{"opencode never", opencode, runnel.Options{Delegation: runnel.DelegateNever, PermissionMode: runnel.ModeBypass}, `"task":"deny"`},
	} {
		if got := tt.of(tt.opt); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if got := claude(runnel.Options{}); strings.Contains(got, "disallowed") || strings.Contains(got, "permissions") {
		t.Errorf("without such options: %s", got)
	}
}
