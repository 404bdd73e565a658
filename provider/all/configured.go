package all

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/runnel-dev/runnel"
)

// Agent is the configuration of one kind of agent. With a Protocol, it adds an
// agent. Without a Protocol, it changes one of [Providers]. No field may come
// from an API client, because the fields determine which program runs.
type Agent struct {
	Protocol    string            // protocol of an added agent; "" to change a known agent
	Command     []string          // program and arguments. Default: those of the known agent
	Path        string            // program only, instead of Command; a known agent keeps its arguments
	Env         map[string]string // additional environment variables
	DisplayName string            // only for an added agent. Default: the agent's name
	Key         runnel.KeySource  // source of the API key. Default: the agent chooses its credential
	KeyFile     string            // absolute path of the file that Key.Read reads
}

// Limits of a configuration.
const (
	maxAgents = 100
	maxWords  = 100      // words of a command, and variables of an environment
	maxWord   = 32 << 10 // bytes of a word, or of a variable's value
)

var (
	agentName    = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)
	variableName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,199}$`) })
)

// Configured returns [Providers] with the changes and additions of a
// configuration, whose keys are the names of agents. An error begins with the
// key of the invalid value, such as agents.mine.command. Configured does not
// check whether a program exists, because it may be installed later.
func Configured(agents map[string]Agent) ([]runnel.Provider, error) {
	if len(agents) > maxAgents {
		return nil, fmt.Errorf("agents: got %d; want at most %d", len(agents), maxAgents)
	}
	list := Providers()
	var added []runnel.Provider
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		a, err := agents[name].checked()
		if err != nil {
			return nil, fmt.Errorf("agents.%s%w", name, err)
		}
		i := slices.IndexFunc(list, func(p runnel.Provider) bool { return p.Name() == name })
		if a.Protocol != "" {
			p, err := a.provider(name, i >= 0)
			if err == nil {
				err = reserved(list, p)
			}
			if err != nil {
				return nil, fmt.Errorf("agents.%s%w", name, err)
			}
			added = append(added, p)
			continue
		}
		if i < 0 {
			return nil, fmt.Errorf("agents.%s: no known agent has this name; to add an agent, set its protocol (%s); known agents: %s",
				name, strings.Join(protocols(), " or "), strings.Join(names(list), ", "))
		}
		if list[i], err = a.reconfigured(list[i]); err != nil {
			return nil, fmt.Errorf("agents.%s%w", name, err)
		}
	}
	last := len(list) - 1 // the scripted agent stays last
	return slices.Insert(list, last, added...), nil
}

// checked returns the agent with absolute paths. An error begins with the key
// below the agent's name, such as ".command".
func (a Agent) checked() (Agent, error) {
	if a.Path != "" && len(a.Command) > 0 {
		return a, errors.New(": path and command exclude each other")
	}
	if len(a.Command) > maxWords {
		return a, fmt.Errorf(".command: more than %d words", maxWords)
	}
	for i, word := range a.Command {
		if !fits(word) {
			return a, fmt.Errorf(".command[%d]: too long, or contains a NUL character", i)
		}
	}
	var err error
	if a.Path, err = program(a.Path); err != nil {
		return a, fmt.Errorf(".path: %w", err)
	}
	if len(a.Command) > 0 {
		a.Command = slices.Clone(a.Command)
		if a.Command[0] == "" {
			return a, errors.New(".command: the first word is empty; want the program")
		}
		if a.Command[0], err = program(a.Command[0]); err != nil {
			return a, fmt.Errorf(".command: %w", err)
		}
	}
	if len(a.Env) > maxWords {
		return a, fmt.Errorf(".env: more than %d variables", maxWords)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		if !variableName().MatchString(name) {
			return a, fmt.Errorf(".env.%s: not a valid variable name; want letters, digits and _", name)
		}
		if !fits(a.Env[name]) {
			return a, fmt.Errorf(".env.%s: too long, or contains a NUL character", name)
		}
	}
	switch {
	case a.Key.Auth != "" && a.Key.Auth != runnel.AuthAgentLogin && a.Key.Auth != runnel.AuthAPIKey:
		return a, fmt.Errorf(".auth: unknown value %q; want agent-login or api-key", a.Key.Auth)
	case a.KeyFile != "" && a.Key.Auth != runnel.AuthAPIKey:
		return a, errors.New(".apiKeyFile: requires auth: api-key")
	}
	if len(a.DisplayName) > 100 || strings.ContainsFunc(a.DisplayName, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return a, errors.New(".displayName: want at most 100 bytes on one line")
	}
	return a, nil
}

func fits(word string) bool { return len(word) <= maxWord && !strings.ContainsRune(word, 0) }

// program returns the absolute path of a program, or a bare name to look up in
// PATH. It expands ~/. It rejects a relative path, because that would depend on
// the working directory.
func program(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.New("no home directory; write the absolute path")
		}
		path = filepath.Join(home, rest)
	}
	switch {
	case !fits(path):
		return "", errors.New("too long, or contains a NUL character")
	case filepath.IsAbs(path), !strings.Contains(path, "/") && !(runtime.GOOS == "windows" && strings.ContainsAny(path, `\:`)):
		return path, nil
	}
	return "", fmt.Errorf("%q is relative; write the absolute path, or the bare name of a program in PATH", path)
}

// reconfigured returns the provider of a known agent with the changes of the
// configuration.
func (a Agent) reconfigured(p runnel.Provider) (runnel.Provider, error) {
	if a.DisplayName != "" {
		return nil, errors.New(".displayName: cannot change the name of a known agent; use it only with protocol")
	}
	command := a.Command
	if a.Path != "" {
		command = []string{a.Path}
	}
	if len(command) == 0 && len(a.Env) == 0 && a.Key.Auth == "" {
		return nil, errors.New(": has no setting; want path, command, env or auth")
	}
	pr, ok := p.(runnel.Programmable)
	if !ok {
		return nil, errors.New(": runs no program, so path, command, env and auth do not apply")
	}
	return a.withKey(pr.WithProgram(command, a.environ()))
}

// withKey returns the provider with the configured source of the API key.
func (a Agent) withKey(p runnel.Provider) (runnel.Provider, error) {
	if a.Key.Auth == "" {
		return p, nil
	}
	k, ok := p.(runnel.KeyTaker)
	t, declares := p.(runnel.OptionTaker)
	if a.Key.Auth == runnel.AuthAPIKey && (!ok || declares && !t.Takes().APIKey) {
		return nil, errors.New(".auth: this agent accepts no API key from runnel; log in, or configure a key in the agent itself")
	}
	if !ok {
		return p, nil
	}
	return k.WithKey(a.Key), nil
}

// environ returns the variables as "K=V", sorted by name.
func (a Agent) environ() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		env = append(env, name+"="+a.Env[name])
	}
	return env
}

// provider returns the provider of an added agent. taken means that a known
// agent has the name.
func (a Agent) provider(name string, taken bool) (runnel.Provider, error) {
	switch {
	case taken:
		return nil, errors.New(": this name belongs to a known agent; choose another name, or leave out protocol to change the known agent")
	case !agentName.MatchString(name):
		return nil, errors.New(": not a valid name; want up to 40 lower-case letters, digits and dashes, with a letter first and no dash at the end")
	case !slices.Contains(protocols(), a.Protocol):
		return nil, fmt.Errorf(".protocol: unknown value; want %s", strings.Join(protocols(), ", "))
	}
	if a.Path != "" {
		a.Command = []string{a.Path}
	}
	if len(a.Command) == 0 {
		return nil, errors.New(".command: missing; want the program and its arguments, such as [my-agent, --acp]")
	}
	return a.withKey(a.protocolProvider(name))
}

// reserved fails if a known agent has the same agent kind as p.
func reserved(known []runnel.Provider, p runnel.Provider) error {
	kind := runnel.AgentKind(p)
	for _, k := range known {
		if runnel.AgentKind(k) == kind {
			return fmt.Errorf(": the kind %s of this agent is reserved for %s; choose another name", kind, k.Name())
		}
	}
	return nil
}

func names(ps []runnel.Provider) []string {
	var names []string
	for _, p := range ps {
		names = append(names, p.Name())
	}
	return names
}
