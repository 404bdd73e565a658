package all

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/acp"
)

// protocols returns the protocols that a configured agent may use.
func protocols() []string { return []string{"acp"} }

// protocolProvider returns a provider for the agent and its protocol. The
// caller has checked the agent.
func (a Agent) protocolProvider(name string) runnel.Provider {
	return acp.New(acp.Agent{Name: name, DisplayName: a.DisplayName, Command: a.Command, Env: a.environ()})
}
