package codex

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// ListMCP implements [runnel.MCPLister]. It asks an app-server for its
// configuration, because the command "codex mcp list" (0.169.0) sends requests
// to servers with a URL.
func (p *Provider) ListMCP(ctx context.Context) (list []runnel.MCPServer, err error) {
	err = p.query(ctx, runnel.Options{}, func(a *asker) error {
		var answer struct {
			Config struct {
				Servers map[string]mcpEntry `json:"mcp_servers"`
			} `json:"config"`
		}
		if err := a.ask("config/read", map[string]any{}, &answer); err != nil {
			return err
		}
		list = configuredMCP(answer.Config.Servers)
		return nil
	})
	return list, err
}

// An mcpEntry is an MCP server in the agent's configuration.
type mcpEntry struct {
	Enabled    *bool                      `json:"enabled"` // default: true
	Command    string                     `json:"command"`
	Args       []json.RawMessage          `json:"args"`
	Env        map[string]json.RawMessage `json:"env"`
	EnvVars    []json.RawMessage          `json:"env_vars"` // a name, or an object with a name
	URL        string                     `json:"url"`
	Headers    map[string]json.RawMessage `json:"http_headers"`
	EnvHeaders map[string]json.RawMessage `json:"env_http_headers"`
	TokenVar   string                     `json:"bearer_token_env_var"`
}

// configuredMCP returns the MCP servers of the agent's configuration.
func configuredMCP(entries map[string]mcpEntry) []runnel.MCPServer {
	list := []runnel.MCPServer{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e := entries[name]
		s := runnel.MCPServer{
			Name: name, Transport: "stdio", Enabled: e.Enabled == nil || *e.Enabled, Command: e.Command, Arguments: len(e.Args), URL: runnel.MCPAddress(e.URL),
			Env: agentconn.Names(e.Env), Headers: agentconn.Names(e.Headers, e.EnvHeaders),
		}
		for _, raw := range e.EnvVars {
			var v struct{ Name string }
			if json.Unmarshal(raw, &v.Name) == nil || json.Unmarshal(raw, &v) == nil && v.Name != "" {
				s.Env = append(s.Env, v.Name)
			}
		}
		if e.TokenVar != "" {
			s.Headers = append(s.Headers, "Authorization")
		}
		if e.URL != "" {
			s.Transport = "http"
		}
		slices.Sort(s.Env)
		slices.Sort(s.Headers)
		s.Env, s.Headers = slices.Compact(s.Env), slices.Compact(s.Headers)
		list = append(list, s)
	}
	return list
}

// AddMCP implements [runnel.MCPEditor]. An app-server stores a server with a URL,
// because the command "codex mcp add" (0.169.0) takes no headers.
func (p *Provider) AddMCP(ctx context.Context, d runnel.MCPDefinition) error {
	switch {
	case d.URL != "" && d.URLTransport() != runnel.MCPOverHTTP:
		return runnel.Fail(runnel.InvalidRequest, "transport: Codex reaches MCP servers with a URL only over streamable HTTP, not over SSE; use http if the server supports it")
	case d.URL != "":
		return storeMCP(ctx, p, d)
	}
	args := slices.Concat([]string{"mcp", "add", d.Name}, agentconn.MCPVariables("--env", d.Env), []string{"--", d.Command}, d.Args)
	return p.configure(ctx, "codex mcp add", args)
}

// storeMCP stores a server with a URL in the user's configuration. The request
// goes through a pipe, so that no other user of the machine sees its headers.
func storeMCP(ctx context.Context, p *Provider, d runnel.MCPDefinition) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	entry := mcpAtURL{d.URL, d.Headers, d.BearerTokenEnv}
	err := p.query(ctx, runnel.Options{}, func(a *asker) error {
		return a.ask("config/value/write", map[string]any{"keyPath": "mcp_servers." + d.Name, "value": entry, "mergeStrategy": "replace"}, nil)
	})
	if ctx.Err() != nil {
		return runnel.Fail(runnel.Timeout, "Codex did not change its configuration in time. Try it in a terminal: codex mcp add", ctx.Err())
	}
	if _, refused := errors.AsType[*jsonrpc.Error](err); refused { // its text could contain secrets
		return runnel.Fail(runnel.AgentError, "Codex did not change its configuration. Try it in a terminal: codex mcp add")
	}
	return err
}

// storeTime bounds the time in which the agent must store an MCP server.
const storeTime = 30 * time.Second

// An mcpAtURL is a server with a URL as the agent stores it.
type mcpAtURL struct {
	URL      string            `json:"url"`
	Headers  map[string]string `json:"http_headers,omitempty"`
	TokenVar string            `json:"bearer_token_env_var,omitempty"`
}

// RemoveMCP implements [runnel.MCPEditor]. The command succeeds if there is no
// such server (0.169.0).
func (p *Provider) RemoveMCP(ctx context.Context, name string) error {
	return p.configure(ctx, "codex mcp remove", []string{"mcp", "remove", "--", name})
}

// configure runs a command that changes the agent's configuration.
func (p *Provider) configure(ctx context.Context, try string, args []string) error {
	opt := p.program.Configured(runnel.Options{})
	path, first, err := p.program.Find(opt, "codex", product)
	if err != nil {
		return err
	}
	path, managed := native(path)
	return agentconn.Configure(ctx, product, path, append(askEnviron(p.credential(), opt), managed...), mark, try, nil, slices.Concat(first, args)...)
}
