package acp

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// A stateFolder is where an agent stores files outside of projects.
type stateFolder struct {
	names    []string // paths in the home directory
	variable string   // variable that names another directory; "" if none does
	further  []string // variables that name further files or directories that the agent obeys or stores
	inHome   bool     // the variable replaces the home directory, instead of the folder
	inCache  string   // path in the user's directory for caches; "" if there is none

	temporary []string // names of agentconn.TempPaths
}

// stateFolders has the folders of the agents, in addition to those of
// enclosures.
var stateFolders = map[string]stateFolder{
	"claude-agent-acp": {names: []string{".claude", ".claude.json"}, variable: "CLAUDE_CONFIG_DIR", further: []string{
		"CLAUDE_ENV_FILE", "CLAUDE_CODE_MANAGED_SETTINGS_PATH", "CLAUDE_CODE_PLUGIN_CACHE_DIR", "CLAUDE_CODE_PLUGIN_SEED_DIR", "CLAUDE_CODE_PLUGIN_DIRS",
	}, temporary: []string{"claude-"}},
	"codex-acp": {names: []string{".codex"}, variable: "CODEX_HOME", further: []string{"CODEX_SQLITE_HOME"}, temporary: []string{"codex-bwrap-synthetic-mount-targets-"}},
	"copilot":   {names: []string{".copilot", ".config/github-copilot", ".cache/copilot"}, variable: "COPILOT_HOME", inCache: "copilot", temporary: []string{"node-compile-cache"}},
	"gemini":    {names: []string{".gemini"}, variable: "GEMINI_CLI_HOME", inHome: true, further: []string{"GEMINI_CLI_SYSTEM_SETTINGS_PATH", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "GEMINI_CLI_TRUSTED_FOLDERS_PATH"}, temporary: []string{"gemini/ide"}},
	"opencode":  {names: []string{".opencode", ".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"}, variable: "OPENCODE_CONFIG_DIR", further: []string{"OPENCODE_CONFIG", "OPENCODE_DB"}, temporary: []string{"opencode"}},
	"qwen": {names: []string{".qwen"}, variable: "QWEN_HOME", further: []string{
		"QWEN_CODE_SYSTEM_SETTINGS_PATH", "QWEN_CODE_SYSTEM_DEFAULTS_PATH", "QWEN_CODE_TRUSTED_FOLDERS_PATH", "QWEN_CODE_MCP_APPROVALS_PATH",
		"QWEN_RUNTIME_DIR", "QWEN_CODE_MEMORY_BASE_DIR", "QWEN_CODE_MANAGED_NPM_ROOT",
	}},
}

// StatePaths implements [runnel.StateKeeper].
func (p *provider) StatePaths() (paths []string) {
	env := p.environ(os.Environ(), runnel.Options{})
	folder := stateFolders[p.agent.Name]
	for _, name := range folder.names {
		paths = append(paths, inHome(filepath.FromSlash(name))(env))
	}
	for _, e := range env {
		if dir, ok := variable(e, "XDG_CACHE_HOME"); ok && folder.inCache != "" && filepath.IsAbs(dir) {
			paths = append(paths, filepath.Join(dir, folder.inCache))
		}
		dir, ok := variable(e, folder.variable)
		switch {
		case !ok || folder.variable == "" || !filepath.IsAbs(dir):
		case folder.inHome:
			paths = append(paths, below(dir, folder.names...)...)
		default:
			paths = append(paths, dir)
		}
	}
	paths = slices.Concat(paths, agentconn.NamedPaths(env, folder.further...), agentconn.TempPaths(env, folder.temporary...))
	if needs := p.agent.enclosure(env, ""); needs != nil {
		paths = slices.Concat(paths, needs.State, needs.Logins, needs.Copies, needs.Read, needs.Private)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !filepath.IsAbs(path) })
}
