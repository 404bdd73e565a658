package realagents

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// An agent describes how a program is found, started and isolated.
type agent struct {
	module  string // under node_modules
	command string // its key in "bin" of the module's package.json
	args    []string
	environ func(Home) []string
	files   func(Home) map[string]string // its configuration files, by path

	// newerNode starts the program with the Node.js in node_modules, even if the
	// program also runs with an older one, because of compiled.
	newerNode bool
}

// agents are the programs that Runnel drives, by provider name.
var agents = map[string]agent{
	"claude-code": {module: "claude-code", command: "claude", environ: Home.claude},
	"codex":       {module: "@openai/codex", command: "codex", args: []string{"app-server"}, environ: Home.codex, files: Home.codexFiles},
	"codex-acp": {module: "@agentclientprotocol/codex-acp", command: "codex-acp", environ: func(h Home) []string {
		// In its default mode, "agent", a model decides about permissions.
		return append(h.codex(), h.compiled(), "NO_BROWSER=1", "INITIAL_AGENT_MODE=workspace-write")
	}, files: Home.codexFiles, newerNode: true},
	"claude-agent-acp": {module: "@agentclientprotocol/claude-agent-acp", command: "claude-agent-acp", environ: func(h Home) []string {
		return append(append(h.claude(), h.xdg()...), h.compiled())
	}},
	"gemini":   {module: "@google/gemini-cli", command: "gemini", args: []string{"--acp"}, environ: Home.gemini, files: Home.geminiFiles, newerNode: true},
	"opencode": {module: "opencode-ai", command: "opencode", args: []string{"acp"}, environ: Home.opencode, files: Home.opencodeFiles},
	"copilot":  {module: "@github/copilot", command: "copilot", args: []string{"--acp"}, environ: Home.copilot},
	"qwen":     {module: "@qwen-code/qwen-code", command: "qwen", args: []string{"--acp"}, environ: Home.qwen, files: Home.qwenFiles},
}

// EnvironFor returns the environment of an agent without PATH. It contains only
// the model API on loopback and only directories of this Home. It disables
// telemetry, updates and other outgoing connections. API keys are dummies,
// which the model API accepts. All Homes share the files that agents unpack or
// compile at their first start on a machine.
func (h Home) EnvironFor(name string) []string {
	a, ok := agents[name]
	if !ok {
		panic(fmt.Sprintf("realagents: no agent %q", name))
	}
	return a.environ(h)
}

// Environ returns EnvironFor("claude-code").
func (h Home) Environ() []string { return h.claude() }

// xdg returns the variables for directories that all agents use.
func (h Home) xdg() []string {
	return []string{
		"HOME=" + h.Dir,
		"TMPDIR=" + h.Tmp,
		"XDG_CONFIG_HOME=" + filepath.Join(h.Dir, ".config"),
		"XDG_DATA_HOME=" + filepath.Join(h.Dir, ".local", "share"),
		"XDG_STATE_HOME=" + filepath.Join(h.Dir, ".local", "state"),
		"XDG_CACHE_HOME=" + filepath.Join(h.Dir, ".cache"),
	}
}

// compiled returns the variable for the directory in which Node.js, from version
// 22 on, stores the compiled code of programs. Reading it takes a quarter of the
// time of compiling.
func (h Home) compiled() string {
	return "NODE_COMPILE_CACHE=" + filepath.Join(h.caches, "node")
}

