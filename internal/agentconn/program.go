package agentconn

import (
	"slices"

	"github.com/runnel-dev/runnel"
)

// A Program is the program of a provider as the configuration has it. The zero
// value is the provider's usual one, looked up in PATH.
type Program struct {
	Command []string // the program and its first arguments, in place of the usual one
	Env     []string // "K=V", further variables of its environment

	Source runnel.KeySource // of its API key
}

// With returns the program with another command, unless that is empty, and with
// further variables after its own.
func (p Program) With(command, env []string) Program {
	if len(command) > 0 {
		p.Command = slices.Clone(command)
	}
	p.Env = slices.Concat(p.Env, env)
	return p
}

// Find returns the absolute path of the program to run, and its first
// arguments. usual is the name of the provider's usual one; opt.Path takes
// precedence.
func (p Program) Find(opt runnel.Options, usual string, agent Agent) (path string, args []string, err error) {
	switch {
	case opt.Path != "":
		usual = opt.Path
	case len(p.Command) > 0:
		usual, args = p.Command[0], slices.Clone(p.Command[1:])
		agent.Install = "" // an error names the configuration instead
	}
	path, err = Find(usual, agent, opt)
	return path, args, err
}

// Configured returns the options with the program's environment before their
// own.
func (p Program) Configured(opt runnel.Options) runnel.Options {
	opt.Env = slices.Concat(p.Env, opt.Env)
	return opt
}

// Installation returns what is known of an agent that has every permission mode
// before it is probed. login is the command that logs a user in.
func (a Agent) Installation(login string) runnel.Installation {
	return runnel.Installation{
		Install: a.Install, Login: login,
		Modes: []string{
			string(runnel.ModeDefault), string(runnel.ModeAcceptEdits), string(runnel.ModePlan),
			string(runnel.ModeDontAsk), string(runnel.ModeBypass),
		},
	}
}
