package acp

import (
	"context"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// gemini returns the quirks of @google/gemini-cli, as observed in 0.61.0.
func gemini() *quirks {
	mode := func(value string) []setting { return []setting{{"mode", value}} }
	return &quirks{
		startup: startupQuirks{
			modes: map[runnel.PermissionMode][]setting{
				runnel.ModeDefault: mode("default"), runnel.ModeAcceptEdits: mode("autoEdit"), runnel.ModePlan: mode("plan"), runnel.ModeBypass: mode("yolo"),
			},
			bypass:        []setting{{"mode", "yolo"}},
			waitResumable: geminiWaitResumable,
			linkInState:   geminiLink,
			environ:       geminiTrust,
			askFirst:      geminiAskFirst,

			neverDelegates: geminiNeverDelegates,
			subagentTools:  []string{"invoke_agent"}, subagentKey: "agent_name",
			delegations: []runnel.Delegation{runnel.DelegateNever},

			keyLogin: "gemini-api-key", settingsFile: inHome(".gemini", "settings.json"),
		},
		live: liveQuirks{
			forSession: []string{"proceed_always"}, // "Allow for this session" (recording approval-allowed)
			name:       geminiTool,
			wholeFiles: true, // recording edit
			usage:      geminiUsage,
			modeAfter:  geminiMode,
			modeAfterChoice: func(tool, option string) string {
				if option == "proceed_always" && (tool == "write_file" || tool == "replace") {
					return "autoEdit"
				}
				return ""
			},
		},
		replay: replayQuirks{endsWithCommands: true}, // recording resume
		mcp:    geminiMCP,
		stored: storedQuirks{dir: geminiStored, pattern: "*/chats/session-*.jsonl", line: geminiLine, folder: geminiFolder, updates: geminiUpdates}, // testdata/gemini/stored
	}
}

// geminiUsage returns the usage of a turn (recording text).
func geminiUsage(meta json.RawMessage) *usage {
	count := translate.DecodeLenient[struct {
		Quota struct {
			Count *struct {
				Input  int64 `json:"input_tokens"`
				Output int64 `json:"output_tokens"`
			} `json:"token_count"`
		} `json:"quota"`
	}](meta).Quota.Count
	if count == nil {
		return nil
	}
	return &usage{Input: count.Input, Output: count.Output}
}

// geminiWaitResumable waits until the agent can resume a conversation without
// losing its contents.
//
// The name of a conversation's file contains the minute in which a process
// opened the conversation. If another process loads the conversation within the
// same minute, it overwrites the file with an empty one and does not find the
// conversation (0.61.0).
func geminiWaitResumable(ctx context.Context, env []string, session string) error {
	if uuid.Validate(session) != nil {
		return nil
	}
	home := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "HOME="); ok && home == "" {
			home = v
		}
		if v, ok := strings.CutPrefix(e, "GEMINI_CLI_HOME="); ok {
			home = v
		}
	}
	for {
		now := time.Now().UTC()
		name := "session-" + now.Format("2006-01-02T15-04") + "-" + session[:8] + ".jsonl"
		found, err := filepath.Glob(filepath.Join(home, ".gemini", "tmp", "*", "chats", name))
		if err != nil || len(found) == 0 {
			return nil
		}
		timer := time.NewTimer(now.Truncate(time.Minute).Add(time.Minute).Sub(now))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return runnel.Fail(runnel.Timeout, "gave up waiting until Gemini CLI can resume the conversation", ctx.Err())
		}
	}
}

// geminiStored returns the folder that has a folder for each directory in which
// the agent was used.
func geminiStored(env []string) string {
	dir := inHome(".gemini", "tmp")(env)
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "GEMINI_CLI_HOME="); ok && v != "" {
			dir = filepath.Join(v, ".gemini", "tmp")
		}
	}
	return dir
}

