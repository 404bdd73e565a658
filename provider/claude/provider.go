// Package claude runs Claude Code through its stream of JSON lines.
package claude

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
)

// product is how messages to users call it.
var product = agentconn.Agent{Name: "Claude Code", Install: installCommand, Try: "claude --version"}

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
	path, err := agentconn.Find(cmp.Or(opt.Path, "claude"), product)
	if err != nil {
		return nil, err
	}
	tr := newTranslator()
	shell, err := agentconn.Start(ctx, agentconn.Command{Path: path, Args: args, Env: environ(parentEnviron(), opt), Mark: "CLAUDE_CODE_RUNNEL_MARK"}, product, tr, opt)
	if err != nil {
		return nil, err
	}
	c := &conn{shell, tr, opt.AllowBypass}
	if err := c.handshake(ctx, reqs); err != nil {
		return nil, err
	}
	return c, nil
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
