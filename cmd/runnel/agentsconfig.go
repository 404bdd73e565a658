package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/redact"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/provider/all"
)

// agentsKey is the section of the configuration file that adds agents and
// changes known ones. It has no flag.
const agentsKey = "agents"

// agentsHelp is the part of help texts about the section agents.
func (a *app) agentsHelp() string {
	return `The configuration file can add agents and change known ones:

  agents:
    mine:                        # a new agent that speaks ACP
      protocol: acp
      command: [my-agent, --acp]
    ` + a.example() + `:                 # a known agent with other settings
      path: /opt/agent/bin/program
      env: {KEY: "value"}
      auth: api-key              # or agent-login; default: the agent chooses
      apiKeyFile: /home/me/key   # mode 0600; default: the agent's variable`
}

// knowAgents applies the agents, the options, the limits and the trusted folders
// of the configuration file. Commands that need no server call it.
func (a *app) knowAgents(fl *pflag.FlagSet) error {
	file, k, err := readSettings(fl)
	if err != nil {
		return err
	}
	if a.trusted, err = wholePaths(trustedKey, k.Strings(trustedKey)); err != nil {
		return err
	}
	if !k.Bool(gateway.MCPWritesSetting) {
		a.refused = runnel.MCPWriteCapabilities()
	}
	agents, err := agentsOf(k.Get(agentsKey))
	if err != nil {
		return badFile(file.path, err)
	}
	options, err := optionSources(file, k.Get(agentsKey))
	if err != nil {
		return err
	}
	limits, err := limitsOf(k.Get(limitsKey), k.Get(agentsKey))
	if err != nil {
		return badFile(file.path, err)
	}
	if err := a.useAgents(file.path, agents); err != nil {
		return err
	}
	if err := a.useLimits(file.path, limits); err != nil {
		return err
	}
	return a.useOptions(file.path, options)
}

// useAgents applies the agents of the configuration file at path. Secrets in
// their variables are redacted from then on; if there are any, no other user
// may be able to read the file.
func (a *app) useAgents(path string, agents map[string]all.Agent) error {
	if len(agents) == 0 {
		return nil
	}
	agents, err := a.canonical(agents)
	if err != nil {
		return badFile(path, err)
	}
	for name, agent := range agents {
		if agent.KeyFile != "" {
			agent.Key.Read = func() (string, error) { return a.readKey(agent.KeyFile) }
			agents[name] = agent
		}
	}
	ps, err := all.Configured(agents)
	if err != nil {
		return badFile(path, err)
	}
	a.providers = ps
	var env []string
	for _, agent := range agents {
		for name, value := range agent.Env {
			env = append(env, name+"="+value)
		}
	}
	secrets := redact.Env(env)
	if len(secrets) > 0 {
		if err := private.CheckFile(path, private.Nothing); err != nil {
			return fmt.Errorf("the configuration: %w", err)
		}
	}
	a.secrets = a.secrets.With(secrets...)
	return nil
}

// maxKey is the maximum size of an API key file, in bytes.
const maxKey = 4 << 10

// readKey reads the API key of an agent. From then on the key is redacted from
// everything that this program prints or logs. It fails if another user can
// read the file.
func (a *app) readKey(path string) (string, error) {
	data, err := private.ReadFile(path, private.Nothing, maxKey)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(data))
	if key != "" {
		a.secrets.Add(key)
	}
	return key, nil
}

// knowKeys reads the API keys of all agents, so that they are redacted also
// from the output of agents that the previous server started. It ignores files
// that cannot be read; the error is reported when the key is needed.
func (a *app) knowKeys(agents map[string]all.Agent) {
	for _, agent := range agents {
		if agent.KeyFile != "" {
			_, _ = a.readKey(agent.KeyFile)
		}
	}
}

// canonical replaces aliases of known agents by their names.
func (a *app) canonical(agents map[string]all.Agent) (map[string]all.Agent, error) {
	out := make(map[string]all.Agent, len(agents))
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		agent := agents[name]
		own := name
		if p := detect.NewIndex(a.providers).Find(name); p != nil {
			own = p.Name()
			if own != name && agent.Protocol != "" {
				return nil, fmt.Errorf("agents.%s: this name belongs to %s; choose another", name, own)
			}
		}
		if _, twice := out[own]; twice {
			return nil, fmt.Errorf("agents.%s: is the same agent as agents.%s", name, own)
		}
		out[own] = agent
	}
	return out, nil
}

func badFile(path string, err error) error {
	return usage("the configuration %s: %s", termtext.Clean(path), oneLine(termtext.Clean(err.Error()), 400))
}

// agentsOf parses the agents section of the configuration file. Its errors name
// the key.
func agentsOf(raw any) (map[string]all.Agent, error) {
	if raw == nil {
		return nil, nil
	}
	entries, ok := raw.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("agents: must be a list of names, each with its settings below it")
	}
	out := make(map[string]all.Agent, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		key := "agents." + name
		fields, ok := entries[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: its settings are missing; 'runnel serve --help' shows an example", key)
		}
		var a all.Agent
		sections := 0 // number of fields that do not concern the program
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			var err error
			at, value := key+"."+field, fields[field]
			switch field {
			case "protocol":
				a.Protocol, err = wantText(at, value)
			case "path":
				a.Path, err = wantText(at, value)
			case "displayName":
				a.DisplayName, err = wantText(at, value)
			case "command":
				a.Command, err = texts(at, value)
			case "env":
				a.Env, err = named(at, value)
			case "auth":
				var auth string
				auth, err = wantText(at, value)
				a.Key.Auth = runnel.Auth(auth)
			case "apiKeyFile":
				a.KeyFile, err = wantPath(at, value)
			case optionsKey, limitsKey:
				sections++
				continue // read by optionSources and limitsOf
			default:
				err = fmt.Errorf("%s: unknown; want protocol, command, path, env, auth, apiKeyFile, displayName, options or limits", at)
			}
			if err != nil {
				return nil, err
			}
		}
		if sections > 0 && len(fields) == sections {
			continue // the agent itself is unchanged
		}
		out[name] = a
	}
	return out, nil
}

// wantText returns the text v. It rejects a value that YAML decodes as a
// number, because a number would lose its leading zeros.
func wantText(key string, v any) (string, error) {
	s, ok := v.(string)
	switch {
	case !ok:
		return "", fmt.Errorf("%s: must be text; put it in quotes", key)
	case s == "":
		return "", fmt.Errorf("%s: is empty", key)
	}
	return s, nil
}

// wantPath returns the absolute path v.
func wantPath(key string, v any) (string, error) {
	path, err := wantText(key, v)
	if err != nil {
		return "", err
	}
	paths, err := wholePaths(key, []string{path})
	if err != nil {
		return "", err
	}
	return paths[0], nil
}

func texts(key string, v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("%s: must be a list of words, such as [my-agent, --acp]", key)
	}
	out := make([]string, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s[%d]: must be text; put it in quotes", key, i)
		}
		out[i] = s
	}
	return out, nil
}

func named(key string, v any) (map[string]string, error) {
	entries, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: must be variables with their values, such as {KEY: \"value\"}", key)
	}
	out := make(map[string]string, len(entries))
	for name, v := range entries {
		s, ok := v.(string) // an empty value is allowed
		if !ok {
			return nil, fmt.Errorf("%s.%s: must be text; put it in quotes", key, name)
		}
		out[name] = s
	}
	return out, nil
}

// configFlag adds the flag --config to a command that needs no server.
func configFlag(cmd *cobra.Command) {
	cmd.Flags().String("config", "", "configuration `FILE`, in YAML; default: "+shown(defaultConfig()))
}
