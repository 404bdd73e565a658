package httpapi

import (
	"net/http"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// The bodies of the routes about MCP servers.
type (
	mcpAnswer struct {
		Servers []runnel.MCPServer `json:"servers" doc:"The MCP servers in the user's configuration of the agent, sorted by name. They have no values that can be secrets."`
		Writes  bool               `json:"writes" doc:"true: the server's setting mcp-writes permits changes."`
	}
	mcpServerAnswer struct {
		Server runnel.MCPServer `json:"server"`
	}
)

// mcp holds the handlers of the routes about the MCP servers in the
// configurations of agents.
type mcp struct{ servers gateway.MCP }

func (m mcp) routes() []route {
	const (
		all   = "/api/agents/{cliType}/mcp"
		one   = all + "/{name}"
		about = "Runs the agent's own command line, without a shell. Needs the server's setting mcp-writes; otherwise the request fails with FORBIDDEN. Not every agent is supported. "
	)
	fails := []runnel.Code{runnel.UnsupportedCLIType, runnel.UnsupportedCapability, runnel.AgentNotInstalled, runnel.AgentError}
	writes := append(slices.Clone(fails), runnel.SessionCreateFailed, runnel.Overloaded, runnel.Timeout)
	return []route{
		handle(route{path: all, scope: auth.Read, name: "listMCPServers", summary: "List the MCP servers of an agent",
			about: "Returns the MCP servers in the user's configuration of the agent on the server's machine. Starts none of them, and does not read the configuration of projects.", fails: fails}, m.list),
		handle(route{path: one, scope: auth.Read, name: "getMCPServer", summary: "Get an MCP server of an agent", fails: fails}, m.get),
		handleJSON(route{path: all, scope: auth.Admin, name: "addMCPServer", status: http.StatusCreated, summary: "Add an MCP server to an agent",
			about: about + "While the command runs, other users of the machine may see the values of env in the list of processes, and those of url and headers if the agent takes them only as arguments (docs/configuration.md says which does). An agent that cannot reach a server over the transport refuses it.", fails: writes}, m.add),
		handle(route{method: http.MethodDelete, path: one, scope: auth.Admin, name: "removeMCPServer", summary: "Remove an MCP server of an agent",
			about: about, fails: writes}, m.remove),
	}
}

func (m mcp) list(r *http.Request) (mcpAnswer, error) {
	list, err := m.servers.List(r.Context(), r.PathValue("cliType"))
	return mcpAnswer{append([]runnel.MCPServer{}, list...), m.servers.Writes()}, err
}

// find returns the MCP server that a request names.
func (m mcp) find(r *http.Request) (runnel.MCPServer, error) {
	list, err := m.servers.List(r.Context(), r.PathValue("cliType"))
	if err != nil {
		return runnel.MCPServer{}, err
	}
	i := slices.IndexFunc(list, func(s runnel.MCPServer) bool { return s.Name == r.PathValue("name") })
	if i < 0 {
		return runnel.MCPServer{}, reply.NewError(http.StatusNotFound, "the agent has no such MCP server")
	}
	return list[i], nil
}

func (m mcp) get(r *http.Request) (mcpServerAnswer, error) {
	s, err := m.find(r)
	return mcpServerAnswer{s}, err
}

func (m mcp) add(r *http.Request, in runnel.MCPDefinition) (mcpServerAnswer, error) {
	if err := m.servers.CheckWrites(); err != nil {
		return mcpServerAnswer{}, err
	}
	cliType, err := m.servers.CLIType(r.PathValue("cliType"))
	if err == nil {
		err = in.Check()
	}
	if err == nil {
		err = access.Record(r.Context(), audit.Record{Kind: audit.MCPAdded, What: cliType + ": " + in.Name + ": " + in.Command + runnel.MCPAddress(in.URL)})
	}
	if err != nil {
		return mcpServerAnswer{}, err
	}
	s, err := m.servers.Add(r.Context(), cliType, in)
	return mcpServerAnswer{s}, err
}

func (m mcp) remove(r *http.Request) (reply.Empty, error) {
	if err := m.servers.CheckWrites(); err != nil {
		return reply.Empty{}, err
	}
	s, err := m.find(r)
	if err != nil {
		return reply.Empty{}, err
	}
	cliType, err := m.servers.CLIType(r.PathValue("cliType"))
	if err == nil {
		err = access.Record(r.Context(), audit.Record{Kind: audit.MCPRemoved, What: cliType + ": " + s.Name})
	}
	if err != nil {
		return reply.Empty{}, err
	}
	return reply.Empty{}, m.servers.Remove(r.Context(), cliType, s.Name)
}
