package realagents

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// silencing matches the variables by which EnvironFor keeps agents from sending
// anything but requests to the model.
var silencing = regexp.MustCompile(`^(DISABLE_TELEMETRY|DISABLE_AUTOUPDATER|CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC|GEMINI_TELEMETRY_ENABLED|OPENCODE_DISABLE_\w+|npm_config_registry)=`)

// AsInstalled returns EnvironFor(name) without anything that keeps the agent
// quiet, and removes it from the agent's configuration files. The model stays
// the one on loopback.
func (h Home) AsInstalled(t testing.TB, name string) []string {
	t.Helper()
	env := slices.DeleteFunc(h.EnvironFor(name), silencing.MatchString)
	for i, e := range env {
		env[i] = strings.NewReplacer(`"autoupdate":false,`, "", `"share":"disabled",`, "").Replace(e)
	}
	switch name {
	case "codex":
		path := filepath.Join(h.Codex, "config.toml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		config, _, _ := strings.Cut(string(text), "[analytics]")
		write(t, path, strings.Replace(config, "check_for_update_on_startup = false\n", "", 1))
	case "gemini":
		write(t, filepath.Join(h.Dir, ".gemini", "settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`)
	case "qwen":
		write(t, filepath.Join(h.Dir, ".qwen", "settings.json"), `{"$version":3,"security":{"auth":{"selectedType":"openai"}}}`)
	}
	return env
}
