package runnel

// Auth is the kind of credential with which an agent calls its model.
type Auth string

// The credentials of agents.
const (
	// AuthAgentLogin is the agent's own login. Runnel passes no API key to the
	// agent.
	AuthAgentLogin Auth = "agent-login"

	// AuthAPIKey is an API key from the environment of this process, or from a
	// file that the configuration names. The agent does not use its own login.
	AuthAPIKey Auth = "api-key"
)

// A KeyHolder is a Provider whose agent can use an API key. CheckKey fails with
// MISSING_API_KEY if the agent needs an API key with these options and there is
// none. The message names the variable. CheckKey starts no agent.
type KeyHolder interface{ CheckKey(opt Options) error }

// A KeyTaker is a KeyHolder whose source of the key can be configured. WithKey
// returns the provider with another source. Only the configuration of the
// server may set the source; clients may only choose the Auth of a session.
type KeyTaker interface {
	KeyHolder
	WithKey(source KeySource) Provider
}

// A KeySource is the place from which a provider reads the API key of its
// agent.
type KeySource struct {
	// Auth applies to sessions without Options.Auth. Default: the agent
	// chooses.
	Auth Auth

	// Keys applies to every process that the provider starts, also without a
	// session. Options.Keys can only be stricter. Default: KeysAgent.
	Keys Keys

	// Read returns the key. It is called for every start of an agent. Default:
	// the key is a variable in the environment of this process.
	Read func() (string, error)
}

// CheckKey fails with MISSING_API_KEY if the agent of p needs an API key with
// these options and there is none. It starts no agent.
func CheckKey(p Provider, opt Options) error {
	k, ok := p.(KeyHolder)
	if !ok {
		return nil
	}
	if err := k.CheckKey(opt); err != nil {
		return credentialDetails(p.Name(), Safe(err))
	}
	return nil
}

// CheckKey calls the function [CheckKey] with the session's provider and the
// options with which the session was opened.
func (s *Session) CheckKey() error { return CheckKey(s.provider, s.first) }

func checkAuth(c checked) error {
	switch auth := c.opt.Auth; {
	case auth != AuthAgentLogin && auth != AuthAPIKey:
		return Fail(InvalidRequest, "auth: unknown value "+shown(string(auth))+"; want agent-login or api-key")
	case auth == AuthAPIKey && c.takes != nil && !c.takes.APIKey:
		return &Error{
			Code: UnsupportedCapability, Details: map[string]any{"option": "auth"},
			Message: "auth: " + c.agent + " accepts no API key from runnel; leave auth out, and log in with the agent itself or configure a key there",
		}
	}
	return nil
}
