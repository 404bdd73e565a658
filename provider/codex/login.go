package codex

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/broker"
	"github.com/runnel-dev/runnel/internal/translate"
)

// apiKey describes the API key.
var apiKey = agentconn.Key{Variables: []string{"OPENAI_API_KEY"}, Endpoint: agentconn.Endpoint{Default: openAIBase, Header: broker.Bearer}}

func (p *Provider) credential() agentconn.Credential { return p.program.Credential(apiKey) }

// CheckKey implements [runnel.KeyHolder].
func (p *Provider) CheckKey(opt runnel.Options) error {
	if p.credential().Brokers(opt) {
		_, err := p.Brokerage(opt)
		return err
	}
	return p.credential().Check(os.Environ(), p.program.Configured(opt))
}

// ChecksLogin implements [runnel.LoginChecker].
func (p *Provider) ChecksLogin() {}

// WithKey implements [runnel.KeyTaker].
func (p *Provider) WithKey(source runnel.KeySource) runnel.Provider {
	return &Provider{p.program.WithKey(source)}
}

// A login gives an app-server its credential. An app-server (0.169.0) does not
// read a key from its environment. A request logs it in with the key, and it
// keeps this login in memory only. The user's own login does not change.
type login struct {
	credential agentconn.Credential
	opt        runnel.Options
	key        string // "" if the user's configuration selects the credential

	broker *agentconn.Broker // nil: the agent gets its key itself
	model  modelProvider     // of the broker
}

// login returns the login for opt, which must be configured with the program's
// environment.
func (p *Provider) login(opt runnel.Options) (login, error) {
	l := login{credential: p.credential(), opt: opt}
	b, model, err := p.broker(opt)
	if err == nil && b != nil {
		return l.through(b, model), nil
	}
	if err == nil {
		l.key, err = p.credential().Find(os.Environ(), opt)
	}
	return l, err
}

// byKey reports whether the agent is logged in with a key.
func (l login) byKey() bool { return l.credential.ByKey(l.opt) }

// environ returns the agent's environment. The key is in it, because a model
// provider in the user's configuration may name its variable.
func (l login) environ(env []string) []string {
	if l.broker == nil {
		return l.credential.Apply(env, l.key, l.opt)
	}
	env = withoutKeys(env)
	if l.model.envKey != "" {
		env = append(env, l.model.envKey+"="+l.key)
	}
	return agentconn.Direct(env)
}

// args returns additional arguments of the program. With a key, they disable
// the snapshot of the shell: while Codex 0.169.0 makes the snapshot, a file in
// its directory contains the whole environment, including the key.
func (l login) args() (args []string) {
	if l.byKey() {
		args = []string{"-c", `cli_auth_credentials_store="ephemeral"`, "-c", "features.shell_snapshot=false"}
	}
	if l.broker != nil {
		args = append(args, l.brokerArgs()...)
	}
	return args
}

// tap returns a tap that receives every line with the key redacted.
func (l login) tap(tap func(runnel.Dir, []byte)) func(runnel.Dir, []byte) {
	if tap == nil || !l.byKey() {
		return tap
	}
	return func(dir runnel.Dir, line []byte) {
		tap(dir, bytes.ReplaceAll(line, []byte(l.key), []byte("[redacted]")))
	}
}

// apply logs the agent in. It fails with AGENT_NOT_LOGGED_IN if the agent has
// no credential for its model provider.
func (l login) apply(c *conn, next func() ([]byte, error)) error {
	if l.byKey() {
		return c.ask(next, methodLogin, map[string]any{"type": "apiKey", "apiKey": l.key})
	}
	result, err := c.requestResult(next, methodAccount, map[string]any{"refreshToken": false})
	if err != nil {
		return err
	}
	account := translate.DecodeLenient[struct {
		Account json.RawMessage `json:"account"`
		Needed  bool            `json:"requiresOpenaiAuth"` // false for the user's own model providers
	}](result)
	if account.Needed && string(account.Account) == "null" {
		return runnel.Fail(runnel.AgentNotLoggedIn, "Codex is not logged in. Run: "+loginCommand+", or use an API key with auth: api-key.")
	}
	return nil
}
