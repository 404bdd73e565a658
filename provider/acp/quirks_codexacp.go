package acp

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// codexACP is @agentclientprotocol/codex-acp, seen at 2.6.0. We request version
// 2 of the protocol: in version 1 the agent reports failures and warnings as
// text of the model. Releases before 2.0 speak only that, and 1.0.0 gives no
// message an id.
func codexACP() *quirks {
	return &quirks{
		startup: startupQuirks{
			modes: map[runnel.PermissionMode][]setting{
				// The agent's sandbox protects the user: inside it the agent
				// changes the project without asking, and it asks for anything
				// else.
				runnel.ModeDefault:     {{"mode", "workspace-write"}, {"collaboration_mode", "default"}},
				runnel.ModeAcceptEdits: {{"mode", "workspace-write"}, {"collaboration_mode", "default"}},
				runnel.ModePlan:        {{"mode", "read-only"}, {"collaboration_mode", "plan"}},
				runnel.ModeBypass:      {{"mode", "agent-full-access"}, {"collaboration_mode", "default"}},
			},
			// In "agent" a model decides about permissions in place of the
			// user.
			bypass: []setting{{"mode", "agent-full-access"}, {"mode", "agent"}},
			prepare: func(opt runnel.Options, params map[string]any) error {
				if opt.SystemPromptAppend != "" {
					params["systemPrompt"] = map[string]any{
						"mode": "append", "content": []any{map[string]any{"type": "text", "text": opt.SystemPromptAppend}},
					}
				}
				return nil
			},
			pinGit: codexPins,

			noSubagents:   codexNoSubagents,
			subagentTools: []string{"spawn_agent", "send_message", "followup_task"},
			delegations:   []runnel.Delegation{runnel.DelegateNever},
		},
		live: liveQuirks{
			stops:      []string{"cancel"},        // the only denial, which ends the turn as cancelled (denied-stop)
			forSession: []string{"allow_session"}, // mcp
			name:       codexTool,
			mcp:        codexMCP,
			failed:     codexFailed,
		},
		replay: replayQuirks{
			thoughtParts: true, // thought, load
			userPart:     linkedPart,
		},
	}
}

// codexPins adds variables of commands to the configuration of Codex. By that of
// the user, Codex may keep variables whose names look like those of keys from
// commands.
func codexPins(env []string, pins map[string]string) []string {
	return codexConfig(env, func(config map[string]any) {
		set := object(object(config, "shell_environment_policy"), "set")
		for variable, value := range pins {
			set[variable] = value
		}
	})
}

// codexNoSubagents takes the tools for subagents away.
func codexNoSubagents(env []string) []string {
	return codexConfig(env, func(config map[string]any) { object(config, "agents")["enabled"] = false })
}

// codexConfig changes CODEX_CONFIG, which 2.6.0 puts over the user's
// configuration.
func codexConfig(env []string, change func(config map[string]any)) []string {
	const name = "CODEX_CONFIG="
	config := map[string]any{}
	at := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, name) })
	if at >= 0 && json.Unmarshal([]byte(strings.TrimPrefix(env[at], name)), &config) != nil {
		return env // the agent refuses it, and says so
	}
	change(config)
	line, err := json.Marshal(config)
	if err != nil { // all values are of JSON
		return env
	}
	if at >= 0 {
		env = slices.Delete(slices.Clone(env), at, at+1)
	}
	return append(env, name+string(line))
}

// object returns the object at a key, and makes it if there is none.
func object(in map[string]any, key string) map[string]any {
	o, ok := in[key].(map[string]any)
	if !ok {
		o = map[string]any{}
		in[key] = o
	}
	return o
}

// codexTool names a tool. A command that the agent asks for has a name only
// after the question, and an edit has none (approval-allowed, edit).
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
		return tc.Title // a tool for subagents
	}
	return tc.Name
}

var plainName = regexp.MustCompile(`^[a-z_]{1,40}$`)

// codexFailed reports whether a turn of version 1 ended with the text of a
// failure, which has no id. An agent that gives no message an id does not show
// which text that is; and the answer to a command has no id either.
func codexFailed(s *session, tn *turn, used *event.Usage) bool {
	main := tn.threads.of("")
	return s.version < 2 && s.named && !tn.command && used == nil && main.lastID == "" && !strings.HasPrefix(main.last, "Config warning: ")
}

// codexMCP returns what a description says of a call of an MCP server's tool.
// The agent describes it as a command, and wraps its arguments and its result
// (mcp).
func codexMCP(tc toolCall, known bool) *mcpCall {
	meta := translate.Loose[struct {
		MCP bool `json:"is_mcp_tool_call"`
	}](metaOf(tc.raw))
	m := translate.Loose[mcpCall](tc.RawInput)
	if !known && (!meta.MCP || m.Server == "" || m.Tool == "") {
		return nil
	}
	m.Result = translate.Loose[mcpResult](tc.RawOutput)
	return &m
}

// A replayed prompt has its attachments as text (image).
var (
	linkedData = regexp.MustCompile(`^\[@[^\]\n]*\]\(data:([a-z]+/[a-z0-9.+-]+);base64,([A-Za-z0-9+/=]*)\)$`)
	linkedFile = regexp.MustCompile(`^\s*(?:\[@[^\]\n]*\]\(file://[^)\n]*\)\s*)?<context ref="(file://[^"\n]*)">\n((?s).*)\n</context>\s*$`)
	linkedOnly = regexp.MustCompile(`^\[@[^\]\n]*\]\(file://[^)\n]*\)$`)
)

// linkedPart turns such a text back into the attachment.
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
