package acp

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/gitconfig"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// opencode returns the quirks of opencode-ai, as observed in 1.18.33.
func opencode() *quirks {
	return &quirks{
		startup: startupQuirks{
			modes: map[runnel.PermissionMode][]setting{
				runnel.ModeDefault: {{"mode", "build"}}, runnel.ModePlan: {{"mode", "plan"}},
			},
			startModes:   []runnel.PermissionMode{runnel.ModeAcceptEdits, runnel.ModeDontAsk, runnel.ModeBypass},
			notFoundText: "OpenCode service failure",
			environ:      opencodePermissions,
			noHelpers:    opencodeNoHelpers,
			checkDir:     opencodeDir,
			chosenPath:   opencodeProject,
			atLinks:      opencodeAtLinks,
			floors:       opencodeFloors,

			askAboutTexts: opencodeAskAboutTexts,
			ownTemp:       true,
			password:      "OPENCODE_SERVER_PASSWORD", // 1.18.33; without it, every program of the machine can use the server

			passesDisallowed: true,
			subagentTools:    []string{"task"},
			subagentKey:      "subagent_type",
			delegations:      []runnel.Delegation{runnel.DelegateNever},
		},
		live: liveQuirks{
			noBlobs:   true, // opencode stores the document, and every later prompt fails
			literal:   opencodeText,
			lateInput: true, // recording approval-allowed
			// opencode keeps these answers in its memory (1.18.33).
			forSession: []string{"always"},
			always: map[event.ToolKind]string{
				event.KindExecute: `"Always allow" also allows every text whose commands begin with the same words, such as every script of the same interpreter, while this agent runs, also in the mode plan. Such a text can also write any file (>) and start any program ([[ ]]).`,
				event.KindEdit:    `"Always allow" also allows every other change of a file, also of your skills, while this agent runs.`,
				event.KindFetch:   `"Always allow" also allows every other address, while this agent runs, also in the mode plan.`,
			},
			name:    opencodeTool,
			title:   opencodeTitle,   // recording edit
			running: true,            // recording tool
			output:  opencodeOutput,  // recording tool
			changes: opencodeChanges, // recording edit
			invalid: opencodeInvalid,
			steps: func(c *call) []planEntry { // recording plan
				return translate.DecodeLenient[struct {
					Todos []planEntry `json:"todos"`
				}](c.input).Todos
			},
		},
		replay: replayQuirks{userPart: opencodePart},
		stored: storedQuirks{database: opencodeDatabase}, // TestSummaryOfAConversationWithTheAgent
	}
}

// opencodeInvalid reports whether a call names an unknown tool or has invalid
// arguments. opencode then runs an internal tool instead, which succeeds and
// has the arguments "tool" and "error" (1.18.33).
func opencodeInvalid(c *call) bool {
	in := translate.DecodeLenient[map[string]json.RawMessage](c.input)
	return c.kind == event.KindOther && len(in) == 2 && in["tool"] != nil && in["error"] != nil
}

// opencodeOutput returns the output of a call and the exit code of a command.
func opencodeOutput(c *call) (string, *int) {
	raw := translate.DecodeLenient[struct {
		Metadata struct {
			Exit *int `json:"exit"`
		} `json:"metadata"`
	}](c.rawOutput)
	return c.text(), raw.Metadata.Exit
}

// opencodeTool derives the name of a call's tool from its title or arguments.
// The title of a live call is the tool's name until the arguments are known. A
// replayed call of a tool that is not of an MCP server has no name (recording tool).
//
// The title of a question, which has no status, has words of the model, unless the
// question has no arguments. So has that of a replayed call; no title of opencode's
// own tools of the kind other can look like serverTool (1.18.33).
func opencodeTool(tc toolCall) string {
	in := translate.DecodeLenient[map[string]json.RawMessage](tc.RawInput)
	titled := tc.Status != "" || len(in) == 0
	switch {
	case tc.ToolKind == "execute":
		return "bash"
	case in["todos"] != nil || tc.Title == "todowrite" && titled:
		return "todowrite"
	case titled && (opencodeKinds[tc.Title] != "" && opencodeKinds[tc.Title] == tc.ToolKind || tc.ToolKind == "other" && serverTool.MatchString(tc.Title)):
		return tc.Title
	case tc.ToolKind == "edit" && in["content"] != nil:
		return "write"
	}
	return tc.ToolKind
}

