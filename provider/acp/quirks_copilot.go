package acp

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// copilotMode is the prefix of the agent's mode values.
const copilotMode = "https://agentclientprotocol.com/protocol/session-modes#"

// copilot returns the quirks of @github/copilot, as observed in 1.0.102.
func copilot() *quirks {
	return &quirks{
		startup: startupQuirks{
			modes: map[runnel.PermissionMode][]setting{
				runnel.ModeDefault: {{"mode", copilotMode + "agent"}, {"allow_all", "off"}},
				runnel.ModePlan:    {{"mode", copilotMode + "plan"}, {"allow_all", "off"}},
				runnel.ModeBypass:  {{"mode", copilotMode + "agent"}, {"allow_all", "on"}},
			},
			bypass:         []setting{{"allow_all", "on"}, {"mode", copilotMode + "autopilot"}},
			noStdioServers: true,
			noSubagentArgs: []string{"--excluded-tools=task"},
			alwaysArgs:     []string{"--excluded-tools=sql"}, // it shows the model the sessions of all projects, without asking
			untrustedArgs:  []string{"--excluded-tools=lsp"}, // language servers of the user run programs of the folder
			subagentTools:  []string{"task"}, subagentKey: "agent_type",
			delegations: []runnel.Delegation{runnel.DelegateNever},
			startModel: func(env []string, model string) []string {
				return agentconn.SetVariable(env, "COPILOT_MODEL", model)
			},
		},
		live: liveQuirks{
			noFiles: true, // the agent does not pass files to the model
			name:    copilotTool,
			running: true,        // recording tool
			output:  shellOutput, // recording tool
			// Copilot keeps these answers in its memory (1.0.102). For commands and
			// paths, they are about the same command or path only.
			always: map[event.ToolKind]string{
				event.KindEdit:  `"Always allow" also allows every other change of a file in the folder, such as in .git, while this agent runs.`,
				event.KindOther: `"Always allow" also allows every other call of this tool, with any arguments, while this agent runs, also in the mode plan.`,
			},
			unsaid: []string{"Info: Disabled tools: sql", "Info: Disabled tools: lsp, sql"},
			isAgentText: func(text string) bool { // recordings approval-denied and failure
				return strings.HasPrefix(text, "Info: ") || strings.HasPrefix(text, "Error: ")
			},
			failed: func(_ *session, tn *turn, used *event.Usage) bool { // recording failure
				return used == nil && strings.HasPrefix(tn.threads.of("").last, "Error: ")
			},
			cumulativeUsage: true, // recording text
		},
		replay: replayQuirks{onePart: true},                                                                                               // recording failure
		stored: storedQuirks{dir: copilotStored, pattern: "*/events.jsonl", line: copilotLine, updates: copilotUpdates, onlySearch: true}, // testdata/copilot/stored
	}
}

// copilotStored returns the folder that has a folder for each conversation.
func copilotStored(env []string) string {
	home := inHome(".copilot")(env)
	for _, e := range env {
		if v, ok := variable(e, "COPILOT_HOME"); ok && v != "" {
			home = v
		}
	}
	return filepath.Join(home, "session-state")
}

// copilotLine reads a line of a stored conversation.
func copilotLine(s *agentconn.Summary, line []byte) {
	l := translate.DecodeLenient[struct {
		Type string    `json:"type"`
		At   time.Time `json:"timestamp"`
		Data struct {
			Session string `json:"sessionId"`
			Content string `json:"content"`
			Context struct {
				CWD string `json:"cwd"`
			} `json:"context"`
		} `json:"data"`
	}](line)
	switch l.Type {
	case "session.start":
		s.ID, s.Dir, s.Created = cmp.Or(s.ID, l.Data.Session), cmp.Or(s.Dir, l.Data.Context.CWD), l.At
	case "user.message":
		s.Prompted(l.Data.Content)
	case "assistant.message":
		s.Said(l.Data.Content)
	}
}

// shellEnd matches the line that the agent adds to a command's output
// (recording tool).
var shellEnd = regexp.MustCompile(`\n?<shellId: [^>\n]* completed with exit code (-?\d+)>$`)

// shellOutput returns the output of a call without the line that shellEnd
// matches, and the exit code in that line.
func shellOutput(c *call) (string, *int) {
	text := c.text()
	m := shellEnd.FindStringSubmatchIndex(text)
	if m == nil {
		return text, nil
	}
	code, err := strconv.Atoi(text[m[2]:m[3]])
	if err != nil {
		code = -1
	}
	return text[:m[0]], &code
}

// copilotTool derives the name of a call's tool from its arguments, because the
// title is the model's description of the call (recording tool).
func copilotTool(tc toolCall) string {
	if tc.ToolKind != "execute" {
		return ""
	}
	if in := translate.DecodeLenient[map[string]json.RawMessage](tc.RawInput); in["command"] != nil {
		return "bash"
	}
	return ""
}
