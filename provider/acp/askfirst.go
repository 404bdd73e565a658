package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Gemini CLI and Qwen Code run a command without asking if they believe that it
// only reads files. They read its words in another way than the shell: Qwen Code
// 0.24.4 runs any program with find . -ex""ec, and Gemini CLI 0.61.0 writes any
// file with uniq a.txt {/path,}. So Runnel adds a rule to their default settings,
// by which they ask before each command. It comes before what the user allows in
// Qwen Code, and before what is allowed for a session of Gemini CLI.

// A defaultSettings describes the file with the default settings of an agent for
// all users of a machine.
type defaultSettings struct {
	variable string            // names the file
	settings string            // variable that names the settings for all users, which the file lies beside
	folders  map[string]string // folder of both if no variable names them, by operating system; "" is for all others
	ignores  []string          // variables with which the agent would ignore the rules in both
}

var (
	geminiDefaults = defaultSettings{"GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "GEMINI_CLI_SYSTEM_SETTINGS_PATH", map[string]string{
		"darwin": "/Library/Application Support/GeminiCli", "windows": `C:\ProgramData\gemini-cli`, "": "/etc/gemini-cli",
	}, nil}
	qwenDefaults = defaultSettings{"QWEN_CODE_SYSTEM_DEFAULTS_PATH", "QWEN_CODE_SYSTEM_SETTINGS_PATH", map[string]string{
		"darwin": "/Library/Application Support/QwenCode", "windows": `C:\ProgramData\qwen-code`, "": "/etc/qwen-code",
	}, []string{"QWEN_CODE_SAFE_MODE", "QWEN_CODE_SIMPLE"}}
)

// geminiAsks is a policy with which Gemini CLI asks before each command. A rule
// without argsPattern would not do that. The modes plan and yolo have rules of
// their own. Rules in the user's files have a higher priority, those of a session
// (3.95) have a lower one.
const geminiAsks = `[[rule]]
toolName = "run_shell_command"
argsPattern = ".*"
decision = "ask_user"
priority = 0
modes = ["default", "autoEdit"]
`

// geminiAskFirst returns env, changed so that Gemini CLI asks before each command.
func geminiAskFirst(env []string) ([]string, error) {
	return geminiWithPolicy(env, "ask.toml", geminiAsks)
}

// geminiWithPolicy returns env, changed so that Gemini CLI also reads a policy. name
// is the end of the name of its file. A list of policies replaces the folder of the user's policies, so that
// folder is added, unless the user or the machine has a list without it.
func geminiWithPolicy(env []string, name, content string) ([]string, error) {
	policy, err := agentconn.KeepSettings(name, []byte(content))
	if err != nil {
		return nil, err
	}
	home := filepath.Dir(geminiStored(env))
	mine, err := readPlain(filepath.Join(home, "settings.json"))
	if err != nil {
		mine = nil // the agent finds none either, or says what is wrong with it
	}
	listed := translate.DecodeLenient[struct {
		Paths []string `json:"policyPaths"`
	}](withoutComments(mine)).Paths
	return geminiDefaults.change(env, func(settings map[string]json.RawMessage) error {
		paths := []string{policy}
		if given := translate.DecodeLenient[[]string](settings["policyPaths"]); len(given)+len(listed) == 0 {
			paths = []string{filepath.Join(home, "policies"), policy}
		}
		return appendTo(settings, "policyPaths", paths...)
	})
}

// qwenOthers are subagents of Qwen Code that are programs of their own: Claude Code
// and Codex, as the PATH has them. Runnel would not start them in this way: in an
// untrusted folder, they run what the folder's settings name (0.24.4). A rule with a
// parameter ignores the case of its value, as Qwen Code does with names of subagents.
var qwenOthers = []string{"agent(subagent_type:claude-code)", "agent(subagent_type:codex)"}

// qwenAskFirst returns env, changed so that Qwen Code asks before each command and
// before it makes a worktree, and starts no other agent. A worktree may have the files
// of another repository, which the folder's .git names. By itself, Qwen Code starts
// other agents without asking in the mode auto-edit. In the mode yolo it asks about
// nothing.
func qwenAskFirst(env []string) ([]string, error) {
	return qwenDefaults.change(env, func(settings map[string]json.RawMessage) error {
		if err := permit(settings, "ask", "run_shell_command", "monitor", "enter_worktree"); err != nil {
			return err
		}
		if err := permit(settings, "deny", qwenOthers...); err != nil {
			return err
		}
		return qwenUnseen(settings)
	})
}

// geminiAlone is a policy with which Gemini CLI starts no subagent. By itself, it
// starts its own subagents without asking (0.61.0).
const geminiAlone = `[[rule]]
toolName = "invoke_agent"
decision = "deny"
priority = 999
`

// geminiNeverDelegates returns env, changed so that Gemini CLI starts no subagents.
func geminiNeverDelegates(env []string) ([]string, error) {
	return geminiWithPolicy(env, "alone.toml", geminiAlone)
}

// qwenNeverDelegates returns env, changed so that Qwen Code starts no subagents. By
// itself, it asks before that in the mode default only (0.24.4). Its skill "review"
// gives the model the tool "workflow", whose scripts start subagents, too.
func qwenNeverDelegates(env []string) ([]string, error) {
	return qwenDefaults.change(env, func(settings map[string]json.RawMessage) error {
		return permit(settings, "deny", "agent", "workflow")
	})
}

