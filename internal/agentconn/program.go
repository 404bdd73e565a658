package agentconn

import (
	"slices"

	"github.com/runnel-dev/runnel"
)

// A Program is the configured program of a provider. The zero value is the
// provider's usual program from PATH.
type Program struct {
	Command []string // program and first arguments; empty for the usual program
	Env     []string // "K=V", further variables of the agent's environment

	Source runnel.KeySource // source of the API key

	Limits runnel.Limits // of the agent of each session
}

// With returns a copy of the program with command in place of its command,
// unless command is empty, and with env after its own variables.
func (p Program) With(command, env []string) Program {
	if len(command) > 0 {
		p.Command = slices.Clone(command)
	}
	p.Env = slices.Concat(p.Env, env)
	return p
}

// WithKey returns a copy of the program with source as the source of the API
// key.
func (p Program) WithKey(source runnel.KeySource) Program {
	p.Source = source
	return p
}

// WithLimits returns a copy of the program with limits for the agent of each
// session.
func (p Program) WithLimits(l runnel.Limits) Program {
	p.Limits = l
	return p
}

// Credential returns the credential of the program's agent, whose API key is
// key.
func (p Program) Credential(key Key) Credential { return Credential{Key: key, Source: p.Source} }

// Find returns the absolute path of the program to run, and its first
// arguments. usual is the name of the provider's usual program. opt.Path takes
// precedence over the configuration and over usual.
func (p Program) Find(opt runnel.Options, usual string, agent Agent) (path string, args []string, err error) {
	switch {
	case opt.Path != "":
		usual = opt.Path
	case len(p.Command) > 0:
		usual, args = p.Command[0], slices.Clone(p.Command[1:])
		agent.Install = "" // errors refer to the configuration instead
	}
	path, err = Find(usual, agent, opt)
	return path, args, err
}

// Configured returns the options with the program's environment before their
// own, and with the program's limits.
func (p Program) Configured(opt runnel.Options) runnel.Options {
	opt.Env, opt.Limits = slices.Concat(p.Env, opt.Env), p.Limits
	return opt
}

// Installation returns what Runnel knows of an agent before it is probed. The
// agent supports every permission mode. login is the command that logs a user
// in.
func (a Agent) Installation(login string) runnel.Installation {
	return runnel.Installation{
		Install: a.Install, Login: login,
		Modes: []string{
			string(runnel.ModeDefault), string(runnel.ModeAcceptEdits), string(runnel.ModePlan),
			string(runnel.ModeDontAsk), string(runnel.ModeBypass),
		},
	}
}
