// Package claude runs Claude Code through its stream of JSON lines.
package claude

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/broker"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/provider/claude/plugins"
)

// product has the agent's name and commands, as messages to users show them.
var product = agentconn.Agent{Name: "Claude Code", Install: installCommand, Try: "claude --version"}

// usualProgram is the file name of the agent's program in PATH.
const usualProgram = "claude"

// installCommand is the command that installs the agent.
const installCommand = "npm install -g @anthropic-ai/claude-code"

// loginCommand is the command with which a user logs in.
const loginCommand = "claude auth login"

// Provider runs Claude Code. The zero value runs the program "claude" in PATH.
type Provider struct {
	program agentconn.Program
}

// New returns a Provider.
func New() *Provider { return &Provider{} }

// WithProgram implements [runnel.Programmable].
func (p *Provider) WithProgram(command, env []string) runnel.Provider {
	return &Provider{p.program.With(command, env)}
}

// apiKey names the environment variables that can hold the API key. The second
// variable exists for programs written for another server.
var apiKey = agentconn.Key{
	Variables: []string{"ANTHROPIC_API_KEY", "CHIRALITY_ANTHROPIC_API_KEY"}, Others: []string{"ANTHROPIC_AUTH_TOKEN"},
	Logins:   []string{"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_REFRESH_TOKEN"},
	Endpoint: agentconn.Endpoint{Variable: "ANTHROPIC_BASE_URL", Default: "https://api.anthropic.com", Header: broker.XAPIKey},
}

func (p *Provider) credential() agentconn.Credential { return p.program.Credential(apiKey) }

// CheckKey implements [runnel.KeyHolder].
func (p *Provider) CheckKey(opt runnel.Options) error {
	if p.credential().Brokers(opt) {
		_, err := p.Brokerage(opt)
		return err
	}
	return p.credential().Check(parentEnviron(), p.program.Configured(opt))
}

// ChecksLogin implements [runnel.LoginChecker].
func (p *Provider) ChecksLogin() {}

// WithKey implements [runnel.KeyTaker].
func (p *Provider) WithKey(source runnel.KeySource) runnel.Provider {
	return &Provider{p.program.WithKey(source)}
}

// parent returns the environment from which the agent's environment is made.
func (p *Provider) parent() []string { return slices.Concat(parentEnviron(), p.program.Env) }

// WithLimits implements [runnel.Limiter].
func (p *Provider) WithLimits(l runnel.Limits) runnel.Provider {
	return &Provider{p.program.WithLimits(l)}
}

// Name implements [runnel.Provider].
func (*Provider) Name() string { return providerID }

// DisplayName returns the product's name.
func (*Provider) DisplayName() string { return "Claude Code" }

// Prototype implements [runnel.ConnPrototype].
func (*Provider) Prototype() runnel.Conn { return (*conn)(nil) }

// Extra implements [runnel.Capable].
func (*Provider) Extra() []runnel.Capability {
	return append([]runnel.Capability{
		runnel.CapToolsStructured, runnel.CapToolsResults, runnel.CapSessionResume, runnel.CapAddDirs, runnel.CapExternalSandbox,
	}, runnel.MCPCapabilities()...)
}

// efforts are the values of --effort in the help text of Claude Code 2.1.329.
// Claude Code ignores any other value and prints a warning.
var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// subagentNames are the names of the tool that starts a subagent. Each version
// of Claude Code uses one of them; permission rules accept both.
var subagentNames = []string{"Agent", "Task"}

// schedulingTools are the tools by which the model makes the agent begin turns
// later, by itself. A durable task of CronCreate also does so in later sessions.
var schedulingTools = []string{"CronCreate", "ScheduleWakeup"}

// movingTools are the tools by which the model makes the agent work in another folder.
// Without asking, 2.1.197 enters any worktree that the repository lists, and follows
// some links. It then reads and, with acceptEdits, writes there as in the session's
// folder.
var movingTools = []string{"EnterWorktree"}

// subagentTools are all tools that can let a subagent work. A workflow is a script
// that can start them, and a message continues a subagent that has ended, also
// after a conversation was resumed.
var subagentTools = append(slices.Clone(subagentNames), "Workflow", "SendMessage")

// Takes implements [runnel.OptionTaker].
func (*Provider) Takes() runnel.Takes {
	return runnel.Takes{
		Tools: true, MaxTurns: true, MaxThinkingTokens: true, AddDirs: true, SystemPromptAppend: true, MCPServers: true, Resume: true, APIKey: true, Sandbox: true, Broker: true,
		ReportsTokens: true, ReportsCost: true,
		Efforts: efforts, DisallowedTools: true, ThinkingDisplay: true, SubagentTools: subagentTools, SubagentKey: "subagent_type",
		Delegations: []runnel.Delegation{runnel.DelegateAsking, runnel.DelegateNever},
	}
}

