package acp

import (
	"regexp"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// codexACP is @agentclientprotocol/codex-acp, seen at 2.6.0. It speaks version 2,
// which we ask for: in version 1 a failure is told as text of the model, and
// warnings are, too (v1-failure).
func codexACP() *quirks {
	return &quirks{
		modes: map[runnel.PermissionMode][]setting{
			// Its sandbox is what protects: within it, the project may be changed
			// without asking, and what needs more is asked for.
			runnel.ModeDefault:     {{"mode", "workspace-write"}, {"collaboration_mode", "default"}},
			runnel.ModeAcceptEdits: {{"mode", "workspace-write"}, {"collaboration_mode", "default"}},
			runnel.ModePlan:        {{"mode", "read-only"}, {"collaboration_mode", "plan"}},
			runnel.ModeBypass:      {{"mode", "agent-full-access"}, {"collaboration_mode", "default"}},
		},
		// In "agent" a model decides about permissions, and nobody is asked.
		bypass: []setting{{"mode", "agent-full-access"}, {"mode", "agent"}},
		stops:  []string{"cancel"}, // its only "no" ends the turn as cancelled (denied-stop)

		thoughtParts: true, // thought, load
		name:         codexTool,
		userPart:     linkedPart,
		failed: func(tn *turn, u *event.Usage) bool {
			return u == nil && tn.saidID == "" && !strings.HasPrefix(tn.said, "Config warning: ") // v1-failure
		},
		prepare: func(opt runnel.Options, params map[string]any) error {
			if opt.SystemPromptAppend != "" {
				params["systemPrompt"] = map[string]any{
					"mode": "append", "content": []any{map[string]any{"type": "text", "text": opt.SystemPromptAppend}},
				}
			}
			return nil
		},
	}
}

// codexTool names a tool: a command that is asked for has a name only
// afterwards, an edit never (approval-allowed, edit).
func codexTool(tc toolCall) string {
	switch event.ToolKind(tc.ToolKind) {
	case event.KindExecute:
		return "exec_command"
	case event.KindEdit, event.KindDelete, event.KindMove:
		return "apply_patch"
	}
	if tc.Name == "" && plainName.MatchString(tc.Title) {
		return tc.Title // of a tool that has to do with subagents
	}
	return tc.Name
}

var plainName = regexp.MustCompile(`^[a-z_]{1,40}$`)

// When an agent loads a prompt, its attachments have become text (image).
var (
	linkedData = regexp.MustCompile(`^\[@[^\]\n]*\]\(data:([a-z]+/[a-z0-9.+-]+);base64,([A-Za-z0-9+/=]*)\)$`)
	linkedFile = regexp.MustCompile(`^\s*(?:\[@[^\]\n]*\]\(file://[^)\n]*\)\s*)?<context ref="(file://[^"\n]*)">\n((?s).*)\n</context>\s*$`)
	linkedOnly = regexp.MustCompile(`^\[@[^\]\n]*\]\(file://[^)\n]*\)$`)
)

// linkedPart turns such text back into what it was.
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
