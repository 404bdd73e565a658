package runnel

// Keys determines who holds the API key of a session's agent. A broker that is
// impossible is an error, never a warning.
type Keys string

// The holders of API keys.
const (
	// KeysAgent gives the API key to the agent, in its environment or as its
	// login.
	KeysAgent Keys = "agent"

	// KeysBroker gives the agent a placeholder and the address of an endpoint
	// of this process. The endpoint adds the API key, and speaks to the real
	// API and to no other host. It is for API keys only, not for the agent's own
	// login.
	KeysBroker Keys = "broker"
)

// StricterKeys returns the stricter of two values. A source of options can only
// make the value of another one stricter.
func StricterKeys(a, b Keys) Keys {
	if a == "" || b == KeysBroker {
		return b
	}
	return a
}

// A Brokerage is what a broker does for an agent.
type Brokerage struct {
	Host string `json:"host"` // the API, with its port if it has one
	From string `json:"from"` // variable with the API key; "file" if the key is in a file
}

// A KeyBroker is a Provider whose agent can use a broker. Brokerage returns what
// the broker of an agent with these options does. It fails if there is no API
// key, or if the settings of the agent do not allow a broker. It starts no
// agent.
//
// WithBroker returns the provider with a broker for every process that it
// starts, also if it starts one without a session. Only the configuration of
// the server may ask for that.
type KeyBroker interface {
	Brokerage(opt Options) (Brokerage, error)
	WithBroker() Provider
}

func checkKeys(c checked) error {
	switch {
	case c.opt.Keys == KeysAgent:
		return nil
	case c.takes == nil || !c.takes.Broker:
		return &Error{
			Code: UnsupportedCapability, Details: map[string]any{"option": "keys"},
			Message: "keys: " + c.agent + " does not take both an API key and the address of its model from runnel, so no broker can keep the key from it; leave keys out",
		}
	case c.opt.Keys != KeysBroker:
		return Fail(InvalidRequest, "keys: unknown value "+shown(string(c.opt.Keys))+"; want "+oneOf([]Keys{KeysAgent, KeysBroker}))
	case c.opt.Auth == AuthAgentLogin:
		return Fail(InvalidRequest, "keys: a broker is for API keys, and auth: agent-login is the agent's own login; leave one of them out")
	}
	return nil
}
