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

// CheckKey implements [runnel.KeyHolder].
func (p *provider) CheckKey(opt runnel.Options) error {
	if p.credential().Brokers(opt) {
		_, err := p.Brokerage(opt)
		return err
	}
	_, err := p.key(opt)
	return err
}

// ChecksLogin implements [runnel.LoginChecker].
func (p *provider) ChecksLogin() {}

// WithKey implements [runnel.KeyTaker].
func (p *provider) WithKey(source runnel.KeySource) runnel.Provider {
	return newProvider(&provider{agent: p.agent, env: p.env, keys: source, limits: p.limits})
}

func (p *provider) credential() agentconn.Credential {
	return agentconn.Credential{Key: p.agent.Key, Source: p.keys}
}

// configured returns opt with the configured variables before its own.
func (p *provider) configured(opt runnel.Options) runnel.Options {
	opt.Env = slices.Concat(p.env, opt.Env)
	return opt
}

// key returns the API key to pass to an agent that starts with opt, or "" for
// none. It fails if the agent's own settings select another login.
func (p *provider) key(opt runnel.Options) (string, error) {
	opt = p.configured(opt)
	key, err := p.credential().Find(os.Environ(), opt)
	if err != nil || !p.credential().ByKey(opt) {
		return key, err
	}
	if q := p.agent.quirks().startup; q.keyLogin != "" {
		if other := selectedLogin(q.settingsFile(p.environ(os.Environ(), opt))); other != "" && other != q.keyLogin {
			return "", runnel.Fail(runnel.UnsupportedCapability,
				"auth: "+p.DisplayName()+" would not use the API key: its own settings select the login "+text.OneLine(other, 100)+". Select the API key there, or leave auth out.")
		}
	}
	return key, nil
}

// envWithKey adds the API key to the environment of an agent, or the placeholder
// of its broker, which may be nil. It removes the credentials that opt excludes.
func (p *provider) envWithKey(env []string, b *agentconn.Broker, opt runnel.Options) ([]string, error) {
	if _, err := p.key(opt); err != nil {
		return nil, err
	}
	return p.credential().Environ(env, os.Environ(), b, p.configured(opt))
}

// selectedType matches the selected kind of login in a settings file of Gemini
// CLI or Qwen Code.
var selectedType = regexp.MustCompile(`"selectedType"\s*:\s*"([^"]*)"`)

// maxSettings is the maximum size of an agent's settings file, in bytes.
const maxSettings = 1 << 20

// selectedLogin returns the login that a settings file selects. It returns ""
// if the file selects none, is too large, or cannot be read.
func selectedLogin(path string) string {
	f, st, err := agentconn.OpenPlain(os.OpenFile, path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSettings))
	if err != nil || st.Size() > maxSettings {
		return ""
	}
	if m := selectedType.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return ""
}

// inHome returns a function that joins path to the home directory of an
// environment: HOME, or else USERPROFILE.
func inHome(path ...string) func(env []string) string {
	return func(env []string) string {
		home := ""
		for _, name := range []string{"USERPROFILE", "HOME"} {
			for _, entry := range env {
				if v := entry; len(v) > len(name) && v[:len(name)+1] == name+"=" {
					home = v[len(name)+1:]
				}
			}
		}
		return filepath.Join(append([]string{home}, path...)...)
	}
}

// variable returns the value of the environment variable name if e sets it.
func variable(e, name string) (value string, ok bool) { return strings.CutPrefix(e, name+"=") }
