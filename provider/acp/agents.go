package acp

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/broker"
)

// Agent describes a program that speaks the Agent Client Protocol. Deviations
// of a known agent from the protocol are in its quirks_*.go file; byName finds
// them by Name.
type Agent struct {
	Name            string   // provider name: lower-case letters, digits and dashes
	Kind            string   // agent kind in the API. Default: Name with underscores
	DisplayName     string   // Default: Name
	Command         []string // program (looked up in PATH if it is a bare name) and its arguments
	Install         string   // command that installs it
	Login           string   // command that logs in
	Version         int      // protocol version to request. Default: 1
	Env             []string // "K=V" variables, such as those that disable updates and telemetry
	Inherit         []string // names of further variables to pass on; a final "*" matches any suffix
	Modes           Modes    // labels for permission modes whose names are misleading
	BypassVariables []string // variables that allow tools without asking; removed unless bypass is allowed
	SettingsFiles   []string // files in a folder that can configure the agent; see trust.go
	ContextFiles    []string // files in a folder that the agent sends to the model
	Imports         bool     // a context file can name other files behind an "@", which the agent sends to the model, too
	NestedFiles     []string // names of files that the agent sends to the model when it reads a file beside or below them

	// Key names the environment variables for the agent's API key. The zero
	// value means that Runnel passes no API key to the agent.
	Key agentconn.Key

	// Shares is the name of the provider whose agent stores the conversations,
	// if that is another agent.
	Shares string

	Efforts   []string // values for the reasoning effort; a model may support fewer
	AnyEffort bool     // the values are known only once a conversation is open

	ReportsCost bool // reports the cost of each turn

	Resumes bool // can resume a conversation in a new process
	Loads   bool // can replay a stored conversation
	Lists   bool // can list stored conversations
	Forks   bool // can continue a copy of a conversation
	AddDirs bool // accepts additional directories
	Probes  bool // stores no conversation without a prompt, so a probe may open one
	Gated   bool // opens a conversation only after a login
}

// Modes maps a permission mode to a short description for users.
type Modes = map[string]string

// inheritAll names the proxy variables, which every agent inherits.
var inheritAll = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}

