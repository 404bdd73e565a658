package agentconn

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/runnel-dev/runnel"
)

// MCPServersIn returns the MCP servers in a configuration file in JSON, in which
// the object mcpServers has them by name. It returns false if the file is not
// valid. The result has no value that can be a secret.
func MCPServersIn(content []byte) ([]runnel.MCPServer, bool) {
	var config struct {
		Servers map[string]struct {
			Type    string                     `json:"type"`
			Command string                     `json:"command"`
			Args    []json.RawMessage          `json:"args"`
			Env     map[string]json.RawMessage `json:"env"`
			URL     string                     `json:"url"`
			HTTPURL string                     `json:"httpUrl"`
			Headers map[string]json.RawMessage `json:"headers"`
		} `json:"mcpServers"`
	}
	if json.Unmarshal(content, &config) != nil {
		return nil, false
	}
	list := []runnel.MCPServer{}
	for _, name := range slices.Sorted(maps.Keys(config.Servers)) {
		c := config.Servers[name]
		s := runnel.MCPServer{
			Name: name, Transport: c.Type, Enabled: true, Command: c.Command, Arguments: len(c.Args), URL: runnel.MCPAddress(c.URL),
			Env: Names(c.Env), Headers: Names(c.Headers),
		}
		switch {
		case c.HTTPURL != "":
			s.Transport, s.URL = "http", runnel.MCPAddress(c.HTTPURL)
		case s.Transport == "" && c.URL != "":
			s.Transport = "sse"
		case s.Transport == "":
			s.Transport = "stdio"
		}
		list = append(list, s)
	}
	return list, true
}

// MCPVariables returns the variables of an MCP server as arguments of an agent's
// command, each after flag, sorted by name.
func MCPVariables(flag string, env map[string]string) (args []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		args = append(args, flag, name+"="+env[name])
	}
	return args
}

// MCPHeaders returns the headers of an MCP server with a URL, for an agent that
// replaces variables in them. A token from a variable is such a header.
func MCPHeaders(d runnel.MCPDefinition) map[string]string {
	headers := maps.Clone(d.Headers)
	if d.BearerTokenEnv != "" {
		if headers == nil {
			headers = make(map[string]string)
		}
		headers["Authorization"] = "Bearer ${" + d.BearerTokenEnv + "}"
	}
	return headers
}

// CheckMCPLiterals fails if the agent would replace a part of the URL or of a
// header by a variable. pattern matches what the agent replaces.
func CheckMCPLiterals(d runnel.MCPDefinition, pattern *regexp.Regexp, agent string) error {
	refuse := func(field string) error {
		return runnel.Fail(runnel.InvalidRequest, field+": contains $ before a name; "+agent+" would replace it by an environment variable. For a token in a variable, use bearerTokenEnv")
	}
	if pattern.MatchString(d.URL) {
		return refuse("url")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		if pattern.MatchString(d.Headers[name]) {
			return refuse("headers." + name)
		}
	}
	return nil
}
