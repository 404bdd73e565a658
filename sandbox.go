package runnel

import (
	"slices"
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

	// SandboxFiles lets the agent reach the files of the project, its own state
	// and the programs of the system. It limits neither the network nor unix
	// sockets. It needs Linux with version 3 of Landlock.
	SandboxFiles Sandbox = "files"

	// SandboxProject lets the agent reach the project, its own state and the
	// programs of the system, and the network only through Options.Egress. It
	// needs Linux and bubblewrap.
	SandboxProject Sandbox = "project"
)

// strictness are the sandboxes, the least strict first.
var strictness = []Sandbox{SandboxOff, SandboxFiles, SandboxProject}

// StricterSandbox returns the stricter of two sandboxes. A source of options can
// only make the sandbox of another one stricter.
func StricterSandbox(a, b Sandbox) Sandbox {
	if a == "" || slices.Index(strictness, b) > slices.Index(strictness, a) {
		return b
	}
	return a
}

// IsOn reports whether there is a sandbox.
func (s Sandbox) IsOn() bool { return s == SandboxFiles || s == SandboxProject }

// An AllowedPath is a path outside of the session's directories that a person
// lets a sandbox reach.
type AllowedPath struct {
	Path  string // absolute, without links
	Write bool   // programs can write it, too
}

// Egress says what programs in a sandbox can reach in the network, in addition
// to the hosts that the agent itself needs. It has no effect without a sandbox,
// and is refused with SandboxFiles, which limits no network.
type Egress struct {
	Mode  EgressMode `json:"mode,omitempty"`  // what happens with other public hosts. Default: deny
	Allow []string   `json:"allow,omitempty"` // host names, *.domain, addresses and prefixes, each with an optional port; localhost with a port
	Sets  []string   `json:"sets,omitempty"`  // named sets of hosts: packages, git
}

// An EgressMode says what happens when a program in a sandbox reaches for a
// public host that is not listed.
type EgressMode string

// The modes.
const (
	EgressDeny EgressMode = "deny"

	// EgressAsk asks people during a turn. The connection waits for the answer,
	// at most 5 minutes. Outside of a turn the host is refused.
	EgressAsk EgressMode = "ask"
)

// IsZero reports whether e is empty.
func (e Egress) IsZero() bool { return e.Mode == "" && len(e.Allow) == 0 && len(e.Sets) == 0 }

// An EgressAttempt is an attempt of a program in a sandbox to reach a host. An
// allowed attempt is reported twice: when the connection opens and when it ends.
type EgressAttempt struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Host     string    `json:"host"`
	Port     int       `json:"port"`
	By       string    `json:"by,omitzero"`   // what allowed it: agent, egress.allow or egress.sets with the entry, or an answer or a rule. Absent if it was blocked
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
	case c.opt.Sandbox.IsOn():
		return c.opt.Sandbox.CheckEgress(c.opt.Egress)
	}
	return Fail(InvalidRequest, "sandbox: unknown value "+shown(string(c.opt.Sandbox))+"; want "+oneOf(strictness))
}

// CheckEgress fails if a sandbox cannot enforce e.
func (s Sandbox) CheckEgress(e Egress) error {
	if s == SandboxFiles && !e.IsZero() {
		return Fail(InvalidRequest, "egress: sandbox: files does not limit the network, so it cannot enforce this list; use sandbox: project, or leave egress out")
	}
	return nil
}

func checkEgress(c checked) error {
	e := c.opt.Egress
	if !c.takesSandbox() {
		return lacks(c.agent, "egress")
	}
	if e.Mode != "" && e.Mode != EgressDeny && e.Mode != EgressAsk {
		return Fail(InvalidRequest, "egress.mode: unknown value "+shown(string(e.Mode))+"; want deny or ask")
	}
	if _, err := egress.New(nil, e.Allow, e.Sets); err != nil {
		return Fail(InvalidRequest, err.Error())
	}
	return nil
}
