package acp

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// An Agent describes a program that speaks the protocol. Its deviations from
// the protocol are its quirks, which are found by its name.
type Agent struct {
	Name        string   // of the provider: letters, digits and dashes, in lower case
	Kind        string   // in the universal API. Default: Name with underscores
	DisplayName string   // Default: Name
	Command     []string // program, looked up in PATH if it is a bare name, and its arguments
	Install     string   // command that installs it
	Login       string   // command that logs in
	Version     int      // of the protocol, as requested. Default: 1
	Env         []string // "K=V": no updates, no calls home
	Inherit     []string // further variables of our environment that it gets; "*" ends a prefix
	Modes       Modes    // what permission modes do that their names do not say
	Refuse      []string // variables that would make it run tools without asking
	Obeys       []string // files of a folder that it always obeys; see trust.go
	Reads       []string // files of a folder that it shows to the model

	// Key is the API key that the agent takes from its environment. Default: it
	// takes none from us.
	Key agentconn.Key

	Efforts   []string // words for the reasoning effort; a model may have fewer
	AnyEffort bool     // only a conversation shows the words

	Resumes bool // a conversation can be resumed after its process ended
	Loads   bool // a conversation can be shown
	Lists   bool // conversations can be listed
	Forks   bool // a conversation can be continued as a copy
	AddDirs bool // it takes further directories
	Probes  bool // a conversation without a prompt leaves nothing behind, so a probe may open one
	Gated   bool // it opens no conversation without a login
}

// Modes are a few words for each permission mode, by mode.
type Modes = map[string]string

// inheritAll are the variables that every agent gets: proxies.
var inheritAll = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}

// agents are the known agents.
var agents = []Agent{
	{
		Name: "codex-acp", DisplayName: "Codex (ACP)", Command: []string{"codex-acp"}, Version: 2,
		Install: "npm install -g @agentclientprotocol/codex-acp", Login: "codex login",
		Env:     []string{"NO_BROWSER=1"},
		Inherit: []string{"CODEX_*", "OPENAI_*", "MODEL_PROVIDER", "INITIAL_AGENT_MODE"},
		Modes: Modes{
			string(runnel.ModeDefault):     "Ask only outside the project",
			string(runnel.ModeAcceptEdits): "Ask only outside the project",
		},
		Obeys:   []string{".codex"}, // it trusts every folder
		Reads:   []string{"AGENTS.md", "AGENTS.override.md", ".agents/skills"},
		Efforts: []string{"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"},
		Resumes: true, Loads: true, Lists: true, Forks: true, AddDirs: true, Probes: true, Gated: true,
	},
	{
		Name: "claude-agent-acp", DisplayName: "Claude Agent (ACP)", Command: []string{"claude-agent-acp"},
		Install: "npm install -g @agentclientprotocol/claude-agent-acp", Login: "claude auth login",
		Env:     []string{"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_EAGER_FLUSH=1"}, // the stored conversation is complete when a turn ends
		Inherit: []string{"ANTHROPIC_*", "CLAUDE_*", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "MAX_THINKING_TOKENS", "IS_SANDBOX"},
		Refuse:  []string{"CLAUDE_CODE_EVEN_MORE_DANGEROUSLY_SKIP_PERMISSIONS"},
		Key:     agentconn.Key{Variables: []string{"ANTHROPIC_API_KEY", "CHIRALITY_ANTHROPIC_API_KEY"}, Others: []string{"ANTHROPIC_AUTH_TOKEN"}},
		Efforts: []string{"default", "low", "medium", "high", "xhigh", "max"},
		Resumes: true, Loads: true, Lists: true, Forks: true, AddDirs: true, Probes: true,
	},
	{
		Name: "opencode", DisplayName: "opencode", Command: []string{"opencode", "acp"},
		Install: "npm install -g opencode-ai", Login: "opencode auth login",
		Env:       []string{"OPENCODE_DISABLE_AUTOUPDATE=1"},
		Inherit:   []string{"OPENCODE_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY", "OPENROUTER_API_KEY", "XAI_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY"},
		Refuse:    []string{"OPENCODE_PERMISSION"},
		Obeys:     []string{"**/.opencode", "**/opencode.json", "**/opencode.jsonc"}, // it loads plugins also with OPENCODE_DISABLE_PROJECT_CONFIG
		AnyEffort: true,                                                              // a model's variants, which a configuration can name
		Resumes:   true, Loads: true, Lists: true, Forks: true,
	},
	{
		Name: "gemini", Kind: "gemini_cli", DisplayName: "Gemini CLI", Command: []string{"gemini", "--acp"},
		Install: "npm install -g @google/gemini-cli", Login: "gemini",
		Env:     []string{"GEMINI_CLI_NO_RELAUNCH=true"},
		Inherit: []string{"GEMINI_*", "GOOGLE_*"},
		Key:     agentconn.Key{Variables: []string{"GEMINI_API_KEY"}, Others: []string{"GOOGLE_API_KEY"}},
		Resumes: true, Probes: true, Gated: true,
	},
	{
		Name: "copilot", DisplayName: "GitHub Copilot", Command: []string{"copilot", "--acp"},
		Install: "npm install -g @github/copilot", Login: "copilot login",
		Env:     []string{"COPILOT_AUTO_UPDATE=false"},
		Inherit: []string{"COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST"},
		Refuse:  []string{"COPILOT_ALLOW_ALL"},
		Obeys: []string{ // hooks of a folder may even allow every tool, and agents have MCP servers
			".github/hooks", ".github/copilot", ".github/extensions", ".github/mcp.json", ".github/lsp.json", ".github/agents",
			".mcp.json", ".vscode/mcp.json", ".copilot", ".claude/settings.json", ".claude/settings.local.json", ".claude/agents",
		},
		Reads: []string{ // also with --no-custom-instructions
			"AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md", ".github/instructions",
			".github/skills", ".agents/skills", ".claude/skills",
		},
		AnyEffort: true,
		Resumes:   true, Loads: true, Lists: true,
	},
	{
		Name: "qwen", DisplayName: "Qwen Code", Command: []string{"qwen", "--acp"},
		Install: "npm install -g @qwen-code/qwen-code", Login: "qwen",
		Env:       []string{"QWEN_CODE_NO_RELAUNCH=true"},
		Inherit:   []string{"QWEN_*", "OPENAI_*", "DASHSCOPE_*"},
		Key:       agentconn.Key{Variables: []string{"OPENAI_API_KEY"}, Others: []string{"DASHSCOPE_API_KEY"}},
		Obeys:     []string{".qwen", "**/.qwen/.env", "**/.env", ".mcp.json", ".agents/skills"}, // a skill may allow tools and have hooks
		Reads:     []string{"QWEN.md", "AGENTS.md"},
		AnyEffort: true,
		Resumes:   true, Loads: true, Lists: true,
	},
}

// Providers returns a provider for each known agent.
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
