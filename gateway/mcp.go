package gateway

import (
	"context"

	"github.com/runnel-dev/runnel"
)

// MCPWritesSetting is the name of the server's setting that sets
// Config.MCPWrites.
const MCPWritesSetting = "mcp-writes"

// refused returns the capabilities of agents that the configuration does not
// permit.
func (c Config) refused() []runnel.Capability {
	if c.MCPWrites {
		return nil
	}
	return runnel.MCPWriteCapabilities()
}

// MCP lists and changes the MCP servers in the configurations of the agents on
// this machine. It starts none of them.
type MCP struct{ g *Gateway }

// MCPOf returns the MCP servers of the agents of g.
func MCPOf(g *Gateway) MCP { return MCP{g} }

// Writes reports whether the server's configuration permits changes.
func (m MCP) Writes() bool { return m.g.cfg.MCPWrites }

// CheckWrites fails with FORBIDDEN if the server's configuration permits no
// changes.
func (m MCP) CheckWrites() error {
	if m.Writes() {
		return nil
	}
	return runnel.Fail(runnel.Forbidden, "this server does not change the MCP servers of agents; set "+MCPWritesSetting+": true in its configuration to permit that")
}

// CLIType returns the name of the kind of agent that a client names. It fails if
// there is no such kind.
func (m MCP) CLIType(name string) (string, error) {
	p, err := m.g.opener.providers.Choose(name)
	if err != nil {
		return "", err
	}
	return p.Name(), nil
}

// List returns the MCP servers in the user's configuration of an agent. Its
// errors are those of [runnel.ListMCP].
func (m MCP) List(ctx context.Context, cliType string) ([]runnel.MCPServer, error) {
	p, err := m.g.opener.providers.Choose(cliType)
	if err != nil {
		return nil, err
	}
	return runnel.ListMCP(ctx, p)
}

// Add adds an MCP server, as [runnel.AddMCP] does, if CheckWrites succeeds.
func (m MCP) Add(ctx context.Context, cliType string, d runnel.MCPDefinition) (s runnel.MCPServer, err error) {
	err = m.write(cliType, func(p runnel.Provider) error {
		s, err = runnel.AddMCP(ctx, p, d)
		return err
	})
	return s, err
}

// Remove removes an MCP server, as [runnel.RemoveMCP] does, if CheckWrites
// succeeds.
func (m MCP) Remove(ctx context.Context, cliType, name string) error {
	return m.write(cliType, func(p runnel.Provider) error { return runnel.RemoveMCP(ctx, p, name) })
}

// write calls f, one call at a time: two programs that change the same file
// could lose a change.
func (m MCP) write(cliType string, f func(runnel.Provider) error) error {
	if err := m.CheckWrites(); err != nil {
		return err
	}
	p, err := m.g.opener.providers.Choose(cliType)
	if err != nil {
		return err
	}
	m.g.mcpWrites.Lock()
	defer m.g.mcpWrites.Unlock()
	return f(p)
}