// Open implements [runnel.Provider].
func (p *Provider) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	return p.open(ctx, opt, false)
}

// Fork implements [runnel.Forker].
func (p *Provider) Fork(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	if err := agentconn.CheckFork(opt); err != nil {
		return nil, err
	}
	return p.open(ctx, opt, true)
}

// mark is the environment variable by which the supervisor finds the processes
// that it started.
const mark = "CLAUDE_CODE_" + proc.MarkSuffix

func (p *Provider) open(ctx context.Context, opt runnel.Options, fork bool) (runnel.Conn, error) {
	opt = p.program.Configured(opt)
	args, err := argv(opt, fork)
	if err != nil {
		return nil, err
	}
	reqs, err := setup(opt)
	if err != nil {
		return nil, err
	}
	path, first, err := p.program.Find(opt, usualProgram, product)
	if err != nil {
		return nil, err
	}
	env, b, err := p.environment(opt)
	defer b.CloseUnused()
	if err != nil {
		return nil, err
	}
	if err := checkState(ctx, env, opt); err != nil {
		return nil, err
	}
	box := enclosure(env, args, opt)
	if !opt.Trusted {
		if args, err = withoutServers(env, first, args, opt, box); err != nil {
			return nil, err
		}
	}
	tr := newTranslator()
	shell, err := agentconn.Start(ctx, agentconn.Command{Path: path, Args: slices.Concat(first, args), Env: env, Mark: mark, Worktrees: filepath.Join(".claude", "worktrees"), Above: []string{".mcp.json", ".claude", "CLAUDE.md", "CLAUDE.local.md"}, Enclosure: box, Broker: b}, product, tr, opt)
	if err != nil {
		return nil, err
	}
	c := &conn{shell, tr, opt, thinkingBudget(opt, env)}
	if opt.ThinkingDisplay != "" {
		reqs = append(reqs, displayRequest(opt.ThinkingDisplay, c.budget))
	}
	if err := c.handshake(ctx, reqs, opt); err != nil {
		return nil, err
	}
	return c, nil
}

// withoutServers returns args with settings that switch off the user's plugins with
// language servers, and adds the file of the settings to what the agent reads in a
// sandbox. Settings that the agent receives after its start come too late for that
// (2.1.330). It fails if the configured arguments in first bring further plugins, or
// settings, of which Claude Code would ignore those that come first.
func withoutServers(env, first, args []string, opt runnel.Options, box *agentconn.Enclosure) ([]string, error) {
	if hasFlag(first, "--plugin-dir") || hasFlag(first, "--plugin-url") {
		return nil, agentconn.Untrusted(opt, opt.Dir, "The command of Claude Code in the configuration names a plugin, which may run programs of an untrusted folder. Install the plugin instead, so that Runnel can switch it off.")
	}
	off := plugins.Off(env)
	if len(off) == 0 {
		return args, nil
	}
	if hasFlag(first, "--settings") {
		return nil, agentconn.Untrusted(opt, opt.Dir, "The command of Claude Code in the configuration has --settings, so Runnel cannot switch off plugins that may run programs of an untrusted folder. Move these settings to the settings.json of Claude Code.")
	}
	settings, err := json.Marshal(map[string]any{"enabledPlugins": off})
	if err != nil {
		return nil, err
	}
	file, err := agentconn.KeepSettings("plugins.json", settings)
	if err != nil {
		return nil, err
	}
	if box != nil {
		box.Read = append(box.Read, file)
	}
	return append(args, "--settings="+file), nil
}

// hasFlag reports whether args have a flag, also with its value in the same argument.
func hasFlag(args []string, flag string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") })
}

// Adopt implements [runnel.Adopter].
func (p *Provider) Adopt(_ context.Context, opt runnel.Options) (runnel.Conn, runnel.Backlog, error) {
	opt = p.program.Configured(opt)
	tr := newTranslator()
	c, back, err := agentconn.Adopt(opt, environ(parentEnviron(), opt), product, tr, p.credential(), func() error { return tr.isSetUp(opt) })
	if err != nil {
		return nil, back, err
	}
	return &conn{c, tr, opt, thinkingBudget(opt, environ(parentEnviron(), opt))}, back, nil
}

// configDir returns the directory in which the agent stores its conversations;
// "" if the user has no home directory.
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
