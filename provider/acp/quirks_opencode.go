package acp

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// opencode is opencode-ai, seen at 1.18.33.
func opencode() *quirks {
	return &quirks{
		modes: map[runnel.PermissionMode][]setting{
			runnel.ModeDefault: {{"mode", "build"}}, runnel.ModePlan: {{"mode", "plan"}},
		},
		starts:    []runnel.PermissionMode{runnel.ModeAcceptEdits, runnel.ModeDontAsk, runnel.ModeBypass},
		lateInput: true, // approval-allowed
		running:   true, // tool
		absent:    "OpenCode service failure",
		noBlobs:   true, // it keeps the document, and fails at every later prompt
		name:      opencodeTool,
		title:     opencodeTitle,   // edit, load
		changes:   opencodeChanges, // edit
		output: func(c *call) (string, *int) { // tool
			raw := decodeLoose[struct {
				Metadata struct {
					Exit *int `json:"exit"`
				} `json:"metadata"`
			}](c.rawOutput)
			return c.text(), raw.Metadata.Exit
		},
		steps: func(c *call) []planEntry { // plan
			return decodeLoose[struct {
				Todos []planEntry `json:"todos"`
			}](c.input).Todos
		},
		environ: opencodeAsks,
		literal: opencodeText,
		userPart: func(b block) block {
			if b.Text == unseen {
				return block{}
			}
			return b
		},
	}
}

// opencodeTool names a tool by its arguments: its name is the title of a live
// call until the arguments are there, and is not said when it loads (tool, load).
func opencodeTool(tc toolCall) string {
	in := decodeLoose[map[string]json.RawMessage](tc.RawInput)
	switch {
	case tc.ToolKind == "execute":
		return "bash"
	case in["todos"] != nil || tc.Title == "todowrite":
		return "todowrite"
	case slices.Contains([]string{"write", "edit", "read", "grep", "glob", "list", "webfetch", "task", "patch"}, tc.Title):
		return tc.Title
	case tc.ToolKind == "edit" && in["content"] != nil:
		return "write"
	}
	return tc.ToolKind
}

// opencodeInput is what its tools' arguments have in common.
type opencodeInput struct {
	Path    string  `json:"filePath"`
	Command string  `json:"command"`
	Pattern string  `json:"pattern"`
	Content *string `json:"content"`
	Old     *string `json:"oldString"`
	New     *string `json:"newString"`

	// of a question
	AskedPath string `json:"filepath"`
	Diff      string `json:"diff"`
}

// opencodeTitle says in one line what a call is about.
func opencodeTitle(c *call) string {
	in := decodeLoose[opencodeInput](c.input)
	switch {
	case in.Command != "":
		return in.Command
	case in.Path != "":
		return c.name + ": " + filepath.Base(in.Path)
	case in.Pattern != "":
		return c.name + ": " + in.Pattern
	}
	return c.name
}

// opencodeChanges says what a call does to a file: a question has a patch, and a
// result has nothing.
func opencodeChanges(c *call) []event.Change {
	in := decodeLoose[opencodeInput](c.input)
	if in.Diff != "" && in.AskedPath != "" && len(in.Diff) <= 2*maxFileText {
		ch := event.Change{Path: in.AskedPath, Kind: event.ChangeUpdate, Hunks: []event.Hunk{}}
		for _, hunks := range patchHunks(in.Diff) {
			ch.Hunks = append(ch.Hunks, hunks...)
		}
		return []event.Change{ch}
	}
	meta := decodeLoose[struct {
		Metadata struct {
			Path   string `json:"filepath"`
			Exists *bool  `json:"exists"`
		} `json:"metadata"`
	}](c.rawOutput).Metadata
	old, text := in.Old, in.New
	if in.Content != nil {
		old, text = new(string), in.Content
	}
	if in.Path == "" || old == nil || text == nil {
		return nil
	}
	tc := toolContent{Path: cmp.Or(meta.Path, in.Path), OldText: old, NewText: text}
	if meta.Exists != nil && !*meta.Exists {
		tc.OldText = nil
	}
	ch := replaced(tc, false)
	if in.Content != nil && len(*text) <= maxFileText { // the whole of the new file; the old one is not said
		ch.NewText = text
		if ch.Kind == event.ChangeUpdate {
			ch.Hunks = []event.Hunk{}
		}
	}
	return []event.Change{ch}
}

// opencodeAsks makes it ask before it runs a command or changes a file, which
// it does not do of its own accord.
func opencodeAsks(opt runnel.Options) []string {
	// What a subagent would have to ask for, it asks nobody, and waits for ever.
	rule := map[string]string{"bash": "ask", "edit": "ask", "webfetch": "ask", "task": "deny"}
	switch opt.PermissionMode {
	case runnel.ModeAcceptEdits:
		rule["edit"] = "allow"
	case runnel.ModeDontAsk:
		rule = map[string]string{"bash": "deny", "edit": "deny", "webfetch": "deny"}
	case runnel.ModeBypass:
		rule = map[string]string{"bash": "allow", "edit": "allow", "webfetch": "allow"}
	}
	b, err := json.Marshal(rule)
	if err != nil {
		return nil
	}
	env := []string{"OPENCODE_PERMISSION=" + string(b)}
	if !opt.Trusted {
		env = append(env, "OPENCODE_DISABLE_PROJECT_CONFIG=1", "OPENCODE_DISABLE_EXTERNAL_SKILLS=1")
	}
	return env
}

// unseen is a text that opencode keeps and does not show to the model.
const unseen = "\u200b"

// opencodeText keeps it from dropping a prompt that begins with the name of an
// unknown command: it looks at all texts together, also at one for the user only.
func opencodeText(text, _ string, isCommand func(string) bool) []any {
	rest, slash := strings.CutPrefix(strings.TrimSpace(text), "/")
	if name, _, _ := strings.Cut(rest, " "); !slash || isCommand(name) || name == "compact" {
		return []any{textBlock(text)}
	}
	return []any{
		map[string]any{"type": "text", "text": unseen, "annotations": map[string]any{"audience": []string{"user"}}},
		textBlock(text),
	}
}
