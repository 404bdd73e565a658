package acp

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// codexACP returns the quirks of @agentclientprotocol/codex-acp, as observed in
// 2.6.0. Runnel requests version 2 of the protocol, because in version 1 the
// agent reports failures and warnings as text of the model. Releases before 2.0
// support only version 1, and release 1.0.0 gives no message an id.
func codexACP() *quirks {
	return &quirks{
		startup: startupQuirks{
			modes: map[runnel.PermissionMode][]setting{
				// The agent changes files inside its sandbox, the project,
				// without asking. It asks for anything else.
				runnel.ModeDefault:     {{"mode", "workspace-write"}, {"collaboration_mode", "default"}},
				runnel.ModeAcceptEdits: {{"mode", "workspace-write"}, {"collaboration_mode", "default"}},
				runnel.ModePlan:        {{"mode", "read-only"}, {"collaboration_mode", "plan"}},
				runnel.ModeBypass:      {{"mode", "agent-full-access"}, {"collaboration_mode", "default"}},
			},
			// In mode "agent", a model decides on permissions instead of the
			// user.
			bypass:    []setting{{"mode", "agent-full-access"}, {"mode", "agent"}},
			mayBypass: []setting{{"mode", "permission-profile:"}}, // a profile of the user's settings
			prepare: func(_ []string, opt runnel.Options, params map[string]any) error {
				if opt.SystemPromptAppend != "" {
					params["systemPrompt"] = map[string]any{
						"mode": "append", "content": []any{map[string]any{"type": "text", "text": opt.SystemPromptAppend}},
					}
				}
				return nil
			},
			titles:    true,
			noGoals:   codexNoGoals,
			pinGit:    codexPins,
			claimTemp: "codex-bwrap-synthetic-mount-targets-",
			contextSettings: func(env []string) []string {
				paths := []string{inHome(".codex", "config.toml")(env)}
				for _, e := range env {
					if home, ok := strings.CutPrefix(e, "CODEX_HOME="); ok && home != "" {
						paths = append(paths, filepath.Join(home, "config.toml"))
					}
				}
				return paths
			},

			noSubagents:   codexNoSubagents,
			subagentTools: []string{"spawn_agent", "send_message", "followup_task"},
			subagentKey:   "agent_type",
			delegations:   []runnel.Delegation{runnel.DelegateNever},
		},
		live: liveQuirks{
			stops:      []string{"cancel"},        // the only denial; it ends the turn as cancelled (recording denied-stop)
			forSession: []string{"allow_session"}, // recording mcp
			name:       codexTool,
			mcp:        codexMCP,
			failed:     codexFailed,
		},
		replay: replayQuirks{
			thoughtParts: true, // in a replay, each chunk of reasoning is a paragraph
			userPart:     linkedPart,
		},
	}
}

// codexPins adds variables for commands to CODEX_CONFIG. The user's
// configuration may make Codex remove variables from commands if their names
// look like those of keys.
func codexPins(env []string, pins map[string]string) []string {
	return codexConfig(env, func(config map[string]any) {
		set := object(object(config, "shell_environment_policy"), "set")
		for variable, value := range pins {
			set[variable] = value
		}
	})
}

// codexNoGoals disables the tools for goals.
func codexNoGoals(env []string) []string {
	return codexConfig(env, func(config map[string]any) { object(config, "features")["goals"] = false })
}

// codexNoSubagents disables the tools for subagents.
func codexNoSubagents(env []string) []string {
	return codexConfig(env, func(config map[string]any) { object(config, "agents")["enabled"] = false })
}

// codexConfig changes CODEX_CONFIG in env. Its values override the user's
// configuration (2.6.0).
func codexConfig(env []string, change func(config map[string]any)) []string {
	const name = "CODEX_CONFIG="
	config := map[string]any{}
	at := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, name) })
	if at >= 0 && json.Unmarshal([]byte(strings.TrimPrefix(env[at], name)), &config) != nil {
		return env // the agent rejects the invalid value with an error
	}
	change(config)
	line, err := json.Marshal(config)
	if err != nil { // cannot happen: all values come from JSON
		return env
	}
	if at >= 0 {
		env = slices.Delete(slices.Clone(env), at, at+1)
	}
	return append(env, name+string(line))
}

// object returns the object at a key. It adds an empty object if the key has
// none.
func object(in map[string]any, key string) map[string]any {
	o, ok := in[key].(map[string]any)
	if !ok {
		o = map[string]any{}
		in[key] = o
	}
	return o
}

// codexTool returns the name of a call's tool. The agent names the tool of a
// command only after its permission request, and never that of an edit
// (recordings approval-allowed and edit).
func codexTool(tc toolCall) string {
	if strings.HasPrefix(tc.Name, mcpPrefix) {
		return tc.Name
	}
	switch event.ToolKind(tc.ToolKind) {
	case event.KindExecute:
		return "exec_command"
	case event.KindEdit, event.KindDelete, event.KindMove:
		return "apply_patch"
	}
	if tc.Name == "" && plainName.MatchString(tc.Title) {
		return tc.Title // a subagent tool
	}
	return tc.Name
}

var plainName = regexp.MustCompile(`^[a-z_]{1,40}$`)

// codexFailed reports whether a turn of version 1 ended with an error text.
// Such a text has no message id. codexFailed returns false if the agent never
// sends message ids, and after a command, because its answer has no id either.
func codexFailed(s *session, tn *turn, used *event.Usage) bool {
	main := tn.threads.of("")
	return s.version < 2 && s.named && !tn.command && used == nil && main.lastID == "" && !strings.HasPrefix(main.last, "Config warning: ")
}

// codexMCP returns the call of an MCP server's tool, or nil for any other call.
// The agent reports such a call as a command, and wraps its arguments and its
// result (recording mcp).
func codexMCP(tc toolCall, known bool) *mcpCall {
	meta := translate.DecodeLenient[struct {
		MCP bool `json:"is_mcp_tool_call"`
	}](metaOf(tc.raw))
	m := translate.DecodeLenient[mcpCall](tc.RawInput)
	if !known && (!meta.MCP || m.Server == "" || m.Tool == "") {
		return nil
	}
	m.Result = translate.DecodeLenient[mcpResult](tc.RawOutput)
	return &m
}

// These expressions match the text that replaces an attachment in a replayed
// prompt (recording image).
var (
	linkedData = regexp.MustCompile(`^\[@[^\]\n]*\]\(data:([a-z]+/[a-z0-9.+-]+);base64,([A-Za-z0-9+/=]*)\)$`)
	linkedFile = regexp.MustCompile(`^\s*(?:\[@[^\]\n]*\]\(file://[^)\n]*\)\s*)?<context ref="(file://[^"\n]*)">\n((?s).*)\n</context>\s*$`)
	linkedOnly = regexp.MustCompile(`^\[@[^\]\n]*\]\(file://[^)\n]*\)$`)
)

// linkedPart converts the text of an attachment in a replayed prompt back to
// the attachment's block.
func linkedPart(b block) block {
	if b.Type != "text" {
		return b
	}
	if m := linkedData.FindStringSubmatch(b.Text); m != nil {
		return block{Type: "image", MimeType: m[1], Data: m[2]}
	}
	if m := linkedFile.FindStringSubmatch(b.Text); m != nil {
		out := block{Type: "resource"}
		out.Resource.URI, out.Resource.Text = m[1], m[2]
		return out
	}
	if linkedOnly.MatchString(b.Text) {
		return block{}
	}
	return b
}
