package agentconn

import (
	"cmp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Key describes the API key of a kind of agent.
type Key struct {
	// Variables of our environment hold the key: the first that is set counts.
	// The agent gets the key in Variables[0], which errors name.
	Variables []string

	// Others are variables with further credentials. An agent that uses its own
	// login or an API key does not get them.
	Others []string
}

// A Credential is what an agent is started with.
type Credential struct {
	Key    Key
	Source runnel.KeySource // as configured
}

// auth returns the mode for an agent that is started with opt.
func (c Credential) auth(opt runnel.Options) runnel.Auth { return cmp.Or(opt.Auth, c.Source.Auth) }

// ByKey reports whether an agent that is started with opt works with an API key
// of ours, and with nothing else.
func (c Credential) ByKey(opt runnel.Options) bool { return c.auth(opt) == runnel.AuthAPIKey }

// Find returns the API key for an agent that is started with opt, "" if it is
// started without one of ours. env is our environment; opt.Env wins. Find fails
// with MissingAPIKey if the agent needs a key and there is none.
func (c Credential) Find(env []string, opt runnel.Options) (string, error) {
	switch c.auth(opt) {
	case runnel.AuthAgentLogin:
		return "", nil
	case runnel.AuthAPIKey:
	default:
		return c.Key.of(env, opt), nil
	}
	if len(c.Key.Variables) == 0 {
		return "", runnel.Fail(runnel.UnsupportedCapability, "auth: this agent takes no API key from us; leave auth out")
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
		return "", runnel.Fail(runnel.MissingAPIKey, "The API key in "+c.Key.Variables[0]+" holds white space or other characters that no key has. Check it.")
	}
	return key, nil
}

// of returns the value of the first variable that is set. One that opt.Env
// leaves empty is not set.
func (k Key) of(env []string, opt runnel.Options) string {
	for _, name := range k.Variables {
		value, given := lookup(opt.Env, name)
		if !given {
			value, _ = lookup(env, name)
		}
		if value != "" {
			return value
		}
	}
	return ""
}

// lookup returns the value of a variable. The last entry of a name counts.
func lookup(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if v, found := strings.CutPrefix(entry, name+"="); found {
			value, ok = v, true
		}
	}
	return value, ok
}

// Apply returns the environment of an agent with the key that Find returned, and
// without the credentials that its mode excludes.
func (c Credential) Apply(env []string, key string, opt runnel.Options) []string {
	drop := slices.Clone(c.Key.Variables)
	if c.auth(opt) != "" {
		drop = append(drop, c.Key.Others...)
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