// agents lists the known agents.
var agents = []Agent{
	{
		Name: "codex-acp", DisplayName: "Codex (ACP)", Command: []string{"codex-acp"}, Version: 2, Shares: "codex",
		Install: "npm install -g @agentclientprotocol/codex-acp", Login: "codex login",
		Env:     []string{"NO_BROWSER=1"},
		Inherit: []string{"CODEX_*", "OPENAI_*", "MODEL_PROVIDER", "INITIAL_AGENT_MODE"},
		Modes: Modes{
			string(runnel.ModeDefault):     "Ask only outside the project",
			string(runnel.ModeAcceptEdits): "Ask only outside the project",
		},
		SettingsFiles: []string{".codex"}, // the agent trusts every folder
		ContextFiles:  []string{"AGENTS.md", "AGENTS.override.md", ".agents/skills"},
		Efforts:       []string{"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"},
		Resumes:       true, Loads: true, Lists: true, Forks: true, AddDirs: true, Probes: true, Gated: true,
	},
	{
		Name: "claude-agent-acp", DisplayName: "Claude Agent (ACP)", Command: []string{"claude-agent-acp"}, Shares: "claude-code",
		Install: "npm install -g @agentclientprotocol/claude-agent-acp", Login: "claude auth login",
		Env:             []string{"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_EAGER_FLUSH=1"}, // store the whole turn before reporting its end
		Inherit:         []string{"ANTHROPIC_*", "CLAUDE_*", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "MAX_THINKING_TOKENS", "IS_SANDBOX"},
		BypassVariables: []string{"CLAUDE_CODE_EVEN_MORE_DANGEROUSLY_SKIP_PERMISSIONS"},
		Key: agentconn.Key{
			Variables: []string{"ANTHROPIC_API_KEY", "CHIRALITY_ANTHROPIC_API_KEY"}, Others: []string{"ANTHROPIC_AUTH_TOKEN"},
			Logins:   []string{"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_REFRESH_TOKEN"},
			Endpoint: agentconn.Endpoint{Variable: "ANTHROPIC_BASE_URL", Default: "https://api.anthropic.com", Header: broker.XAPIKey},
		},
		ReportsCost: true,
		Efforts:     []string{"default", "low", "medium", "high", "xhigh", "max"},
		Resumes:     true, Loads: true, Lists: true, Forks: true, AddDirs: true, Probes: true,
	},
	{
		Name: "opencode", DisplayName: "opencode", Command: []string{"opencode", "acp"},
		Install: "npm install -g opencode-ai", Login: "opencode auth login",
		Env:             []string{"OPENCODE_DISABLE_AUTOUPDATE=1"},
		Inherit:         []string{"OPENCODE_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY", "OPENROUTER_API_KEY", "XAI_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY"},
		BypassVariables: []string{"OPENCODE_PERMISSION"},
		SettingsFiles:   []string{"**/.opencode", "**/opencode.json", "**/opencode.jsonc"}, // OPENCODE_DISABLE_PROJECT_CONFIG does not disable plugins
		NestedFiles:     []string{"AGENTS.md", "CLAUDE.md", "CONTEXT.md"},                  // OPENCODE_DISABLE_PROJECT_CONFIG does not disable these either
		ReportsCost:     true,
		AnyEffort:       true, // the values are the model's variants, and a configuration can add more
		Resumes:         true, Loads: true, Lists: true, Forks: true,
	},
	{
		Name: "gemini", Kind: "gemini_cli", DisplayName: "Gemini CLI", Command: []string{"gemini", "--acp"},
		Install: "npm install -g @google/gemini-cli", Login: "gemini",
		Env:     []string{"GEMINI_CLI_NO_RELAUNCH=true"},
		Inherit: []string{"GEMINI_*", "GOOGLE_*"},
		Key: agentconn.Key{
			Variables: []string{"GEMINI_API_KEY"}, Others: []string{"GOOGLE_API_KEY"}, Logins: []string{"GOOGLE_APPLICATION_CREDENTIALS"},
			Endpoint: agentconn.Endpoint{Variable: "GOOGLE_GEMINI_BASE_URL", Default: "https://generativelanguage.googleapis.com", Header: broker.XGoogAPIKey},
		},
		Resumes: true, Probes: true, Gated: true,
	},
	{
		Name: "copilot", DisplayName: "GitHub Copilot", Command: []string{"copilot", "--acp"},
		Install: "npm install -g @github/copilot", Login: "copilot login",
		Env:             []string{"COPILOT_AUTO_UPDATE=false"},
		Inherit:         []string{"COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST"},
		BypassVariables: []string{"COPILOT_ALLOW_ALL"},
		SettingsFiles: []string{ // hooks can allow every tool; files in .github/agents and .claude/agents can start MCP servers
			".github/hooks", ".github/copilot", ".github/extensions", ".github/mcp.json", ".github/lsp.json", ".github/agents",
			".mcp.json", ".vscode/mcp.json", ".copilot", ".claude/settings.json", ".claude/settings.local.json", ".claude/agents",
		},
		ContextFiles: []string{ // the agent reads these even with --no-custom-instructions
			"AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md", ".github/instructions",
			".github/skills", ".agents/skills", ".claude/skills", ".claude/commands", ".claude/rules",
		},
		Resumes: true, Loads: true, Lists: true, // 1.0.102 offers no reasoning efforts
	},
	{
		Name: "qwen", DisplayName: "Qwen Code", Command: []string{"qwen", "--acp"},
		Install: "npm install -g @qwen-code/qwen-code", Login: "qwen",
		Env:     []string{"QWEN_CODE_NO_RELAUNCH=true"},
		Inherit: []string{"QWEN_*", "OPENAI_*", "DASHSCOPE_*"},
		Key: agentconn.Key{
			Variables: []string{"OPENAI_API_KEY"}, Others: []string{"DASHSCOPE_API_KEY"},
			Endpoint: agentconn.Endpoint{Variable: "OPENAI_BASE_URL", Default: "https://api.openai.com/v1", Header: broker.Bearer},
		},
		SettingsFiles: []string{".qwen", "**/.qwen/.env", "**/.env", ".mcp.json", ".agents/skills"}, // a skill can allow tools and run hooks
		ContextFiles:  []string{"**/QWEN.md", "**/AGENTS.md"},
		Imports:       true,
		Resumes:       true, Loads: true, Lists: true, // 0.24.4 offers no reasoning efforts for models of the environment
	},
}

// Providers returns a new provider for each known agent.
func Providers() []runnel.Provider {
	out := make([]runnel.Provider, 0, len(agents))
	for _, a := range agents {
		out = append(out, New(a))
	}
	return out
}

func (a Agent) conn() agentconn.Agent {
	name := a.DisplayName
	if name == "" {
		name = a.Name
	}
	try := ""
	if len(a.Command) > 0 {
		try = a.Command[0] + " --version"
	}
	return agentconn.Agent{Name: name, Install: a.Install, Try: try}
}

func (a Agent) quirks() *quirks {
	if of := byName[a.Name]; of != nil {
		return of()
	}
	return &quirks{}
}
