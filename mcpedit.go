package runnel

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// An MCPEditor is an MCPLister that can add MCP servers to the user's
// configuration of its agent, and remove them. It runs the agent's own command
// line for that, without a shell. The functions [AddMCP] and [RemoveMCP] check
// their arguments and the result. A caller must not edit the servers of one
// agent from two goroutines at the same time.
type MCPEditor interface {
	MCPLister
	AddMCP(ctx context.Context, d MCPDefinition) error
	RemoveMCP(ctx context.Context, name string) error
}

// An MCPDefinition defines an MCP server: either a program that the agent starts
// (Command), or a server that the agent reaches at a URL. It can contain secrets,
// in Args, in URL, and in the values of Env and Headers.
type MCPDefinition struct {
	Name    string            `json:"name" doc:"Name of the server: up to 64 letters, digits, dashes and underscores; the first is a letter or digit."`
	Command string            `json:"command,omitempty" doc:"Program that the agent starts, by its path or by its name in the agent's PATH. No shell runs it. Either command or url is needed."`
	Args    []string          `json:"args,omitempty" doc:"Arguments of the program, unchanged. At most 100."`
	Env     map[string]string `json:"env,omitempty" doc:"Environment variables of the program. At most 100. No response contains the values."`

	URL            string            `json:"url,omitempty" doc:"Address of a server that is not a program: http or https, without a user name and password. At most 2048 bytes. Responses contain only its scheme and host."`
	Transport      MCPTransport      `json:"transport,omitempty" doc:"How the agent reaches the URL: http (streamable HTTP) or sse. Default: http."`
	Headers        map[string]string `json:"headers,omitempty" doc:"Headers of each request to the URL. At most 100. No response contains the values."`
	BearerTokenEnv string            `json:"bearerTokenEnv,omitempty" doc:"Name of an environment variable of the agent. The agent sends its value to the URL as the header Authorization: Bearer VALUE, and its configuration has only the name."`
}

// Bounds of a definition.
const (
	maxMCPWords = 100     // arguments, and variables
	maxMCPWord  = 8 << 10 // bytes of an argument or a value
)