// readsKept adds to box the files of [agentconn.KeepSettings] that the agent reads
// with env. box may be nil.
func readsKept(box *agentconn.Enclosure, env []string) {
	if box != nil {
		box.Read = append(box.Read, keptSettings(env)...)
	}
}

// keptSettings returns the files of [agentconn.KeepSettings] that Gemini CLI or
// Qwen Code reads with this environment.
func keptSettings(env []string) (paths []string) {
	for _, d := range []defaultSettings{geminiDefaults, qwenDefaults} {
		for _, e := range env {
			path, ok := variable(e, d.variable)
			if !ok {
				continue
			}
			b, err := readPlain(path)
			if err != nil {
				continue // the agent then finds no such file in its sandbox
			}
			named := translate.DecodeLenient[struct {
				Policies []string `json:"policyPaths"`
			}](b).Policies
			paths = append(paths, path)
			paths = append(paths, slices.DeleteFunc(named, func(p string) bool { return filepath.Dir(p) != filepath.Dir(path) })...)
		}
	}
	return paths
}

// qwenUnseen adds to settings of Qwen Code that it neither sees the other Qwen Codes of
// the user nor sends them messages, which it would do without asking (0.24.4). In
// a sandbox it finds none.
func qwenUnseen(settings map[string]json.RawMessage) error {
	return within(settings, "agents", func(agents map[string]json.RawMessage) error {
		if agents["crossSessionMessaging"] == nil {
			agents["crossSessionMessaging"] = json.RawMessage("false")
		}
		return nil
	})
}

// permit appends tools to a list of the permissions in settings of Qwen Code.
func permit(settings map[string]json.RawMessage, list string, tools ...string) error {
	return within(settings, "permissions", func(permissions map[string]json.RawMessage) error {
		return appendTo(permissions, list, tools...)
	})
}

// within changes the settings that have a name in settings.
func within(settings map[string]json.RawMessage, name string, do func(map[string]json.RawMessage) error) error {
	named := map[string]json.RawMessage{}
	if given := settings[name]; given != nil {
		if err := json.Unmarshal(given, &named); err != nil {
			return err
		}
	}
	err := do(named)
	settings[name] = translate.Object(named)
	return err
}

// appendTo appends values to a list in settings.
func appendTo[T any](settings map[string]json.RawMessage, name string, values ...T) error {
	var list []json.RawMessage
	if given := settings[name]; given != nil {
		if err := json.Unmarshal(given, &list); err != nil {
			return err
		}
	}
	for _, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		list = append(list, b)
	}
	b, err := json.Marshal(list)
	settings[name] = b
	return err
}

// change returns env, changed so that it names a file that has the machine's
// default settings with a change.
func (d defaultSettings) change(env []string, do func(settings map[string]json.RawMessage) error) ([]string, error) {
	path := ""
	for _, e := range env {
		if v, ok := variable(e, d.settings); ok && v != "" && path == "" {
			path = filepath.Join(filepath.Dir(v), "system-defaults.json")
		}
		if v, ok := variable(e, d.variable); ok && v != "" {
			path = v
			break
		}
	}
	if path == "" {
		folder, ok := d.folders[runtime.GOOS]
		if !ok {
			folder = d.folders[""]
		}
		path = filepath.Join(folder, "system-defaults.json")
	}
	settings := map[string]json.RawMessage{}
	given, err := readPlain(path)
	if given = withoutComments(given); err == nil && len(bytes.TrimSpace(given)) > 0 {
		err = json.Unmarshal(given, &settings)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = do(settings)
	}
	if err != nil {
		return nil, runnel.Fail(runnel.SessionCreateFailed, "The default settings "+text.OneLine(path, 500)+" are not a JSON object that Runnel can read, so Runnel cannot make the agent ask before it runs commands. "+
			"Check the file, and remove trailing commas from it", err)
	}
	changed, err := agentconn.KeepSettings("defaults.json", translate.Object(settings))
	if err != nil {
		return nil, err
	}
	for _, name := range d.ignores { // a variable that is set is not set by files of the agent
		env = agentconn.SetVariable(env, name, "0")
	}
	return agentconn.SetVariable(env, d.variable, changed), nil
}

// withoutComments returns JSON in which each comment is replaced by a space, without
// a byte order mark. These agents allow // and /* */ in their settings.
func withoutComments(b []byte) []byte {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		n, comment := 1, false
		switch {
		case b[0] == '"':
			for n < len(b) && b[n] != '"' {
				if b[n] == '\\' {
					n++
				}
				n++
			}
			n = min(n+1, len(b))
		case bytes.HasPrefix(b, []byte("//")):
			if n, comment = bytes.IndexAny(b, "\r\n"), true; n < 0 {
				n = len(b)
			}
		case bytes.HasPrefix(b, []byte("/*")):
			if end := bytes.Index(b[2:], []byte("*/")); end >= 0 { // else the agent cannot read it either
				n, comment = 2+end+2, true
			}
		}
		if comment {
			out = append(out, ' ')
		} else {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return out
}

// readPlain reads a regular file of at most maxSettings bytes.
func readPlain(path string) ([]byte, error) {
	f, st, err := agentconn.OpenPlain(os.OpenFile, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st.Size() > maxSettings {
		return nil, errors.New("the file is too large")
	}
	return io.ReadAll(io.LimitReader(f, maxSettings))
}