// opencodeKinds has the kinds of opencode's own tools.
var opencodeKinds = map[string]string{
	"write": "edit", "edit": "edit", "patch": "edit", "read": "read", "grep": "search", "glob": "search", "list": "other", "webfetch": "fetch", "task": "think",
}

// serverTool matches the names of the tools of MCP servers: SERVER_TOOL, in which
// opencode replaces all other characters.
var serverTool = regexp.MustCompile(`^[A-Za-z0-9_-]*_[A-Za-z0-9_-]*$`)

// opencodeInput holds the arguments of the agent's tools.
type opencodeInput struct {
	Path    string  `json:"filePath"`
	Command string  `json:"command"`
	Pattern string  `json:"pattern"`
	Content *string `json:"content"`
	Old     *string `json:"oldString"`
	New     *string `json:"newString"`

	// only in permission requests
	AskedPath string `json:"filepath"`
	Diff      string `json:"diff"`
}

// opencodeTitle derives the title of a call from its arguments.
func opencodeTitle(c *call) string {
	in := translate.DecodeLenient[opencodeInput](c.input)
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

// opencodeChanges returns the change of a call that edits a file. A permission
// request contains a patch. A result contains none, so opencodeChanges computes
// the change from the arguments.
func opencodeChanges(c *call) []event.Change {
	in := translate.DecodeLenient[opencodeInput](c.input)
	if in.Diff != "" && in.AskedPath != "" && len(in.Diff) <= 2*maxFileText {
		ch := event.Change{Path: in.AskedPath, Kind: event.ChangeUpdate, Hunks: []event.Hunk{}}
		for _, hunks := range patchHunks(in.Diff) {
			ch.Hunks = append(ch.Hunks, hunks...)
		}
		return []event.Change{ch}
	}
	meta := translate.DecodeLenient[struct {
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
	if in.Content != nil && len(*text) <= maxFileText { // the whole new file; the old one is unknown
		ch.NewText = text
		if ch.Kind == event.ChangeUpdate {
			ch.Hunks = []event.Hunk{}
		}
	}
	return []event.Change{ch}
}

// serversTools matches the permissions of the tools of MCP servers, which are
// named SERVER_TOOL, whatever configuration names the server. It also matches
// permissions of opencode's own, such as external_directory. anyCall tells them
// apart: it matches one character. opencode asks about a call of such a tool with
// the text "*", and about its own with longer ones (1.18.33).
const (
	serversTools = "*_*"
	anyCall      = "?"
)

// opencodePermissions returns variables that set the agent's permissions for
// the permission mode and the disallowed tools. By default the agent runs
// commands, changes files and calls tools of MCP servers without asking.
func opencodePermissions(opt runnel.Options) []string {
	// Deny subagents: a subagent never sends its permission requests, so it
	// would wait forever.
	rule := map[string]any{"bash": "ask", "edit": "ask", "webfetch": "ask", "task": "deny", serversTools: map[string]string{anyCall: "ask"}}
	switch opt.PermissionMode {
	case runnel.ModeAcceptEdits:
		rule["edit"] = "allow"
	case runnel.ModeDontAsk:
		rule = map[string]any{"bash": "deny", "edit": "deny", "webfetch": "deny", serversTools: map[string]string{anyCall: "deny"}}
	case runnel.ModeBypass:
		rule = map[string]any{"bash": "allow", "edit": "allow", "webfetch": "allow"}
	}
	for _, tool := range opt.AllDisallowedTools() {
		rule[opencodeRule(tool)] = "deny"
	}
	if opt.Delegation == runnel.DelegateNever {
		rule["task"] = "deny"
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

// opencodeDir fails for a folder whose path opencode would read as another one:
// it replaces %2F and the like in the path by the characters that they stand
// for, and backslashes by slashes (1.18.33).
func opencodeDir(dir string) error {
	if dir == "" {
		dir, _ = os.Getwd() // the agent works there
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		real = dir
	}
	for _, path := range []string{dir, real} {
		read, err := url.PathUnescape(path)
		if err == nil && read != path || filepath.Separator == '/' && strings.Contains(path, `\`) {
			return runnel.Fail(runnel.SessionCreateFailed, "opencode would not work in "+text.OneLine(path, 500)+
				", because it reads a % or a backslash in the path as other characters. Rename the folder, or choose another agent.")
		}
	}
	return nil
}

// opencodeID matches the ids that opencode gives to projects: hashes and commits,
// or global.
var opencodeID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64}|global)?$`)

// opencodeProject returns the path of a file with an id of the project that
// opencode has not written, or "". opencode stores the id in the git directory,
// through a link if one is there, and uses it in the path of the git directory of
// its snapshots, whose configuration can name programs (1.18.33).
func opencodeProject(dir string) string {
	if dir == "" {
		dir, _ = os.Getwd() // on failure, the handshake fails too
	}
	for _, git := range gitconfig.Directories(dir) {
		path := filepath.Join(git, "opencode")
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		id, err := agentconn.ReadStored(git, path, 100)
		if err != nil || len(id) == 100 || !opencodeID.MatchString(strings.TrimSpace(string(id))) {
			return path
		}
	}
	return ""
}

// opencodeNoHelpers disables language servers and formatters. If the user's
// configuration enables them, opencode runs, for example,
// node_modules/.bin/biome of the folder when it reads a file (1.18.33). The
// JSON in OPENCODE_CONFIG_CONTENT overrides the user's configuration.
func opencodeNoHelpers(env []string) ([]string, error) {
	const name = "OPENCODE_CONFIG_CONTENT="
	config := map[string]json.RawMessage{}
	env = slices.Clone(env)
	if at := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, name) }); at >= 0 {
		given := strings.TrimPrefix(env[at], name)
		if given != "" && (json.Unmarshal([]byte(given), &config) != nil || config == nil) {
			return nil, runnel.Fail(runnel.SessionCreateFailed, "OPENCODE_CONFIG_CONTENT is not a JSON object, so Runnel cannot keep opencode from running programs of an untrusted folder. "+
				"Remove comments and trailing commas from it, or trust the folder (trusted-folders in the configuration).")
		}
		env = slices.Delete(env, at, at+1)
	}
	config["lsp"], config["formatter"] = json.RawMessage("false"), json.RawMessage("false")
	return append(env, name+string(translate.Object(config))), nil
}

// notInServerTool matches what opencode replaces by _ in the names of an MCP server
// and of its tools.
var notInServerTool = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// opencodeRule returns the name of the permission for a tool, or for all tools of an
// MCP server (mcp__SERVER). All tools that change files share the permission "edit".
func opencodeRule(tool string) string {
	if of, ok := strings.CutPrefix(tool, mcpPrefix); ok {
		server, name, one := strings.Cut(of, "__")
		if server = notInServerTool.ReplaceAllString(server, "_") + "_"; !one {
			return server + "*"
		}
		return server + notInServerTool.ReplaceAllString(name, "_")
	}
	if slices.Contains([]string{"write", "patch", "multiedit"}, tool) {
		return "edit"
	}
	return tool
}

// hiddenText is a text that opencode stores but does not send to the model.
const hiddenText = "\u200b"

// opencodePart omits hiddenText from a replayed prompt.
func opencodePart(b block) block {
	if b.Text == hiddenText {
		return block{}
	}
	return b
}

// opencodeText returns the blocks of a prompt. opencode drops a prompt that
// begins with a slash and the name of an unknown command. It looks for the
// command in all texts joined, so opencodeText puts hiddenText before such a
// prompt.
func opencodeText(text, _ string, isCommand func(string) bool) []any {
	rest, slash := strings.CutPrefix(strings.TrimSpace(text), "/")
	if name, _, _ := strings.Cut(rest, " "); !slash || isCommand(name) || name == "compact" {
		return []any{textBlock(text)}
	}
	return []any{
		map[string]any{"type": "text", "text": hiddenText, "annotations": map[string]any{"audience": []string{"user"}}},
		textBlock(text),
	}
}
