package runnel

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// An MCPLister is a Provider that can list the MCP servers in the user's
// configuration of its agent. ListMCP starts none of these servers and sends
// nothing to them. It does not read the configuration of projects. The list is
// sorted by name.
type MCPLister interface {
	ListMCP(ctx context.Context) ([]MCPServer, error)
}

// An MCPServer is an MCP server in the configuration of an agent. It has no
// values that can be secrets: no arguments, values of variables or headers, and
// no path or query of a URL.
type MCPServer struct {
	Name      string   `json:"name" doc:"Name of the MCP server in the agent's configuration."`
	Transport string   `json:"transport" doc:"How the agent reaches it: stdio, http or sse."`
	Enabled   bool     `json:"enabled" doc:"Whether the agent starts it."`
	Command   string   `json:"command,omitempty" doc:"Program of a stdio server."`
	Arguments int      `json:"arguments" doc:"Number of arguments of the program. The arguments themselves can be secrets."`
	URL       string   `json:"url,omitempty" doc:"Scheme and host. The rest of the URL can be secret."`
	Env       []string `json:"env" doc:"Names of environment variables, sorted."`
	Headers   []string `json:"headers" doc:"Names of headers, sorted."`
}

// maxMCPName bounds the name of an MCP server, in bytes.
const maxMCPName = 128

// CheckMCPName fails with INVALID_REQUEST if name cannot be the name of an MCP
// server: if it is empty, has more than 128 bytes, begins with a dash, or
// contains a space or a character that is not printable.
func CheckMCPName(name string) error {
	bad := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	switch {
	case name == "":
		return Fail(InvalidRequest, "name: is empty")
	case len(name) > maxMCPName:
		return Fail(InvalidRequest, fmt.Sprintf("name: has %d bytes; at most %d are allowed", len(name), maxMCPName))
	case strings.HasPrefix(name, "-"):
		return Fail(InvalidRequest, "name: must not begin with a dash")
	case strings.ContainsFunc(name, bad):
		return Fail(InvalidRequest, "name: must not contain spaces or characters that are not printable")
	}
	return nil
}

// ListMCP returns the MCP servers in the user's configuration of p's agent. It
// fails with UNSUPPORTED_CAPABILITY if p is no [MCPLister].
func ListMCP(ctx context.Context, p Provider) ([]MCPServer, error) {
	l, ok := p.(MCPLister)
	if !ok {
		return nil, Fail(UnsupportedCapability, "Runnel cannot list the MCP servers of "+DisplayName(p))
	}
	return l.ListMCP(ctx)
}

// GetMCP returns the MCP server with this name, as [ListMCP] does. It fails
// with INVALID_REQUEST if there is no such server.
func GetMCP(ctx context.Context, p Provider, name string) (MCPServer, error) {
	if err := CheckMCPName(name); err != nil {
		return MCPServer{}, err
	}
	list, err := ListMCP(ctx, p)
	if err != nil {
		return MCPServer{}, err
	}
	for _, s := range list {
		if s.Name == name {
			return s, nil
		}
	}
	return MCPServer{}, Fail(InvalidRequest, DisplayName(p)+" has no MCP server "+shown(name))
}

// MCPAddress returns the scheme and the host of an MCP server's URL. The rest
// of a URL can contain secrets. It returns "" for an invalid URL.
func MCPAddress(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}
