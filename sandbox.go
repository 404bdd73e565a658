package runnel

import (
	"time"

	"github.com/runnel-dev/runnel/internal/egress"
)

// Sandbox determines what an agent and the processes that it starts can reach
// on this machine. A sandbox that cannot be made is an error, never a warning.
type Sandbox string

// The sandboxes.
const (
	// SandboxOff lets the agent reach what its user can reach.
	SandboxOff Sandbox = "off"

	// SandboxProject lets the agent reach the project, its own state and the
	// programs of the system, and the network only through Options.Egress. It
	// needs Linux and bubblewrap.
	SandboxProject Sandbox = "project"
)

// StricterSandbox returns the stricter of two sandboxes. A source of options can
// only make the sandbox of another one stricter.
func StricterSandbox(a, b Sandbox) Sandbox {
	if a == "" || b == SandboxProject {
		return b
	}
	return a
}

// Egress says what programs in a sandbox can reach in the network, in addition
// to the hosts that the agent itself needs. It has no effect without a sandbox.
type Egress struct {
	Allow []string `json:"allow,omitempty"` // host names, *.domain, addresses and prefixes, each with an optional port; localhost with a port
	Sets  []string `json:"sets,omitempty"`  // named sets of hosts: packages, git
}

// IsZero reports whether e allows nothing.
func (e Egress) IsZero() bool { return len(e.Allow) == 0 && len(e.Sets) == 0 }

// An EgressAttempt is an attempt of a program in a sandbox to reach a host. An
// allowed attempt is reported twice: when the connection opens and when it ends.
type EgressAttempt struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Host     string    `json:"host"`
	Port     int       `json:"port"`
	By       string    `json:"by,omitzero"`   // what allowed it: agent, egress.allow or egress.sets with the entry. Absent if it was blocked
	Why      string    `json:"why,omitzero"`  // why it was blocked or failed
	Sent     int64     `json:"sent"`          // bytes from the sandbox
	Received int64     `json:"received"`      // bytes to the sandbox
	Open     bool      `json:"open,omitzero"` // the connection has not ended
}

// takesSandbox reports whether the agent of the provider can run in a sandbox.
func (c checked) takesSandbox() bool { return c.takes != nil && c.takes.Sandbox }

func checkSandbox(c checked) error {
	switch {
	case c.opt.Sandbox == SandboxOff:
		return nil
	case !c.takesSandbox():
		return lacks(c.agent, "sandbox")
	case c.opt.Sandbox == SandboxProject:
		return nil
	case c.opt.Sandbox == "files":
		return Fail(InvalidRequest, `sandbox: "files" is not built; want project, which also limits the network, or off`)
	}
	return Fail(InvalidRequest, "sandbox: unknown value "+shown(string(c.opt.Sandbox))+"; want "+oneOf([]Sandbox{SandboxOff, SandboxProject}))
}

func checkEgress(c checked) error {
	e := c.opt.Egress
	if !c.takesSandbox() {
		return lacks(c.agent, "egress")
	}
	if _, err := egress.New(nil, e.Allow, e.Sets); err != nil {
		return Fail(InvalidRequest, err.Error())
	}
	return nil
}
