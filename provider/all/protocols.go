package all

import "github.com/runnel-dev/runnel"

// protocols are those that an agent of a configuration may speak.
func protocols() []string { return nil }

// speaking returns the agent as a provider of its protocol; it was checked.
func (a Agent) speaking(string) runnel.Provider { return nil }
