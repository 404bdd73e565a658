package claude

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/text"
)

// WithBroker implements [runnel.KeyBroker].
func (p *Provider) WithBroker() runnel.Provider {
	source := p.program.Source
	source.Keys = runnel.KeysBroker
	return &Provider{p.program.WithKey(source)}
}

// Brokerage implements [runnel.KeyBroker].
func (p *Provider) Brokerage(opt runnel.Options) (runnel.Brokerage, error) {
	opt = p.program.Configured(opt)
	if err := checkBroker(opt); err != nil {
		return runnel.Brokerage{}, err
	}
	return p.credential().Brokerage(parentEnviron(), opt)
}

// broker opens the broker of an agent that starts with opt, which is configured;
// nil if the agent gets its key itself.
func (p *Provider) broker(opt runnel.Options) (*agentconn.Broker, error) {
	if p.credential().Brokers(opt) {
		if err := checkBroker(opt); err != nil {
			return nil, err
		}
	}
	return p.credential().OpenBroker(parentEnviron(), opt)
}

// environment returns the environment of an agent that starts with opt, which is
// configured, and its broker or nil. The caller closes the broker also after an
// error.
func (p *Provider) environment(opt runnel.Options) ([]string, *agentconn.Broker, error) {
	b, err := p.broker(opt)
	if err != nil {
		return nil, nil, err
	}
	env, err := p.credential().Environ(environ(parentEnviron(), opt), parentEnviron(), b, opt)
	return env, b, err
}

// elsewhere are variables with which the agent calls another API than the one
// of the broker, or sends further credentials.
var elsewhere = []string{
	"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "ANTHROPIC_CUSTOM_HEADERS",
}

// ownKey are the settings by which the agent would not use the placeholder and
// the address of the broker: a program that prints a key, and variables.
var ownKey = append([]string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"}, elsewhere...)

// checkBroker fails if the environment or the settings of the agent make it call
// its model in another way than through a broker.
func checkBroker(opt runnel.Options) error {
	env := environ(parentEnviron(), opt)
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if slices.Contains(elsewhere, name) && value != "" && value != "0" {
			return refusesBroker(name+" is set, so Claude Code would use another API or credential than that of a broker", "unset it")
		}
	}
	paths := []string{"/etc/claude-code/managed-settings.json", "/Library/Application Support/ClaudeCode/managed-settings.json"}
	if home := configDir(env); home != "" {
		paths = append(paths, filepath.Join(home, "settings.json"))
	}
	if opt.Trusted {
		paths = append(paths, filepath.Join(opt.Dir, ".claude", "settings.json"), filepath.Join(opt.Dir, ".claude", "settings.local.json"))
	}
	for _, path := range paths {
		if found, err := brokerSetting(path); err != nil {
			return refusesBroker("the settings "+text.OneLine(path, 300)+" of Claude Code cannot be read, so runnel does not know whether they name an API key", "check them")
		} else if found != "" {
			return refusesBroker("the settings "+text.OneLine(path, 300)+" of Claude Code set "+found, "remove it there, and set the variable in the server's environment")
		}
	}
	return nil
}

// refusesBroker returns the error for an agent that cannot have a broker.
func refusesBroker(why, fix string) error {
	return runnel.Fail(runnel.UnsupportedCapability, "keys: "+why+"; "+fix+", or leave keys: broker out")
}

// maxSettings bounds the size of a settings file of the agent, in bytes.
const maxSettings = 1 << 20

// brokerSetting returns the setting of a file that keeps the agent from using a
// broker; "" if there is none, or no file.
func brokerSetting(path string) (string, error) {
	f, st, err := agentconn.OpenPlain(os.OpenFile, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSettings))
	if err == nil && st.Size() > maxSettings {
		err = errors.New("the file is too large")
	}
	var settings struct {
		Helper string                     `json:"apiKeyHelper"`
		Env    map[string]json.RawMessage `json:"env"`
	}
	if err == nil {
		err = json.Unmarshal(data, &settings)
	}
	switch {
	case err != nil:
		return "", err
	case settings.Helper != "":
		return "apiKeyHelper", nil
	}
	for _, name := range ownKey {
		if settings.Env[name] != nil {
			return "env." + name, nil
		}
	}
	return "", nil
}
