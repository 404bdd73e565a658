package acp

import (
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
)

// enclosures has what the agents need in a sandbox. home is the user's home
// directory, and xdg returns a directory of the XDG specification. Agents that
// are not in the table cannot run in a sandbox.
var enclosures = map[string]func(home string, xdg func(variable, usual string) string) agentconn.Enclosure{
	"gemini": func(home string, _ func(string, string) string) agentconn.Enclosure { // 0.61.0
		own := filepath.Join(home, ".gemini")
		return agentconn.Enclosure{
			State: below(own, "tmp", "history"), Logins: below(own, "oauth_creds.json", "google_accounts.json"),
			Read:    below(own, "settings.json", "trustedFolders.json", "GEMINI.md", "extensions", "commands", "skills", "policies"),
			Private: []string{own},
			Hosts:   []string{"generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com", "www.googleapis.com"},
			Env:     []string{"GEMINI_TELEMETRY_ENABLED=false", "GEMINI_SANDBOX=false"},
		}
	},
	"qwen": func(home string, _ func(string, string) string) agentconn.Enclosure { // 0.24.4
		own := filepath.Join(home, ".qwen")
		return agentconn.Enclosure{
			State: below(own, "projects", "tmp"), Logins: below(own, "oauth_creds.json"),
			Read:    below(own, "settings.json", "trustedFolders.json", "QWEN.md", "extensions", "commands", "skills", "agents"),
			Private: []string{own},
			Hosts:   []string{"portal.qwen.ai", "chat.qwen.ai", "dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"},
			Env:     []string{"QWEN_SANDBOX=false"},
		}
	},
	"opencode": func(home string, xdg func(string, string) string) agentconn.Enclosure {
		data, state, cache := filepath.Join(xdg("XDG_DATA_HOME", ".local/share"), "opencode"), filepath.Join(xdg("XDG_STATE_HOME", ".local/state"), "opencode"), filepath.Join(xdg("XDG_CACHE_HOME", ".cache"), "opencode")
		return agentconn.Enclosure{
			State:   []string{data, state},
			Read:    []string{filepath.Join(xdg("XDG_CONFIG_HOME", ".config"), "opencode"), filepath.Join(data, "bin")},
			Private: []string{cache}, // plugins that the agent loads from there would run outside of the sandbox
			Hosts:   []string{"opencode.ai", "models.dev", "api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"},
		}
	},
}

func below(dir string, names ...string) (out []string) {
	for _, n := range names {
		out = append(out, filepath.Join(dir, n))
	}
	return out
}

// enclosure returns what the agent needs in a sandbox; nil if it cannot run in
// one.
func (a Agent) enclosure(env []string) *agentconn.Enclosure {
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
	out := of(home, func(variable, usual string) string {
		if dir := vars[variable]; filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(home, filepath.FromSlash(usual))
	})
	return &out
}
