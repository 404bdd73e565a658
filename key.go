package runnel

// Auth says with which credential an agent calls its model.
type Auth string

// The credentials of agents.
const (
	// AuthAgentLogin is the agent's own login: the agent gets no API key of ours.
	AuthAgentLogin Auth = "agent-login"

	// AuthAPIKey is an API key of our environment, or of a file that the
	// configuration names. The agent's own login is not used.
	AuthAPIKey Auth = "api-key"
)

// A KeyHolder is a Provider whose agent can work with an API key. CheckKey fails
// with MISSING_API_KEY if the agent would be started with an API key and there is
// none. The message names the variable. CheckKey starts nothing.
type KeyHolder interface{ CheckKey(opt Options) error }

// A KeyTaker is a KeyHolder that can be configured. WithKey returns the provider
// with another source of the key. Clients may choose the Auth of a session only.
type KeyTaker interface {
	KeyHolder
	WithKey(source KeySource) Provider
}

// A KeySource is where the API key of an agent comes from.
type KeySource struct {
	Auth Auth                   // of sessions that have no Auth of their own. Default: the agent chooses between what it has
	Read func() (string, error) // reads the key whenever an agent is started. Default: the key is in our environment
}

// CheckKey fails with MISSING_API_KEY if the agent of p would be started with an
// API key and there is none.
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

// CheckKey is the function CheckKey for the session's agent and options.
func (s *Session) CheckKey() error { return CheckKey(s.provider, s.first) }

func checkAuth(c checked) error {
	switch auth := c.opt.Auth; {
	case auth != AuthAgentLogin && auth != AuthAPIKey:
		return Fail(InvalidRequest, "auth: unknown value "+shown(string(auth))+"; want agent-login or api-key")
	case auth == AuthAPIKey && c.takes != nil && !c.takes.APIKey:
		return &Error{
			Code: UnsupportedCapability, Details: map[string]any{"option": "auth"},
			Message: "auth: " + c.agent + " takes no API key from us; leave auth out, and log in or configure a key with the agent itself",
		}
	}
	return nil
}
