package acp

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
)

// enclosures has what the agents need in a sandbox. home is the user's home
// directory, xdg returns a directory of the XDG specification, and project is
// the folder of the session. Agents that are not in the table cannot run in a
// sandbox.
//
// An agent in a sandbox must not be able to write what the agent runs or obeys
// outside of one: downloaded programs, and repositories of checkpoints, whose
// settings git follows.
var enclosures = map[string]func(home string, xdg func(variable, usual string) string, project string) agentconn.Enclosure{
	"gemini": func(home string, _ func(string, string) string, _ string) agentconn.Enclosure { // 0.61.0
		own := filepath.Join(home, ".gemini")
		return agentconn.Enclosure{
			State: below(own, "tmp"), Logins: below(own, "oauth_creds.json", "google_accounts.json"),
			Read:    below(own, "settings.json", "trustedFolders.json", "GEMINI.md", "extensions", "commands", "skills", "policies"),
			Private: append(below(own, filepath.Join("tmp", "bin")), own),
			Hosts:   []string{"generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com", "www.googleapis.com"},
			Env:     []string{"GEMINI_SANDBOX=false"},
			Quiet:   []string{"GEMINI_TELEMETRY_ENABLED=false"}, // its statistics of use have no variable
		}
	},
	"qwen": func(home string, _ func(string, string) string, project string) agentconn.Enclosure { // 0.24.4
		own := filepath.Join(home, ".qwen")
		// The other folders of the project have agents that work in the background,
		// each with the mode in which the next session continues it, and scripts.
		// The folder of the project in tmp has prompts that every session sends by
		// itself at their times.
		kept := filepath.Join(own, "projects", notAlphanumeric.ReplaceAllString(project, "-"))
		return agentconn.Enclosure{
			State: below(kept, "chats", "memory"), Logins: below(own, "oauth_creds.json"),
			Read:    below(own, "settings.json", "trustedFolders.json", "QWEN.md", "extensions", "commands", "skills", "agents"),
			Private: []string{own},
			Hosts:   []string{"portal.qwen.ai", "chat.qwen.ai", "dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"},
			Env:     []string{"QWEN_SANDBOX=false"},
			Quiet:   []string{"QWEN_USAGE_STATISTICS_ENABLED=false", "QWEN_TELEMETRY_ENABLED=false", "QWEN_CODE_SKIP_UPDATE_CHECK_ONCE=true"},
		}
	},
	"opencode": func(home string, xdg func(string, string) string, project string) agentconn.Enclosure { // 1.18.33
		data, state, cache := filepath.Join(xdg("XDG_DATA_HOME", ".local/share"), "opencode"), filepath.Join(xdg("XDG_STATE_HOME", ".local/state"), "opencode"), filepath.Join(xdg("XDG_CACHE_HOME", ".cache"), "opencode")
		// A row of the database, or a login, can name a server that has further
		// settings. So the sandboxes of a project have a database of their own,
		// and the login is a copy.
		kept := filepath.Join(data, "runnel", digest(project)[:32])
		// The agent writes a .gitignore beside its settings, and does not start
		// without it.
		settings := filepath.Join(xdg("XDG_CONFIG_HOME", ".config"), "opencode")
		return agentconn.Enclosure{
			State:   []string{kept},
			Copies:  below(data, "auth.json"),
			Read:    entriesOf(settings),
			Private: []string{data, state, cache, settings}, // plugins that the agent loads from there would run outside of the sandbox
			Hosts:   []string{"opencode.ai", "models.opencode.ai", "models.dev", "api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"},
			Env:     []string{"OPENCODE_DB=" + filepath.Join(kept, "opencode.db")},
			Quiet:   []string{"OPENCODE_DISABLE_AUTOUPDATE=1"},
		}
	},
}

// maxEntries bounds the entries of a folder that are shown in a sandbox.
const maxEntries = 1000

// entriesOf returns the files and folders in a folder. It omits links, because
// they can lead to what a sandbox must not show.
func entriesOf(dir string) (paths []string) {
	root, names, err := agentconn.ListFolder(dir, maxEntries)
	if err != nil {
		return nil
	}
	defer root.Close()
	for _, name := range names {
		if info, err := root.Lstat(name); err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths
}

// notAlphanumeric matches what Qwen Code replaces in the path of a project.
var notAlphanumeric = regexp.MustCompile(`[^a-zA-Z0-9]`)

// digest returns a hash by which a folder for a project is named.
func digest(project string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(project))) }

func below(dir string, names ...string) (out []string) {
	for _, n := range names {
		out = append(out, filepath.Join(dir, n))
	}
	return out
}

// enclosure returns what the agent needs in a sandbox; nil if it cannot run in
// one.
func (a Agent) enclosure(env []string, project string) *agentconn.Enclosure {
	vars := make(map[string]string)
	for _, e := range proc.Environ(env, []string{"HOME", "XDG_*"}, nil) {
		if name, value, ok := strings.Cut(e, "="); ok {
			vars[name] = value
		}
	}
	home, of := vars["HOME"], enclosures[a.Name]
	if of == nil || home == "" {
		return nil
	}
	if project == "" {
		project, _ = os.Getwd() // Start fails without it
	}
	out := of(home, func(variable, usual string) string {
		if dir := vars[variable]; filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(home, filepath.FromSlash(usual))
	}, project)
	return &out
}

// Quiet returns the settings by which an agent, in a sandbox, sends no telemetry
// and searches for no updates; nil for an agent that cannot run in one.
func Quiet(agent string) []string {
	of := enclosures[agent]
	if of == nil {
		return nil
	}
	return of("/", func(_, usual string) string { return "/" + usual }, "/").Quiet // which depends on no folder
}