func (h Home) claude() []string {
	env := []string{
		"HOME=" + h.Dir,
		"CLAUDE_CONFIG_DIR=" + h.Config,
		"ANTHROPIC_BASE_URL=" + h.modelURL,
		"ANTHROPIC_API_KEY=dummy",
		"DISABLE_TELEMETRY=1",
		"DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}
	if os.Getuid() == 0 {
		env = append(env, "IS_SANDBOX=1") // without it, Claude Code as root refuses to skip permissions
	}
	return env
}

// codex returns the environment of Codex. TMPDIR does not contain CODEX_HOME:
// Codex puts its sandbox helper into CODEX_HOME, and refuses to do so in a
// temporary directory.
func (h Home) codex() []string {
	return append(h.xdg(), "CODEX_HOME="+h.Codex, "CODEX_FAKE_API_KEY=dummy")
}

func (h Home) codexFiles() map[string]string {
	// The model is in Codex's catalogue, because Codex gives an unknown model
	// fewer tools. Few and fast retries keep tests of failures short.
	return map[string]string{filepath.Join(h.Codex, "config.toml"): fmt.Sprintf(`model = "gpt-5.5"
model_provider = "fake"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = %q
env_key = "CODEX_FAKE_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 2
stream_idle_timeout_ms = 5000

[analytics]
enabled = false

[feedback]
enabled = false

[features] # they send requests to chatgpt.com and api.github.com
apps = false
plugins = false
remote_plugin = false
`, h.modelURL+"/v1")}
}

func (h Home) gemini() []string {
	return append(h.xdg(),
		h.compiled(),
		"GEMINI_API_KEY=dummy",
		"GOOGLE_GEMINI_BASE_URL="+h.modelURL,
		"GEMINI_CLI_NO_RELAUNCH=true",    // otherwise it restarts itself with a bigger heap
		"GEMINI_TELEMETRY_ENABLED=false", // for OpenTelemetry; its settings file disables statistics
		"GEMINI_CLI_SYSTEM_SETTINGS_PATH="+filepath.Join(h.Dir, "no-system-settings.json"),
		"GEMINI_CLI_SYSTEM_DEFAULTS_PATH="+filepath.Join(h.Dir, "no-system-defaults.json"),
	)
}

func (h Home) geminiFiles() map[string]string {
	return map[string]string{filepath.Join(h.Dir, ".gemini", "settings.json"): object{
		"security":  object{"auth": object{"selectedType": "gemini-api-key"}},
		"privacy":   object{"usageStatisticsEnabled": false},
		"telemetry": object{"enabled": false},
		"general":   object{"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
		"tools":     object{"useRipgrep": false}, // it would download ripgrep
	}.json()}
}

func (h Home) qwen() []string {
	return append(h.xdg(),
		h.compiled(),
		"OPENAI_API_KEY=dummy",
		"OPENAI_BASE_URL="+h.modelURL+"/v1",
		"OPENAI_MODEL=fake-model",
		"QWEN_CODE_NO_RELAUNCH=true",
		"QWEN_CODE_SYSTEM_SETTINGS_PATH="+filepath.Join(h.Dir, "no-system-settings.json"),
		"QWEN_CODE_SYSTEM_DEFAULTS_PATH="+filepath.Join(h.Dir, "no-system-defaults.json"),
	)
}

func (h Home) qwenFiles() map[string]string {
	return map[string]string{filepath.Join(h.Dir, ".qwen", "settings.json"): object{
		"$version":  3,
		"security":  object{"auth": object{"selectedType": "openai"}},
		"privacy":   object{"usageStatisticsEnabled": false},
		"telemetry": object{"enabled": false},
		// Without preventSystemSleep, Qwen Code starts two processes in each turn.
		"general": object{"enableAutoUpdate": false, "preventSystemSleep": false},
		"tools": object{
			"useRipgrep": false,
			"todoWrite":  object{"enabled": true}, // off by default
			// By default, Qwen Code runs commands in a terminal. On a busy
			// machine, a command that ends at once can then fail with a hangup
			// (0.24.4).
			"shell": object{"enableInteractiveShell": false},
		},
	}.json()}
}

func (h Home) opencode() []string {
	model := object{
		"name": "Fake", "attachment": true, "reasoning": true, "tool_call": true,
		"limit":      object{"context": 200_000, "output": 32_000},
		"modalities": object{"input": []string{"text", "image"}, "output": []string{"text"}},
	}
	config := object{
		"model": "fake/fake-model", "small_model": "fake/fake-model", "autoupdate": false, "share": "disabled",
		"enabled_providers": []string{"fake"},
		"provider": object{"fake": object{
			"npm": "@ai-sdk/openai-compatible", "name": "Fake", // built into OpenCode
			"options": object{"baseURL": h.modelURL + "/v1", "apiKey": "dummy"},
			"models":  object{"fake-model": model},
		}},
	}
	return append(h.xdg(),
		"OPENCODE_CONFIG_CONTENT="+config.json(),
		"OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"npm_config_registry="+h.modelURL+"/npm", // OpenCode would install type definitions for plugins; the model server has none
	)
}

// opencodeFiles is an empty list of models in the cache. Without it, OpenCode reads
// its built-in list of thousands at each start, which takes two seconds.
func (h Home) opencodeFiles() map[string]string {
	return map[string]string{filepath.Join(h.Dir, ".cache", "opencode", "models.json"): "{}"}
}

func (h Home) copilot() []string {
	return append(h.xdg(),
		h.compiled(),
		"COPILOT_HOME="+filepath.Join(h.Dir, ".copilot"),
		"COPILOT_PKG_CACHE_HOME="+filepath.Join(h.caches, "copilot"), // at its first start, it unpacks its program of 235 MB
		"COPILOT_OFFLINE=true", // no GitHub, no telemetry
		"COPILOT_AUTO_UPDATE=false",
		"COPILOT_PROVIDER_BASE_URL="+h.modelURL+"/v1",
		"COPILOT_PROVIDER_API_KEY=dummy",
		"COPILOT_PROVIDER_WIRE_API=completions",
		"COPILOT_MODEL=gpt-4.1", // Copilot's catalogue has this model and its limits
	)
}

type object map[string]any

func (o object) json() string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // unreachable: all values can be encoded
	}
	return string(b)
}
