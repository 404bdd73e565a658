package acp

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// qwen returns the quirks of @qwen-code/qwen-code, a fork of Gemini CLI, as
// observed in 0.24.4.
func qwen() *quirks {
	mode := func(value string) []setting { return []setting{{"mode", value}} }
	return &quirks{
		startup: startupQuirks{
			modes: map[runnel.PermissionMode][]setting{
				runnel.ModeDefault: mode("default"), runnel.ModePlan: mode("plan"), runnel.ModeBypass: mode("yolo"),
			},
			startModes:  []runnel.PermissionMode{runnel.ModeAcceptEdits},
			acceptEdits: qwenAcceptEdits,
			bypass:      []setting{{"mode", "yolo"}, {"mode", "auto"}, {"mode", "auto-edit"}}, // in auto a model decides; 0.24.4 starts in auto

			contextSettings: qwenSettings,
			worktrees:       filepath.Join(".qwen", "worktrees"),
			linkInState:     qwenLink,
			askFirst:        qwenAskFirst,
			subagentsAsk:    qwenSubagentsAsk,
			unseenAgents:    qwenMemoryOnly,

			keyLogin: "openai", settingsFile: inHome(".qwen", "settings.json"),

			subagentTools: []string{"agent"}, subagentKey: "subagent_type",
			neverDelegates: qwenNeverDelegates,
			delegations:    []runnel.Delegation{runnel.DelegateNever},
		},
		live: liveQuirks{
			noBlobs:    true, // the agent accepts a document, but does not pass it to the model
			joinsTexts: true,
			wholeFiles: true, // recording edit
			unasked: []string{
				"restore_previous", // the mode before plan, which is auto if the session began in plan
				"proceed_always",   // auto-edit
			},
			stops: []string{"cancel"}, // recording denied-stop
			name: func(tc toolCall) string { // recording tool
				return translate.DecodeLenient[qwenMeta](metaOf(tc.raw)).ToolName
			},
			parent: func(meta json.RawMessage) string { // recording subagent
				return translate.DecodeLenient[qwenMeta](meta).Parent
			},
			title:  qwenTitle,
			output: qwenOutput,
			questionnaire: func(meta json.RawMessage) []userQuestion { // recording question
				return translate.DecodeLenient[qwenMeta](meta).Questions
			},
			callUsage: func(meta json.RawMessage) *usage { // recording text
				return translate.DecodeLenient[qwenMeta](meta).Usage
			},
		},
		stored: storedQuirks{dir: inHome(".qwen", "projects"), pattern: "*/chats/*.jsonl", line: qwenLine, folder: qwenFolder, updates: qwenUpdates}, // testdata/qwen/stored
		replay: replayQuirks{
			prompt: func(meta json.RawMessage) string { // failure, load
				if ids := translate.DecodeLenient[qwenMeta](meta).Transcript.Records; len(ids) > 0 {
					return ids[0]
				}
				return ""
			},
			userPart: qwenUserPart,
		},
	}
}

// qwenSettings returns the paths of the settings of the user and the machine.
func qwenSettings(env []string) []string {
	return settingsIn(env, ".qwen", []string{"QWEN_HOME"}, "/etc/qwen-code")
}

// qwenUserPart removes the space with which the agent joins the warning about
// rejected attachments and the prompt.
func qwenUserPart(b block) block {
	if warning, rest := runnel.CutWarning(b.Text); warning != "" {
		b.Text = warning + "\n" + strings.TrimPrefix(rest, " ")
	}
	return b
}

type qwenMeta struct {
	ToolName string `json:"toolName"`
	Parent   string `json:"parentToolCallId"`
	Usage    *usage `json:"usage"` // of one model call

	Transcript struct {
		Records []string `json:"sourceRecordIds"`
	} `json:"qwenTranscript"`
	Questions []userQuestion `json:"qwenQuestions"`
}

// qwenOutput returns the output of a call as the agent displays it, and the
// exit code of a command (recording tool).
func qwenOutput(c *call) (string, *int) {
	displayed := c.text()
	if c.kind != event.KindExecute {
		return cmp.Or(translate.DecodeLenient[string](c.rawOutput), displayed), nil
	}
	result := translate.DecodeLenient[struct {
		Type   string `json:"type"`
		Output string `json:"output"`
		Code   *int   `json:"exitCode"`
		Signal any    `json:"signal"`
	}](c.rawOutput)
	switch {
	case result.Type != "shell_result":
		return cmp.Or(translate.DecodeLenient[string](c.rawOutput), displayed), nil
	case result.Signal != nil: // after a signal, the reported exit code is 0
		return result.Output, nil
	}
	return result.Output, result.Code
}

// qwenTitle derives the title of a call from its arguments. The agent's title
// of a live call with a permission request is the display name of the tool
// (recording tool).
func qwenTitle(c *call) string {
	in := translate.DecodeLenient[struct {
		Command     string `json:"command"`
		Path        string `json:"file_path"`
		Pattern     string `json:"pattern"`
		Description string `json:"description"`
	}](c.input)
	switch {
	case in.Command != "":
		return in.Command
	case in.Path != "":
		return c.name + ": " + filepath.Base(in.Path)
	case in.Pattern != "":
		return c.name + ": " + in.Pattern
	case in.Description != "":
		return c.name + ": " + in.Description
	}
	return c.name
}

// qwenFolder returns the directory of a stored conversation: cwd, or "" if the
// agent stores the conversations of cwd in another folder. An agent in a sandbox
// can write any directory into the files of its own folder.
func qwenFolder(_, file, cwd string) string {
	var name strings.Builder
	for _, u := range utf16.Encode([]rune(cwd)) {
		if u < 128 && (u >= 'a' && u <= 'z' || u >= 'A' && u <= 'Z' || u >= '0' && u <= '9') {
			name.WriteByte(byte(u))
		} else {
			name.WriteByte('-')
		}
	}
	if !strings.EqualFold(name.String(), filepath.Base(filepath.Dir(filepath.Dir(file)))) { // lower case on Windows
		return ""
	}
	return cwd
}

// qwenLine reads a line of a stored conversation.
func qwenLine(s *agentconn.Summary, line []byte) {
	l := translate.DecodeLenient[struct {
		Session    string    `json:"sessionId"`
		CWD        string    `json:"cwd"`
		Time       time.Time `json:"timestamp"`
		Type       string    `json:"type"`
		Provenance string    `json:"provenance"`
		Message    struct {
			Parts []storedPart `json:"parts"`
		} `json:"message"`
	}](line)
	if s.ID == "" {
		s.ID, s.Dir, s.Created = l.Session, l.CWD, l.Time
	}
	words := ""
	for _, p := range l.Message.Parts {
		words += p.Text
	}
	switch {
	case l.Type == "user" && l.Provenance == "real_user":
		s.Prompted(words)
	case l.Type == "assistant":
		s.Said(words)
	}
}
