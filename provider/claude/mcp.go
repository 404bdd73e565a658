package claude

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
)

// maxUserConfig bounds the agent's configuration file, in bytes. The file also
// contains facts about each project.
const maxUserConfig = 32 << 20

// ListMCP implements [runnel.MCPLister]. It reads the agent's configuration
// file, because the command "claude mcp list" (2.1.330) starts the servers to
// check them.
func (p *Provider) ListMCP(context.Context) ([]runnel.MCPServer, error) {
	f, st, err := agentconn.OpenPlain(os.OpenFile, userConfig(p.parent()))
	if errors.Is(err, fs.ErrNotExist) {
		return []runnel.MCPServer{}, nil
	}
	if err != nil {
		return nil, runnel.Fail(runnel.AgentError, "Claude Code's configuration file cannot be read.", err)
	}
	defer f.Close()
	if st.Size() > maxUserConfig {
		return nil, runnel.Fail(runnel.AgentError, "Claude Code's configuration file is larger than 32 MiB.")
	}
	content, err := io.ReadAll(io.LimitReader(f, maxUserConfig))
	if err != nil {
		return nil, runnel.Fail(runnel.AgentError, "Claude Code's configuration file cannot be read.", err)
	}
	return configuredMCP(content)
}

// userConfig returns the path of the agent's configuration file: .claude.json
// in CLAUDE_CONFIG_DIR, or else in the home directory.
func userConfig(env []string) string {
	dir := configDir(env)
	vars := proc.Environ(env, []string{"CLAUDE_CONFIG_DIR"}, nil)
	if !slices.ContainsFunc(vars, func(v string) bool { return len(v) > len("CLAUDE_CONFIG_DIR=") }) {
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, ".claude.json")
}

// configuredMCP returns the user's MCP servers in the content of the agent's
// configuration file.
func configuredMCP(content []byte) ([]runnel.MCPServer, error) {
	list, ok := agentconn.MCPServersIn(content)
	if !ok {
		return nil, runnel.Fail(runnel.AgentError, "Claude Code's configuration file is not valid. Try it in a terminal: claude mcp list")
	}
	return list, nil
}

// variableInMCP matches what the agent replaces by a variable in a definition.
var variableInMCP = regexp.MustCompile(`\$\{`)

// AddMCP implements [runnel.MCPEditor]. The command reads a server with a URL
// from its standard input, so that no other user of the machine sees its headers
// in the list of processes. Claude Code 2.1.197 cannot do that yet, and fails.
func (p *Provider) AddMCP(ctx context.Context, d runnel.MCPDefinition) error {
	if d.URL == "" {
		args := slices.Concat([]string{"mcp", "add", "-s", "user"}, agentconn.MCPVariables("-e", d.Env), []string{"--", d.Name, d.Command}, d.Args)
		return p.configure(ctx, "claude mcp add", nil, args)
	}
	if err := agentconn.CheckMCPLiterals(d, variableInMCP, product.Name); err != nil {
		return err
	}
	input, err := json.Marshal(mcpAtURL{string(d.URLTransport()), d.URL, agentconn.MCPHeaders(d)})
	if err != nil {
		return err
	}
	try := "claude mcp add --transport " + string(d.URLTransport()) + ". An older Claude Code cannot read a server with a URL from its standard input; update it"
	return p.configure(ctx, try, input, []string{"mcp", "add-json", "-s", "user", "--", d.Name, "-"})
}

// An mcpAtURL is a server with a URL as the agent stores it.
type mcpAtURL struct {
	Type    string            `json:"type"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
}

// RemoveMCP implements [runnel.MCPEditor].
func (p *Provider) RemoveMCP(ctx context.Context, name string) error {
	return p.configure(ctx, "claude mcp remove", nil, []string{"mcp", "remove", "-s", "user", "--", name})
}

// configure runs a command that changes the agent's configuration and reads
// input.
func (p *Provider) configure(ctx context.Context, try string, input []byte, args []string) error {
	opt := p.program.Configured(runnel.Options{})
	path, first, err := p.program.Find(opt, usualProgram, product)
	if err != nil {
		return err
	}
	return agentconn.Configure(ctx, product, path, environ(parentEnviron(), opt), mark, try, input, slices.Concat(first, args)...)
}