// geminiLine reads a line of a stored conversation. Threads of subagents have
// another kind than main.
func geminiLine(s *agentconn.Summary, line []byte) {
	type message struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
	}
	l := translate.DecodeLenient[struct {
		message
		Session string    `json:"sessionId"`
		Kind    string    `json:"kind"`
		Start   time.Time `json:"startTime"`
		Set     struct {
			Messages []message `json:"messages"` // replace the messages before
		} `json:"$set"`
	}](line)
	if l.Session != "" && l.Kind == "main" && s.ID == "" {
		s.ID, s.Created = l.Session, l.Start
	}
	for _, m := range append(l.Set.Messages, l.message) {
		words := translate.DecodeLenient[string](m.Content)
		for _, part := range translate.Each[storedPart](m.Content) {
			words += part.Text
		}
		switch {
		case strings.HasPrefix(words, "<session_context>"): // written by the agent
		case m.Type == "user":
			s.Prompted(words)
		case m.Type == "gemini":
			s.Said(words)
		}
	}
}

// geminiFolder returns the directory of a stored conversation. The agent stores
// its path in a file.
func geminiFolder(dir, file, _ string) string {
	path, err := agentconn.ReadStored(dir, filepath.Join(filepath.Dir(file), "..", ".project_root"), event.MaxPath)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(path))
}

// geminiCount matches the end of an id that Gemini CLI makes itself.
var geminiCount = regexp.MustCompile(`_[0-9]+_[0-9]+$`)

// geminiTool returns the name of a call's tool. The id of a call is the name,
// "__" and the id from the model (recording tool). If the model gives no id,
// Gemini CLI uses the name again, the time and a number instead. The name of an
// MCP server's tool may contain "__", too.
func geminiTool(tc toolCall) string {
	twice := geminiCount.ReplaceAllString(tc.ID, "")
	if n := len(twice)/2 - 1; n > 0 && twice == twice[:n]+"__"+twice[:n] {
		return twice[:n]
	}
	return tc.ID[:max(0, strings.LastIndex(tc.ID, "__"))]
}

// geminiMode returns the mode in which Gemini CLI (0.61.0) is after a call, or "" if
// the call did not change it.
func geminiMode(c *call) string {
	switch shown := c.text(); {
	case c.name == "exit_plan_mode" && strings.HasPrefix(shown, "Plan approved"):
		return "default"
	case c.name == "enter_plan_mode" && strings.HasPrefix(shown, "Switching to Plan mode"):
		return "plan"
	}
	return ""
}

// geminiTrust returns the variable that tells the agent whether the folder is
// trusted. In an untrusted folder the agent ignores the folder's settings and
// files for the model, and offers only the modes that ask most. So an untrusted
// folder without such files counts as trusted. The agent finds a GEMINI.md in
// a subfolder when the model reads another file of that subfolder. The user's
// settings can give that file other names.
func geminiTrust(opt runnel.Options) []string {
	env := append(os.Environ(), opt.Env...)
	names, ok := contextNames(settingsIn(env, ".gemini", []string{"GEMINI_CLI_HOME"}, "/etc/gemini-cli"))
	names = append(names, geminiContext)
	trusted := opt.Trusted || ok && findSettings(opt.Dir, append([]string{".gemini", "**/.gemini/.env", "**/.env", ".agents"}, names...)) == "" && !hasContext(opt.Dir, names)
	return []string{"GEMINI_CLI_TRUST_WORKSPACE=" + strconv.FormatBool(trusted)}
}

// hasContext reports whether the folder or a subfolder contains a file for the
// model, which has one of these names. It also reports true if the folder is
// too large to search. The user's home directory counts as a folder without
// such a file.
func hasContext(dir string, names []string) bool {
	if dir == "" {
		return false
	}
	real, err := filepath.EvalSymlinks(dir)
	switch {
	case err != nil:
		return true // the folder may contain such a file
	case real == userHome():
		return false
	}
	last := make([]string, len(names))
	for i, name := range names {
		last[i] = path.Base(name)
	}
	found, whole := findBelow(real, last, func(string) bool { return true })
	return found != "" || !whole
}

// geminiContext is the usual name of the agent's files for the model.
const geminiContext = "GEMINI.md"
