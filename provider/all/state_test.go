package all

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/runnel-dev/runnel"
)

// statePaths returns the paths of the state of all agents.
func statePaths() (paths []string) {
	for _, p := range Providers() {
		if keeper, ok := p.(runnel.StateKeeper); ok {
			paths = append(paths, keeper.StatePaths()...)
		}
	}
	return paths
}

func TestProvidersKnowTheStateOfTheirAgents(t *testing.T) {
	t.Chdir(t.TempDir()) // each change of this repository would make go test run the test again
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	moved := map[string]string{ // of each variable, the path in its directory
		"CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "COPILOT_HOME": "", "GEMINI_CLI_HOME": ".gemini", "OPENCODE_CONFIG_DIR": "", "QWEN_HOME": "",
		"XDG_CONFIG_HOME": "opencode", "XDG_DATA_HOME": "opencode", "XDG_STATE_HOME": "opencode", "XDG_CACHE_HOME": "opencode",
	}
	usual := []string{".config/anthropic", ".local/share/claude", ".local/state/claude", ".cache/copilot", ".claude", ".claude.json", ".codex", ".copilot", ".config/github-copilot", ".gemini", ".qwen", ".opencode", ".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"}
	for _, name := range []string{
		"CLAUDE_CODE_MANAGED_SETTINGS_PATH", "CLAUDE_CODE_PLUGIN_SEED_DIR", "CLAUDE_ENV_FILE", "CODEX_SQLITE_HOME", "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
		"GEMINI_CLI_TRUSTED_FOLDERS_PATH", "OPENCODE_CONFIG", "QWEN_CODE_SYSTEM_DEFAULTS_PATH", "QWEN_RUNTIME_DIR",
	} {
		moved[name] = ""
	}
	check := func(paths []string) {
		t.Helper()
		for _, name := range usual {
			if !slices.Contains(paths, filepath.Join(home, name)) {
				t.Errorf("~/%s is not the state of any agent: %q", name, paths)
			}
		}
		if slices.ContainsFunc(paths, func(p string) bool { return !filepath.IsAbs(p) || p == home || p == "/" }) {
			t.Errorf("got %q", paths)
		}
	}
	check(statePaths())
	for name, in := range moved {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(home, "elsewhere", name)
			t.Setenv(name, dir)
			paths := statePaths()
			check(paths)
			if !slices.Contains(paths, filepath.Join(dir, in)) {
				t.Errorf("%s is not the state of any agent: %q", filepath.Join(dir, in), paths)
			}
			if name == "XDG_CACHE_HOME" && !slices.Contains(paths, filepath.Join(dir, "copilot")) {
				t.Errorf("the programs in %s are not the state of any agent: %q", filepath.Join(dir, "copilot"), paths)
			}
		})
	}
	t.Run("temporary files", func(t *testing.T) {
		dir, user := filepath.Join(home, "temporary"), strconv.Itoa(os.Geteuid())
		t.Setenv("TMPDIR", dir)
		paths := statePaths()
		for _, name := range []string{"runnel-" + user, "claude-" + user, "codex-bwrap-synthetic-mount-targets-" + user, "opencode", "node-compile-cache", "gemini/ide"} {
			if !slices.Contains(paths, filepath.Join(dir, name)) || slices.Contains(paths, dir) {
				t.Errorf("%s among the temporary files is not the state of any agent: %q", name, paths)
			}
		}
	})
	for _, p := range Providers() {
		keeper, ok := p.(runnel.StateKeeper)
		if _, runs := p.(runnel.Programmable); runs && (!ok || len(keeper.StatePaths()) == 0) {
			t.Errorf("%s does not know the state of its agent", p.Name())
		}
	}
}
