package acp

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/text"
)

// WithBroker implements [runnel.KeyBroker]. It changes nothing for an agent that
// cannot use a broker.
func (p *provider) WithBroker() runnel.Provider {
	source := p.keys
	if p.agent.Key.Endpoint.Header != "" {
		source.Keys = runnel.KeysBroker
	}
	return p.WithKey(source)
}

// Brokerage implements [runnel.KeyBroker].
func (p *provider) Brokerage(opt runnel.Options) (runnel.Brokerage, error) {
	opt.Keys = runnel.KeysBroker
	if err := p.checkBroker(opt); err != nil {
		return runnel.Brokerage{}, err
	}
	return p.credential().Brokerage(os.Environ(), p.configured(opt))
}

// broker opens the broker of an agent that starts with opt; nil if the agent
// gets its key itself.
func (p *provider) broker(opt runnel.Options) (*agentconn.Broker, error) {
	if p.credential().Brokers(opt) {
		if err := p.checkBroker(opt); err != nil {
			return nil, err
		}
	}
	return p.credential().OpenBroker(os.Environ(), p.configured(opt))
}

// elsewhere are the variables with which an agent calls another API than the
// one of a broker, by the name of the agent.
var elsewhere = map[string][]string{
	"claude-agent-acp": {"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "ANTHROPIC_CUSTOM_HEADERS"},
	"gemini":           {"GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"},
}

// brokerSettings match settings with which an agent uses another key or address
// than those of a broker, by the name of the agent.
var brokerSettings = map[string]*regexp.Regexp{
	"claude-agent-acp": regexp.MustCompile(`"(apiKeyHelper|ANTHROPIC_API_KEY|ANTHROPIC_AUTH_TOKEN|ANTHROPIC_BASE_URL|ANTHROPIC_CUSTOM_HEADERS|CLAUDE_CODE_OAUTH_TOKEN|CLAUDE_CODE_USE_[A-Z]+)"\s*:`),
	"qwen":             regexp.MustCompile(`"(apiKey|baseUrl|modelProviders|OPENAI_API_KEY|OPENAI_BASE_URL)"\s*:`),
}

// checkBroker fails if the environment or the settings of the agent make it call
// its model in another way than through a broker.
func (p *provider) checkBroker(opt runnel.Options) error {
	if _, err := p.key(opt); err != nil {
		return err
	}
	env := p.environ(os.Environ(), opt)
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if slices.Contains(elsewhere[p.agent.Name], name) && value != "" && value != "0" && value != "false" {
			return refusesBroker(name+" is set, so "+p.DisplayName()+" would use another API or credential than that of a broker", "unset it")
		}
	}
	pattern := brokerSettings[p.agent.Name]
	if pattern == nil {
		return nil
	}
	for _, path := range settingsPaths[p.agent.Name](env, opt) {
		if name := settingOf(path, pattern); name != "" {
			return refusesBroker("the settings "+text.OneLine(path, 300)+" set "+name, "remove it there, and set the variable in the server's environment")
		}
	}
	return nil
}

// settingsPaths return the settings that brokerSettings match: the user's, and
// those of a trusted folder.
var settingsPaths = map[string]func(env []string, opt runnel.Options) []string{
	"claude-agent-acp": func(env []string, opt runnel.Options) []string {
		home := inHome(".claude")(env)
		for _, e := range env {
			if v, ok := variable(e, "CLAUDE_CONFIG_DIR"); ok && v != "" {
				home = v
			}
		}
		return append(ofFolder(opt, ".claude/settings.json", ".claude/settings.local.json"), filepath.Join(home, "settings.json"))
	},
	"qwen": func(env []string, opt runnel.Options) []string {
		return append(ofFolder(opt, ".qwen/settings.json"), settingsIn(env, ".qwen", []string{"QWEN_HOME"}, "/etc/qwen-code")...)
	},
}

// ofFolder returns paths in the folder of opt, if the folder is trusted.
func ofFolder(opt runnel.Options, names ...string) (paths []string) {
	for _, name := range names {
		if opt.Trusted && opt.Dir != "" {
			paths = append(paths, filepath.Join(opt.Dir, filepath.FromSlash(name)))
		}
	}
	return paths
}

// refusesBroker returns the error for an agent that cannot have a broker.
func refusesBroker(why, fix string) error {
	return runnel.Fail(runnel.UnsupportedCapability, "keys: "+why+"; "+fix+", or leave keys: broker out")
}

// settingOf returns what the first group of pattern matches in a settings file;
// "" if the file cannot be read.
func settingOf(path string, pattern *regexp.Regexp) string {
	f, _, err := agentconn.OpenPlain(os.OpenFile, path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSettings))
	if err != nil {
		return ""
	}
	if m := pattern.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return ""
}
