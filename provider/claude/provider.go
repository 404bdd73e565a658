// Package claude runs Claude Code through its stream of JSON lines.
package claude

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/redact"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// Provider runs Claude Code. The zero value runs the "claude" in PATH.
type Provider struct{}

// New returns a Provider.
func New() *Provider { return &Provider{} }

// Name implements [runnel.Provider].
func (*Provider) Name() string { return providerID }

// DisplayName is the product's name.
func (*Provider) DisplayName() string { return "Claude Code" }

// Prototype implements [runnel.ConnPrototype].
func (*Provider) Prototype() runnel.Conn { return (*conn)(nil) }

// Extra implements [runnel.Capable].
func (*Provider) Extra() []runnel.Capability {
	return []runnel.Capability{
		runnel.CapToolsStructured, runnel.CapToolsResults, runnel.CapSessionResume, runnel.CapAddDirs, runnel.CapExternalSandbox,
	}
}

// Open implements [runnel.Provider].
func (p *Provider) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	return open(ctx, opt, false)
}

// Fork implements [runnel.Forker].
func (p *Provider) Fork(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	if opt.Resume == "" {
		return nil, runnel.Fail(runnel.InvalidRequest, "resume: which conversation to fork is missing")
	}
	return open(ctx, opt, true)
}

func open(ctx context.Context, opt runnel.Options, fork bool) (runnel.Conn, error) {
	args, err := argv(opt, fork)
	if err != nil {
		return nil, err
	}
	reqs, err := setup(opt)
	if err != nil {
		return nil, err
	}
	path, err := find(opt.Path)
	if err != nil {
		return nil, err
	}
	env := environ(parentEnviron(), opt)
	process, err := supervisor.Start(ctx, proc.Command{
		Path: path, Args: args, Dir: opt.Dir, Env: env, Mark: "CLAUDE_CODE_RUNNEL_MARK",
		Redact: redactor(env),
	}, supervisor.Keep(opt.Keep))
	if err != nil {
		return nil, startFault(ctx, err)
	}
	c := newConn(process, opt)
	if err := c.handshake(ctx, reqs); err != nil {
		return nil, err
	}
	return c, nil
}

// redactor takes out of a text what the agent's environment holds as secrets.
func redactor(env []string) func([]byte) []byte {
	return func(b []byte) []byte { return redact.New(redact.Env(env)...).Bytes(b) }
}

// find returns the absolute path of the program.
func find(path string) (string, error) {
	name := path
	if name == "" {
		name = "claude"
	}
	found, err := exec.LookPath(name)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return "", notInstalled(err)
	}
	return found, nil
}

func notInstalled(cause error) error {
	return runnel.Fail(runnel.AgentNotInstalled, "Claude Code is not installed, or not in PATH. Run: "+installCommand, cause)
}

// startFault says why the program did not start.
func startFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return runnel.Fail(runnel.Timeout, "starting Claude Code was given up", err)
	}
	start, _ := errors.AsType[*proc.StartError](err)
	switch {
	case start == nil:
		return runnel.Fail(runnel.SessionCreateFailed, "Claude Code could not be started", err)
	case start.Reason == proc.NotFound:
		return notInstalled(err)
	case start.Reason == proc.BadDir:
		return runnel.Fail(runnel.WorkingRootInaccessible, "the project directory is missing or not accessible", err)
	case start.Reason == proc.NoResources:
		return runnel.Fail(runnel.Overloaded, "Claude Code could not be started: "+string(start.Reason)+" on this machine. End something, and try again.", err)
	}
	return runnel.Fail(runnel.SessionCreateFailed, "Claude Code could not be started: "+string(start.Reason), err)
}

// configDir is where the agent keeps its conversations.
func configDir(env []string) string {
	vars := proc.Environ(env, []string{"CLAUDE_CONFIG_DIR", "HOME", "USERPROFILE"}, nil)
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "HOME", "USERPROFILE"} {
		for _, v := range vars {
			if len(v) > len(name)+1 && v[:len(name)+1] == name+"=" {
				dir := v[len(name)+1:]
				if name != "CLAUDE_CONFIG_DIR" {
					dir = filepath.Join(dir, ".claude")
				}
				return dir
			}
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".claude")
}
