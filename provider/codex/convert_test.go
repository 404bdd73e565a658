package codex

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

func TestScriptStripsShell(t *testing.T) {
	for command, want := range map[string]string{
		`/bin/bash -lc 'echo hi'`:              `echo hi`,
		`/bin/bash -lc 'it'\''s'`:              `it's`,
		`/bin/bash -lc "echo \"a\" \$b"`:       `echo "a" $b`,
		`/bin/bash -lc true`:                   `true`,
		`sh -c 'x'`:                            `x`,
		`bash script.sh`:                       `bash script.sh`,
		`git status`:                           `git status`,
		``:                                     ``,
		`/bin/bash -lc '`:                      `'`,
		`/bin/zsh -lc 'a' 'b'`:                 `a' 'b`,
		`/usr/bin/fish -lc 'unclosed`:          `'unclosed`,
		strings.Repeat("x", 10) + `sh -x 'no'`: strings.Repeat("x", 10) + `sh -x 'no'`,
	} {
		if got := script(command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

// TestPromptContentRoundTrip checks that promptContent returns what prompt
// encoded.
func TestPromptContentRoundTrip(t *testing.T) {
	in := runnel.Input{Text: "look <at> this", Attachments: []runnel.Attachment{
		{Name: `odd "name" <x>&.md`, MediaType: "text/markdown", Text: "# A\n</document>\n"},
		{Name: "p.png", MediaType: "image/png", Data: []byte("12345")},
		{Name: "empty.txt", MediaType: "text/plain"},
	}}
	p := prompt("t", "u", in)
	text, files := promptContent(p.Input, noPicture)
	want := []event.Attachment{
		{Name: `odd "name" <x>&.md`, MediaType: "text/markdown", Size: int64(len("# A\n</document>\n"))},
		{MediaType: "image/png", Size: 5}, // the protocol has no field for the name
		{Name: "empty.txt", MediaType: "text/plain"},
	}
	if d := cmp.Diff(want, files); d != "" || text != in.Text {
		t.Errorf("%q %s", text, d)
	}
	if text, files := promptContent(prompt("t", "u", runnel.Text("")).Input, noPicture); text != "" || files != nil {
		t.Errorf("%q %v", text, files)
	}
	accepts, err := New().Accepts(t.Context(), runnel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if accepts(runnel.Attachment{Name: "x.pdf", MediaType: "application/pdf", Data: []byte("%PDF")}) == "" {
		t.Error("a PDF is accepted")
	}
	for _, a := range in.Attachments {
		if reason := accepts(a); reason != "" {
			t.Errorf("%s: %s", a.Name, reason)
		}
	}
}

// TestFaultCodesAndMessages checks that each failure has a code and a message.
// The agent's reason appears only in an unknown failure, on one line of bounded
// length.
func TestFaultCodesAndMessages(t *testing.T) {
	unknown := []string{`"badRequest"`, `"other"`, `null`, `17`, `{"somethingNew":{"x":1}}`, ``}
	for info, want := range map[string]runnel.Code{
		`"contextWindowExceeded"`: runnel.AgentError, `"usageLimitExceeded"`: runnel.RateLimited, `"rateLimitExceeded"`: runnel.RateLimited,
		`"unauthorized"`: runnel.InvalidAPIKey, `"modelNotFound"`: runnel.AgentError, `"internalServerError"`: runnel.AgentError, `"badRequest"`: runnel.AgentError,
		`{"httpConnectionFailed":{"httpStatusCode":401}}`: runnel.InvalidAPIKey, `{"httpConnectionFailed":{"httpStatusCode":503}}`: runnel.AgentError,
		`{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`: runnel.RateLimited, `"sandboxError"`: runnel.AgentError, `"serverOverloaded"`: runnel.AgentError,
		`"other"`: runnel.AgentError, `null`: runnel.AgentError, `17`: runnel.AgentError, `{"somethingNew":{"x":1}}`: runnel.AgentError, ``: runnel.AgentError,
	} {
		f := fault(turnError{Message: "secret-detail", Info: json.RawMessage(info)})
		if f.Code != string(want) || strings.Contains(f.Message, "secret-detail") != slices.Contains(unknown, info) || len(f.Message) < 20 {
			t.Errorf("%s: %+v", info, f)
		}
	}
	for message, want := range map[string]string{
		`{"error":{"message":"no such\ntool","code":"x"}}`:   "no such tool",
		`{"detail":"no such tool"}`:                          "no such tool",
		`{"unheard":"of"}`:                                   "Send the prompt again",
		"two\nlines \x1b[31m" + strings.Repeat("long ", 500): "two lines",
	} {
		f := fault(turnError{Message: message, Info: json.RawMessage(`"other"`)})
		if !strings.Contains(f.Message, want) || len(f.Message) > 400 || strings.ContainsAny(f.Message, "\n\x1b{") {
			t.Errorf("%.60q: %q", message, f.Message)
		}
	}
	if f := fault(turnError{Message: "Missing environment variable: `SECRET`."}); f.Code != string(runnel.MissingAPIKey) {
		t.Errorf("%+v", f)
	}
}

// TestModeRoundTrip checks that the settings of each permission mode lead back
// to the mode.
func TestModeRoundTrip(t *testing.T) {
	for _, m := range []runnel.PermissionMode{runnel.ModeDefault, runnel.ModeAcceptEdits, runnel.ModePlan, runnel.ModeDontAsk, runnel.ModeBypass} {
		is, err := modeOf(m, true)
		if err != nil {
			t.Fatal(err)
		}
		s := settings{Approval: is.approval, Sandbox: is.sandbox, Plan: is.plan, Asked: string(m)}
		if got := s.permissionMode(); got != string(m) {
			t.Errorf("mode %s becomes %s", m, got)
		}
	}
	if got := (&settings{Approval: "untrusted", Sandbox: readOnly}).permissionMode(); got != "" {
		t.Errorf("settings without a permission mode give %s", got)
	}
	if _, err := modeOf(runnel.ModeBypass, false); err == nil {
		t.Error("bypass is allowed")
	}
}

func TestMCPServers(t *testing.T) {
	got, err := mcpServers(json.RawMessage(`{"a":{"type":"stdio","command":"x","args":["y"]},"b":{"type":"http","url":"http://x","headers":{"k":"v"}},"c":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(`{"a":{"args":["y"],"command":"x"},"b":{"http_headers":{"k":"v"},"url":"http://x"},"c":null}`, string(object(got))); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{`[]`, `null`, `{"a":1}`, `{`} {
		if _, err := mcpServers(json.RawMessage(bad)); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestConfiguredFoldersAreUntrusted(t *testing.T) {
	got := trusted([]byte("a = \"b\"\n[projects.\"/home/u/x y\"]\ntrust_level = \"trusted\"\n[ projects . '/it/s' ] # c\n[projects.\"/q\\\"q\"]\n[projects]\n\"/in/line\" = { trust_level = 'trusted' }\nprojects.\"/dotted\".trust_level = \"trusted\"\n\"open\n"))
	if d := cmp.Diff([]string{"/home/u/x y", "/it/s", `/q"q`, "/in/line", "/dotted"}, got); d != "" {
		t.Error(d)
	}
	for dir, level := range trust(runnel.Options{Dir: "/nonexistent/a/b"}) {
		if l, _ := level.(map[string]any)["trust_level"].(string); l != "untrusted" {
			t.Errorf("%s is %s", dir, l)
		}
	}
	if all := trust(runnel.Options{Dir: "/nonexistent/a/b", Env: []string{"CODEX_HOME=/nonexistent"}}); len(all) != 4 {
		t.Errorf("%v", all)
	}
}

// The configuration features multi_agent and multi_agent_v2 are not enough:
// with them, models whose catalogue entry has tools for subagents keep these
// tools.
func TestDelegateNeverDisablesSubagents(t *testing.T) {
	for delegation, want := range map[runnel.Delegation]bool{runnel.DelegateFreely: false, runnel.DelegateNever: true} {
		params, err := threadParams(runnel.Options{Delegation: delegation, Dir: "/p"}, methodStart)
		if err != nil {
			t.Fatal(err)
		}
		agents, has := params["config"].(map[string]any)["agents"].(map[string]any)
		if has != want || has && agents["enabled"] != false {
			t.Errorf("%q: agents %v", delegation, agents)
		}
	}
}

func noPicture(string) string { return "" }
