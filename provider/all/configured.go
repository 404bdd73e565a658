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

	"github.com/runnel-dev/runnel"
)

// An Agent is what a configuration says of one kind of agent. With a Protocol it
// is one that comes on top, without one it is among Providers already. None of
// this may come from a client: it says what is executed.
type Agent struct {
	Protocol    string            // that the program speaks. Default: it is a known agent
	Command     []string          // the program and its arguments. Default: a known agent's own
	Path        string            // the program alone, instead of Command
	Env         map[string]string // further variables of its environment
	DisplayName string            // of one that comes on top. Default: made of its name
	Key         runnel.KeySource  // of its API key. Default: the agent chooses its credential
	KeyFile     string            // that Key.Read reads, absolute
}

// The bounds of a configuration.
const (
	maxAgents = 100
	maxWords  = 100      // of a command, and variables
	maxWord   = 32 << 10 // bytes
)

var (
	agentName    = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,199}$`)
)

// Configured returns Providers, changed and extended by a configuration. An
// error names the key that is wrong, such as agents.mine.command. Whether a
// program is there is not looked at: it may be installed later.
func Configured(agents map[string]Agent) ([]runnel.Provider, error) {
	if len(agents) > maxAgents {
		return nil, fmt.Errorf("agents: %d are too many; at most %d", len(agents), maxAgents)
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
			return nil, fmt.Errorf("agents.%s: no known agent has this name; to add one say which protocol it speaks: protocol: %s; known are %s",
				name, strings.Join(protocols(), " or "), strings.Join(names(list), ", "))
		}
		if list[i], err = a.changed(list[i]); err != nil {
			return nil, fmt.Errorf("agents.%s%w", name, err)
		}
	}
	last := len(list) - 1 // the scripted one stays last
	return slices.Insert(list, last, added...), nil
}

// checked returns the agent with all paths whole, or what is wrong, beginning
// with the key below its name.
func (a Agent) checked() (Agent, error) {
	if a.Path != "" && len(a.Command) > 0 {
		return a, errors.New(": path and command exclude each other")
	}
	if len(a.Command) > maxWords {
		return a, fmt.Errorf(".command: more than %d words", maxWords)
	}
	for i, word := range a.Command {
		if !fits(word) {
			return a, fmt.Errorf(".command[%d]: too long, or holds a NUL character", i)
		}
	}
	var err error
	if a.Path, err = program(a.Path); err != nil {
		return a, fmt.Errorf(".path: %w", err)
	}
	if len(a.Command) > 0 {
		a.Command = slices.Clone(a.Command)
		if a.Command[0] == "" {
			return a, errors.New(".command: begins with an empty word; the program comes first")
		}
		if a.Command[0], err = program(a.Command[0]); err != nil {
			return a, fmt.Errorf(".command: %w", err)
		}
	}
	if len(a.Env) > maxWords {
		return a, fmt.Errorf(".env: more than %d variables", maxWords)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		if !variableName.MatchString(name) {
			return a, fmt.Errorf(".env.%s: not the name of a variable; it has letters, digits and _", name)
		}
		if !fits(a.Env[name]) {
			return a, fmt.Errorf(".env.%s: too long, or holds a NUL character", name)
		}
	}
	switch {
	case a.Key.Auth != "" && a.Key.Auth != runnel.AuthAgentLogin && a.Key.Auth != runnel.AuthAPIKey:
		return a, fmt.Errorf(".auth: unknown value %q; want agent-login or api-key", a.Key.Auth)
	case a.KeyFile != "" && a.Key.Auth != runnel.AuthAPIKey:
		return a, errors.New(".apiKeyFile: needs auth: api-key beside it")
	}
	if len(a.DisplayName) > 100 || strings.ContainsFunc(a.DisplayName, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return a, errors.New(".displayName: has up to 100 bytes on one line")
	}
	return a, nil
}

func fits(word string) bool { return len(word) <= maxWord && !strings.ContainsRune(word, 0) }

// program returns the absolute path of a program, or the bare name that is to be
// looked up in PATH. A relative path would mean another file from each directory.
func program(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.New("there is no home directory; write the whole path")
		}
		path = filepath.Join(home, rest)
	}
	switch {
	case !fits(path):
		return "", errors.New("too long, or holds a NUL character")
	case filepath.IsAbs(path), !strings.Contains(path, "/") && !(runtime.GOOS == "windows" && strings.ContainsAny(path, `\:`)):
		return path, nil
	}
	return "", fmt.Errorf("%q is relative; write the whole path, or the bare name of a program in PATH", path)
}

// changed returns a known agent as the configuration wants it.
func (a Agent) changed(p runnel.Provider) (runnel.Provider, error) {
	if a.DisplayName != "" {
		return nil, errors.New(".displayName: a known agent has its name already; it is for one with a protocol")
	}
	command := a.Command
	if a.Path != "" {
		command = []string{a.Path}
	}
	if len(command) == 0 && len(a.Env) == 0 && a.Key.Auth == "" {
		return nil, errors.New(": says nothing; give path, command, env or auth")
	}
	pr, ok := p.(runnel.Programmable)
	if !ok {
		return nil, errors.New(": has no program that could be another one")
	}
	return a.keyed(pr.WithProgram(command, a.environ()))
}

// keyed returns the agent with the API key that the configuration names.
func (a Agent) keyed(p runnel.Provider) (runnel.Provider, error) {
	if a.Key.Auth == "" {
		return p, nil
	}
	k, ok := p.(runnel.KeyTaker)
	t, declares := p.(runnel.OptionTaker)
	if a.Key.Auth == runnel.AuthAPIKey && (!ok || declares && !t.Takes().APIKey) {
		return nil, errors.New(".auth: this agent takes no API key from us; log in or configure a key with the agent itself")
	}
	if !ok {
		return p, nil
	}
	return k.WithKey(a.Key), nil
}

// environ returns the variables as "K=V", sorted.
func (a Agent) environ() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		env = append(env, name+"="+a.Env[name])
	}
	return env
}

// provider returns an agent that comes on top. A path is a command of one word.
func (a Agent) provider(name string, taken bool) (runnel.Provider, error) {
	switch {
	case taken:
		return nil, errors.New(": this name belongs to a known agent; choose another, or leave out protocol to say where that one is")
	case !agentName.MatchString(name):
		return nil, errors.New(": not a name; it has up to 40 small letters, digits and dashes, a letter first and no dash at its end")
	case !slices.Contains(protocols(), a.Protocol):
		return nil, fmt.Errorf(".protocol: not one of %s", strings.Join(protocols(), ", "))
	}
	if a.Path != "" {
		a.Command = []string{a.Path}
	}
	if len(a.Command) == 0 {
		return nil, errors.New(".command: missing; it is the program and its arguments, such as [my-agent, --acp]")
	}
	return a.keyed(a.speaking(name))
}

// reserved fails if the kind of p's agent belongs to a known one under another
// name.
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