var (
	mcpAddName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	mcpVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,199}$`) })
)

// Check fails with INVALID_REQUEST if d cannot be added to any agent. The error
// contains no value that can be a secret.
func (d MCPDefinition) Check() error {
	if err := CheckMCPName(d.Name); err != nil {
		return err
	}
	switch {
	case !mcpAddName.MatchString(d.Name):
		return invalidMCP("name: want up to 64 letters, digits, dashes and underscores, the first a letter or digit")
	case d.URL != "" && (d.Command != "" || len(d.Args) > 0 || len(d.Env) > 0):
		return invalidMCP("url: an MCP server with a URL has no command, args or env; leave out either the URL or these")
	case d.URL != "":
		return d.checkURL()
	case d.Transport != "" || len(d.Headers) > 0 || d.BearerTokenEnv != "":
		return invalidMCP("url: is missing; transport, headers and bearerTokenEnv are for MCP servers with a URL")
	}
	return d.checkProgram()
}

func (d MCPDefinition) checkProgram() error {
	fits := func(s string) bool { return len(s) <= maxMCPWord && !strings.ContainsRune(s, 0) }
	switch {
	case strings.TrimSpace(d.Command) == "":
		return invalidMCP("command: is empty; want the program of the MCP server, or its address as url")
	case strings.HasPrefix(d.Command, "-"):
		return invalidMCP("command: must not begin with a dash")
	case strings.Contains(d.Command, "://"):
		return invalidMCP("command: is a URL; give it as url")
	case !fits(d.Command):
		return invalidMCP("command: is longer than %d bytes or contains a NUL character", maxMCPWord)
	case len(d.Args) > maxMCPWords:
		return invalidMCP("args: %d are too many; at most %d are allowed", len(d.Args), maxMCPWords)
	case len(d.Env) > maxMCPWords:
		return invalidMCP("env: %d variables are too many; at most %d are allowed", len(d.Env), maxMCPWords)
	}
	for i, arg := range d.Args {
		if !fits(arg) {
			return invalidMCP("args.%d: is longer than %d bytes or contains a NUL character", i, maxMCPWord)
		}
	}
	for name, value := range d.Env {
		if !mcpVariable().MatchString(name) {
			return invalidMCP("env: a name of a variable is not valid; want letters, digits and _, such as API_KEY")
		}
		if !fits(value) {
			return invalidMCP("env.%s: is longer than %d bytes or contains a NUL character", name, maxMCPWord)
		}
	}
	return nil
}

func invalidMCP(format string, args ...any) error {
	return Fail(InvalidRequest, fmt.Sprintf(format, args...))
}

// editor returns p as an MCPEditor, or UNSUPPORTED_CAPABILITY.
func editor(p Provider) (MCPEditor, error) {
	e, ok := p.(MCPEditor)
	if !ok {
		return nil, Fail(UnsupportedCapability, "Runnel cannot change the MCP servers of "+DisplayName(p)+"; use the agent's own command line")
	}
	return e, nil
}

// AddMCP adds an MCP server to the user's configuration of p's agent and returns
// it. It fails with INVALID_REQUEST if there is a server with this name.
func AddMCP(ctx context.Context, p Provider, d MCPDefinition) (MCPServer, error) {
	if err := d.Check(); err != nil {
		return MCPServer{}, err
	}
	e, err := editor(p)
	if err != nil {
		return MCPServer{}, err
	}
	if _, there, err := findMCP(ctx, e, d.Name); err != nil || there {
		if err == nil {
			err = Fail(InvalidRequest, "name: "+DisplayName(p)+" has an MCP server "+shown(d.Name)+" already; remove it first, or choose another name")
		}
		return MCPServer{}, err
	}
	if err := e.AddMCP(ctx, d); err != nil {
		return MCPServer{}, err
	}
	s, there, err := findMCP(ctx, e, d.Name)
	if err != nil {
		return s, err
	}
	if !there || !d.storedAs(s) {
		return s, Fail(AgentError, DisplayName(p)+" did not store the MCP server "+shown(d.Name)+" as it was given. Check it with the agent's own command line.")
	}
	return s, nil
}

// storedAs reports whether s can be what an agent has stored of d.
func (d MCPDefinition) storedAs(s MCPServer) bool {
	if d.URL == "" {
		return s.Command == d.Command && s.Arguments == len(d.Args) && len(s.Env) == len(d.Env)
	}
	headers := len(d.Headers)
	if d.BearerTokenEnv != "" {
		headers++
	}
	return s.Transport == string(d.URLTransport()) && s.URL == MCPAddress(d.URL) && len(s.Headers) == headers && s.Command == ""
}

// RemoveMCP removes an MCP server from the user's configuration of p's agent. It
// fails with INVALID_REQUEST if there is no such server.
func RemoveMCP(ctx context.Context, p Provider, name string) error {
	if err := CheckMCPName(name); err != nil {
		return err
	}
	e, err := editor(p)
	if err != nil {
		return err
	}
	if _, err := GetMCP(ctx, p, name); err != nil {
		return err
	}
	if err := e.RemoveMCP(ctx, name); err != nil {
		return err
	}
	if _, there, err := findMCP(ctx, e, name); err != nil || there {
		if err == nil {
			err = Fail(AgentError, DisplayName(p)+" did not remove the MCP server "+shown(name)+". Remove it with the agent's own command line.")
		}
		return err
	}
	return nil
}

func findMCP(ctx context.Context, l MCPLister, name string) (MCPServer, bool, error) {
	list, err := l.ListMCP(ctx)
	if err != nil {
		return MCPServer{}, false, err
	}
	if i := slices.IndexFunc(list, func(s MCPServer) bool { return s.Name == name }); i >= 0 {
		return list[i], true, nil
	}
	return MCPServer{}, false, nil
}
