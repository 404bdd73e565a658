package acp

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
)

// mcpQuirks is how an agent keeps the MCP servers of its user.
type mcpQuirks struct {
	settings func(env []string) string // path of the file with the object mcpServers
	protocol []string                  // arguments of the agent's command that select ACP
	add      func(d runnel.MCPDefinition) ([]string, error)
	remove   func(name string) []string
}

// geminiMCP are the MCP servers of @google/gemini-cli, as observed in 0.61.0. The
// arguments of a server follow "--", because the agent would read them as numbers
// and options otherwise.
var geminiMCP = &mcpQuirks{
	settings: func(env []string) string {
		path := inHome(".gemini", "settings.json")(env)
		for _, e := range env {
			if home, ok := variable(e, "GEMINI_CLI_HOME"); ok && home != "" {
				path = filepath.Join(home, ".gemini", "settings.json")
			}
		}
		return path
	},
	protocol: []string{"--acp", "--experimental-acp"},
	add:      geminiAdd,
	remove:   func(name string) []string { return []string{"mcp", "remove", "-s", "user", name} },
}

// variableInGemini matches what Gemini CLI replaces by a variable in its
// settings.
var variableInGemini = regexp.MustCompile(`\$(\w|\{)`)

// geminiAdd returns the arguments that add a server. Gemini CLI 0.61.0 takes a
// server, with its headers, only as arguments.
func geminiAdd(d runnel.MCPDefinition) ([]string, error) {
	if d.URL == "" {
		for name, value := range d.Env {
			if value == "" || strings.Contains(value, "=") { // the agent drops it, or the rest of it
				return nil, runnel.Fail(runnel.InvalidRequest, "env."+name+": Gemini CLI cannot store a value that is empty or contains =; write it to the agent's settings yourself")
			}
		}
		return slices.Concat([]string{"mcp", "add", "-s", "user"}, agentconn.MCPVariables("-e", d.Env), []string{d.Name, d.Command, "--"}, d.Args), nil
	}
	if err := agentconn.CheckMCPLiterals(d, variableInGemini, "Gemini CLI"); err != nil {
		return nil, err
	}
	args := []string{"mcp", "add", "-s", "user", "-t", string(d.URLTransport())}
	headers := agentconn.MCPHeaders(d)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		args = append(args, "-H", name+": "+headers[name])
	}
	return append(args, d.Name, d.URL), nil
}

// errNoMCP is the error for an agent whose MCP servers are not known.
func (p *provider) errNoMCP() error {
	return runnel.Fail(runnel.UnsupportedCapability, "Runnel cannot list or change the MCP servers of "+p.DisplayName()+"; use the agent's own command line")
}

// ListMCP implements [runnel.MCPLister]. It reads the agent's settings.
func (p *provider) ListMCP(context.Context) ([]runnel.MCPServer, error) {
	q := p.agent.quirks().mcp
	if q == nil {
		return nil, p.errNoMCP()
	}
	unreadable := p.DisplayName() + "'s settings cannot be read."
	f, st, err := agentconn.OpenPlain(os.OpenFile, q.settings(p.environ(os.Environ(), runnel.Options{})))
	if errors.Is(err, fs.ErrNotExist) {
		return []runnel.MCPServer{}, nil
	}
	if err != nil {
		return nil, runnel.Fail(runnel.AgentError, unreadable, err)
	}
	defer f.Close()
	if st.Size() > maxSettings {
		return nil, runnel.Fail(runnel.AgentError, p.DisplayName()+"'s settings are larger than 1 MiB.")
	}
	content, err := io.ReadAll(io.LimitReader(f, maxSettings))
	if err != nil {
		return nil, runnel.Fail(runnel.AgentError, unreadable, err)
	}
	list, ok := agentconn.MCPServersIn(content)
	if !ok {
		return nil, runnel.Fail(runnel.AgentError, p.DisplayName()+"'s settings are not plain JSON, so its MCP servers cannot be read.")
	}
	return list, nil
}

// AddMCP implements [runnel.MCPEditor].
func (p *provider) AddMCP(ctx context.Context, d runnel.MCPDefinition) error {
	q := p.agent.quirks().mcp
	if q == nil {
		return p.errNoMCP()
	}
	args, err := q.add(d)
	if err != nil {
		return err
	}
	return p.configure(ctx, "mcp add", args)
}

// RemoveMCP implements [runnel.MCPEditor].
func (p *provider) RemoveMCP(ctx context.Context, name string) error {
	q := p.agent.quirks().mcp
	if q == nil {
		return p.errNoMCP()
	}
	return p.configure(ctx, "mcp remove", q.remove(name))
}

// configure runs a command that changes the agent's configuration.
func (p *provider) configure(ctx context.Context, what string, args []string) error {
	path, first, err := p.command(runnel.Options{})
	if err != nil {
		return err
	}
	first = slices.DeleteFunc(slices.Clone(first), func(arg string) bool { return slices.Contains(p.agent.quirks().mcp.protocol, arg) })
	env := p.environ(os.Environ(), runnel.Options{})
	return agentconn.Configure(ctx, p.agent.conn(), path, env, "ACP_"+proc.MarkSuffix, p.agent.Name+" "+what, nil, slices.Concat(first, args)...)
}
