package acp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// An agent receives the disallowed tools and the delegation mode in its own
// settings, if it has such settings.
func TestDisallowedToolsReachTheAgent(t *testing.T) {
	claude := func(opt runnel.Options) string {
		params := map[string]any{}
		if err := claudeOptions([]string{"HOME=" + t.TempDir()}, opt, params); err != nil {
			return err.Error()
		}
		b, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	opencode := func(opt runnel.Options) string { return opencodePermissions(opt)[0] }
	for _, tt := range []struct {
		name string
		of   func(runnel.Options) string
		opt  runnel.Options
		want string
	}{
		{"claude tools", claude, runnel.Options{ServerDisallowedTools: []string{"Bash"}}, `"disallowedTools":["Bash"]`},
		{"claude never", claude, runnel.Options{ServerDisallowedTools: []string{"Bash"}, Delegation: runnel.DelegateNever}, `"disallowedTools":["Bash","Agent","Task","Workflow","SendMessage"]`},
		{"claude ask", claude, runnel.Options{Delegation: runnel.DelegateAsking}, `"settings":{"crossSessionInbound":"refuse","permissions":{"ask":["EnterWorktree","Agent","Task","Workflow","SendMessage"],"disableAutoMode":"disable"}}`},
		{"claude flag", claude, runnel.Options{ServerDisallowedTools: []string{"--settings={}"}}, "begins with a letter or digit"},
		{"opencode tools", opencode, runnel.Options{ServerDisallowedTools: []string{"bash", "write"}, PermissionMode: runnel.ModeAcceptEdits}, `{"*_*":{"?":"ask"},"bash":"deny","edit":"deny","task":"deny","webfetch":"ask"}`},
		{"opencode server", opencode, runnel.Options{ServerDisallowedTools: []string{"mcp__my.mail", "mcp__a__b c"}, PermissionMode: runnel.ModeDontAsk}, `"a_b_c":"deny","bash":"deny","edit":"deny","my_mail_*":"deny"`},
		{"opencode bypass", opencode, runnel.Options{ServerDisallowedTools: []string{"bash"}, PermissionMode: runnel.ModeBypass}, `{"bash":"deny","edit":"allow","webfetch":"allow"}`},
		{"opencode never", opencode, runnel.Options{Delegation: runnel.DelegateNever, PermissionMode: runnel.ModeBypass}, `"task":"deny"`},
	} {
		if got := tt.of(tt.opt); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	env := codexNoSubagents([]string{"A=b", `CODEX_CONFIG={"agents":{"max_threads":2},"model":"m"}`})
	if len(env) != 2 || env[1] != `CODEX_CONFIG={"agents":{"enabled":false,"max_threads":2},"model":"m"}` {
		t.Errorf("codex: %q", env)
	}
	if got := claude(runnel.Options{PermissionMode: runnel.ModeBypass}); strings.Contains(got, "disallowed") || strings.Contains(got, `"ask"`) {
		t.Errorf("without such options: %s", got)
	}
}

// If the model calls a tool that does not exist, opencode runs its own tool
// instead, which reports success. Runnel reports the call as failed.
func TestCallOfAMissingToolFails(t *testing.T) {
	for input, want := range map[string]bool{
		`{"tool":"bash","error":"Model tried to call unavailable tool 'bash'."}`: true,
		`{"tool":"bash","error":"x","more":1}`:                                   false, `{"command":"ls"}`: false, ``: false,
	} {
		if got := opencodeInvalid(&call{kind: event.KindOther, input: json.RawMessage(input)}); got != want {
			t.Errorf("%s: %v", input, got)
		}
	}
	if opencodeInvalid(&call{kind: event.KindExecute, input: json.RawMessage(`{"tool":"a","error":"b"}`)}) {
		t.Error("a command is taken for such a call")
	}
}
