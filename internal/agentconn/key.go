package agentconn

import (
	"cmp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Key describes the API key of one kind of agent.
type Key struct {
	// Variables are the variables of the server's environment that may contain
	// the key. The first one that is set counts. The agent receives the key in
	// Variables[0], and errors name that variable.
	Variables []string

	// Others are variables with further credentials. Runnel removes them if the
	// configuration selects the agent's login or an API key.
	Others []string

	// Logins are variables with a login of the agent. Runnel removes them if a
	// broker has the API key.
	Logins []string

	// Endpoint is how the agent reaches its model with the key. The zero value
	// means that the agent cannot use a broker.
	Endpoint Endpoint
}

// A Credential determines with which API key an agent starts.
type Credential struct {
	Key    Key
	Source runnel.KeySource // from the configuration
}

// auth returns the authentication mode for opt. A broker needs an API key.
func (c Credential) auth(opt runnel.Options) runnel.Auth {
	auth := cmp.Or(opt.Auth, c.Source.Auth)
	if auth == "" && c.Brokers(opt) {
		return runnel.AuthAPIKey
	}
	return auth
}

// ByKey reports whether opt or the configuration selects an API key as the
// agent's only credential.
func (c Credential) ByKey(opt runnel.Options) bool { return c.auth(opt) == runnel.AuthAPIKey }

// Find returns the API key for an agent that is started with opt, "" if the
// agent starts without a key from Runnel. With a broker, the key is for the broker. env is the server's environment;
// opt.Env takes precedence. Find fails with MissingAPIKey if the mode requires
// a key and none is found or the key is malformed.
func (c Credential) Find(env []string, opt runnel.Options) (string, error) {
	switch c.auth(opt) {
	case runnel.AuthAgentLogin:
		return "", nil
	case runnel.AuthAPIKey:
	default:
		return c.Key.of(env, opt), nil
	}
	if len(c.Key.Variables) == 0 {
		return "", runnel.Fail(runnel.UnsupportedCapability, "auth: this agent accepts no API key from runnel; leave auth out")
	}
	key, found := c.Key.of(env, opt), "Set "+c.Key.Variables[0]+" in the server's environment"
	if c.Source.Read != nil {
		var err error
		if key, err = c.Source.Read(); err != nil {
			return "", runnel.Fail(runnel.MissingAPIKey, "The file of the API key cannot be used: "+text.OneLine(err.Error(), 500), err)
		}
		found = "Write it into its file"
	}
	switch key = strings.TrimSpace(key); {
	case key == "":
		return "", runnel.Fail(runnel.MissingAPIKey, "There is no API key: "+c.Key.Variables[0]+" is not set. "+found+", or use the agent's own login with auth: agent-login.")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", runnel.Fail(runnel.MissingAPIKey, "The API key in "+c.Key.Variables[0]+" contains white space or other characters that an API key cannot contain. Check it.")
	}
	return key, nil
}

// Check fails if [Credential.Find] or [Credential.OpenBroker] does.
func (c Credential) Check(env []string, opt runnel.Options) error {
	if c.Brokers(opt) {
		_, err := c.Brokerage(env, opt)
		return err
	}
	_, err := c.Find(env, opt)
	return err
}

// of returns the value of the first variable that is set. A variable that is
// empty in opt.Env counts as not set.
func (k Key) of(env []string, opt runnel.Options) string {
	_, value := k.first(env, opt)
	return value
}

// variable returns the name of the variable whose value of returns; "" if none
// is set.
func (k Key) variable(env []string, opt runnel.Options) string {
	name, _ := k.first(env, opt)
	return name
}

func (k Key) first(env []string, opt runnel.Options) (name, value string) {
	for _, name := range k.Variables {
		value, isSet := lookup(opt.Env, name)
		if !isSet {
			value, _ = lookup(env, name)
		}
		if value != "" {
			return name, value
		}
	}
	return "", ""
}

// lookup returns the value of a variable. The last entry for a name counts.
func lookup(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if v, found := strings.CutPrefix(entry, name+"="); found {
			value, ok = v, true
		}
	}
	return value, ok
}

// Apply returns the environment of an agent with the key that Find returned,
// and without the credentials that the authentication mode excludes.
func (c Credential) Apply(env []string, key string, opt runnel.Options) []string {
	drop := slices.Clone(c.Key.Variables)
	if c.auth(opt) != "" {
		drop = append(drop, c.Key.Others...)
	}
	if c.Brokers(opt) {
		drop = append(drop, c.Key.Logins...)
	}
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(drop, name)
	})
	if key != "" {
		env = append(env, c.Key.Variables[0]+"="+key)
	}
	return env
}
