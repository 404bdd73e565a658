package all

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/acp"
)

// protocols are those that an agent of a configuration may speak.
func protocols() []string { return []string{"acp"} }

// speaking returns the agent as a provider of its protocol; it was checked.
func (a Agent) speaking(name string) runnel.Provider {
	return acp.New(acp.Agent{Name: name, DisplayName: a.DisplayName, Command: a.Command, Env: a.environ()})
}
