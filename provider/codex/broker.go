package codex

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/broker"
	"github.com/runnel-dev/runnel/internal/translate"
)

// The address of the API if the user's configuration names none, and the
// variable that can name another one.
const (
	openAIBase  = "https://api.openai.com/v1"
	baseSetting = "OPENAI_BASE_URL"
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
	c, _, err := p.brokered(opt)
	if err != nil {
		return runnel.Brokerage{}, err
	}
	return c.Brokerage(os.Environ(), opt)
}

// brokered returns the credential of a broker, and the model provider to which
// it speaks. opt is configured.
func (p *Provider) brokered(opt runnel.Options) (c agentconn.Credential, model modelProvider, err error) {
	c = p.credential()
	model, err = selectedProvider(userConfig(codexHome(append(os.Environ(), opt.Env...))))
	if err != nil {
		return c, model, runnel.Fail(runnel.UnsupportedCapability, "keys: "+err.Error()+"; leave keys: broker out, or change Codex's configuration")
	}
	c.Key.Endpoint = agentconn.Endpoint{Default: openAIBase, Header: broker.Bearer}
	switch {
	case model.base != "":
		c.Key.Endpoint.Default = model.base
	case model.id == openAI:
		c.Key.Endpoint.Variable = baseSetting
	}
	if model.envKey != "" {
		c.Key.Variables = []string{model.envKey}
	}
	return c, model, nil
}

// broker opens the broker of an agent that starts with opt, which is configured;
// nil if the agent gets its key itself.
func (p *Provider) broker(opt runnel.Options) (*agentconn.Broker, modelProvider, error) {
	if !p.credential().Brokers(opt) {
		return nil, modelProvider{}, nil
	}
	c, model, err := p.brokered(opt)
	if err != nil {
		return nil, model, err
	}
	b, err := c.OpenBroker(os.Environ(), opt)
	return b, model, err
}

// withoutKeys returns an environment of the agent without any variable that may
// have a credential of a model provider.
func withoutKeys(env []string) []string {
	drop := append(keyVariables(codexHome(env)), apiKey.Variables[0], "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", baseSetting)
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(drop, name) || strings.HasPrefix(name, "AZURE_OPENAI_")
	})
}

// through makes a login use a broker: the agent gets the placeholder as its key
// and the broker's address as that of its model provider.
func (l login) through(b *agentconn.Broker, model modelProvider) login {
	l.broker, l.model, l.key = b, model, b.Placeholder
	return l
}

// brokerArgs are the arguments that make the agent use the broker. They override
// the user's configuration and that of the project.
func (l login) brokerArgs() []string {
	address := "openai_base_url"
	if l.model.id != openAI {
		address = "model_providers." + l.model.id + ".base_url"
	}
	return []string{"-c", "model_provider=" + strconv.Quote(l.model.id), "-c", address + "=" + strconv.Quote(l.broker.URL)}
}

// checkModel fails if the conversation, whose opening has this result, has
// another model provider than that of the broker.
func (l login) checkModel(result json.RawMessage) error {
	if l.broker == nil {
		return nil
	}
	opened := translate.DecodeLenient[struct {
		Provider string `json:"modelProvider"`
	}](result)
	if opened.Provider != l.model.id {
		return runnel.Fail(runnel.SessionCreateFailed, "keys: the conversation uses the model provider "+oneLine(opened.Provider, 100)+", and the broker serves "+l.model.id+"; leave keys: broker out, or start a new conversation")
	}
	return nil
}
