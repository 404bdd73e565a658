package claude

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
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
	var config struct {
		Servers map[string]struct {
			Type    string                     `json:"type"`
			Command string                     `json:"command"`
			Args    []json.RawMessage          `json:"args"`
			Env     map[string]json.RawMessage `json:"env"`
			URL     string                     `json:"url"`
			Headers map[string]json.RawMessage `json:"headers"`
		} `json:"mcpServers"`
	}
	if json.Unmarshal(content, &config) != nil { // the error could quote the content
		return nil, runnel.Fail(runnel.AgentError, "Claude Code's configuration file is not valid. Try it in a terminal: claude mcp list")
	}
	list := []runnel.MCPServer{}
	for _, name := range slices.Sorted(maps.Keys(config.Servers)) {
		c := config.Servers[name]
		s := runnel.MCPServer{
			Name: name, Transport: c.Type, Enabled: true, Command: c.Command, Arguments: len(c.Args), URL: runnel.MCPAddress(c.URL),
			Env: agentconn.Names(c.Env), Headers: agentconn.Names(c.Headers),
		}
		if s.Transport == "" {
			s.Transport = "stdio"
		}
		list = append(list, s)
	}
	return list, nil
}
