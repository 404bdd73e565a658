// Package acp runs agents that speak the Agent Client Protocol.
//
// An agent consists of an entry in agents.go and its deviations from the
// protocol in quirks_*.go. All other code implements the protocol. It supports
// version 1, and version 2 for agents that offer it. One agent process serves
// one conversation; see package agentconn.
package acp

import (
	"cmp"
	"context"
	"crypto/rand"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/text"
)

// provider implements the methods that every agent supports.
type provider struct {
	agent Agent
	env   []string // configured variables, "K=V"
	keys  runnel.KeySource

	limits runnel.Limits

	knownCaps *knownCaps
	own       *ownWrites
}

// Runnel derives the capabilities of a provider from the interfaces that it
// implements, so each combination of optional capabilities has its own type.
type (
	historyProvider struct{ *provider }       // reads stored conversations
	listingProvider struct{ historyProvider } // also lists them
	forkingProvider struct{ listingProvider } // also continues copies of them

	// Runnel lists the conversations of these agents without starting them, and
	// reads some of them, or only their text for the search and while a terminal
	// writes them.
	readableProvider struct {
		*provider
		readable
	}
	readableListingProvider struct {
		listingProvider
		readable
	}
	filedListingProvider struct {
		listingProvider
		searchable
	}
	keptForkingProvider struct {
		forkingProvider
		kept
	}
)

// New returns a provider for an agent.
func New(a Agent) runnel.Provider { return newProvider(&provider{agent: a}) }

func newProvider(p *provider) runnel.Provider {
	p.knownCaps, p.own = new(knownCaps), new(ownWrites)
	q := p.agent.quirks().stored
	files, reads := q.pattern != "", q.updates != nil
	switch a := p.agent; {
	case !a.Loads && reads:
		return readableProvider{p, readable{filed{p}}}
	case !a.Loads:
		return p
	case !a.Lists:
		return historyProvider{p}
	case !a.Forks && reads && !q.onlySearch:
		return readableListingProvider{listingProvider{historyProvider{p}}, readable{filed{p}}}
	case !a.Forks && files:
		return filedListingProvider{listingProvider{historyProvider{p}}, searchable{filed{p}}}
	case !a.Forks:
		return listingProvider{historyProvider{p}}
	case q.database != nil:
		return keptForkingProvider{forkingProvider{listingProvider{historyProvider{p}}}, kept{p}}
	}
	return forkingProvider{listingProvider{historyProvider{p}}}
}

// Name implements [runnel.Provider].
func (p *provider) Name() string { return p.agent.Name }

// AgentKind implements [runnel.AgentKinder].
func (p *provider) AgentKind() string {
	return cmp.Or(p.agent.Kind, strings.ReplaceAll(p.agent.Name, "-", "_"))
}

// DisplayName returns the product's name.
func (p *provider) DisplayName() string { return p.agent.conn().Name }

// Prototype implements [runnel.ConnPrototype].
func (p *provider) Prototype() runnel.Conn { return (*conn)(nil) }

// WithProgram implements [runnel.Programmable].
func (p *provider) WithProgram(command, env []string) runnel.Provider {
	q := &provider{agent: p.agent, env: slices.Concat(p.env, env), keys: p.keys, limits: p.limits}
	switch {
	case len(command) == 1 && len(q.agent.Command) > 0: // keep the default arguments
		q.agent.Command = append([]string{command[0]}, q.agent.Command[1:]...)
	case len(command) > 0:
		q.agent.Command = slices.Clone(command)
	}
	return newProvider(q)
}

// WithLimits implements [runnel.Limiter].
func (p *provider) WithLimits(l runnel.Limits) runnel.Provider {
	return newProvider(&provider{agent: p.agent, env: p.env, keys: p.keys, limits: l})
}

// Extra implements [runnel.Capable].
func (p *provider) Extra() []runnel.Capability {
	caps := []runnel.Capability{runnel.CapToolsStructured, runnel.CapToolsResults}
	if p.agent.Resumes {
		caps = append(caps, runnel.CapSessionResume)
	}
	if p.agent.AddDirs {
		caps = append(caps, runnel.CapAddDirs)
	}
	if p.agent.quirks().startup.modes[runnel.ModeBypass] != nil {
		caps = append(caps, runnel.CapExternalSandbox)
	}
	if p.agent.quirks().mcp != nil {
		caps = append(caps, runnel.MCPCapabilities()...)
	}
	return caps
}

// Takes implements [runnel.OptionTaker]. The capabilities of a configured agent
// are unknown before its handshake. For such an agent, Takes declares AddDirs,
// Resume and any effort, and the handshake rejects what the agent lacks.
func (p *provider) Takes() runnel.Takes {
	a, q, configured := p.agent, p.agent.quirks().startup, byName[p.agent.Name] == nil
	return runnel.Takes{
		Tools: q.passesOptions, MaxTurns: q.passesOptions, ThinkingDisplay: q.showsThinking, SystemPromptAppend: q.prepare != nil, MCPServers: true,
		AddDirs: a.AddDirs || configured, Resume: a.Resumes || configured, APIKey: len(a.Key.Variables) > 0, Sandbox: enclosures[a.Name] != nil, Broker: a.Key.Endpoint.Header != "",
		ReportsTokens: !configured, ReportsCost: a.ReportsCost,
		DisallowedTools: q.passesDisallowed, SubagentTools: q.subagentTools, SubagentKey: q.subagentKey, Delegations: q.delegations,
		Modes: p.modes(), Efforts: a.Efforts, AnyEffort: a.AnyEffort || configured, Config: true,
	}
}

// modes returns the permission modes in which the agent can start.
func (p *provider) modes() (out []runnel.PermissionMode) {
	q := p.agent.quirks().startup
	for _, m := range []runnel.PermissionMode{
		runnel.ModeDefault, runnel.ModeAcceptEdits, runnel.ModePlan, runnel.ModeDontAsk, runnel.ModeBypass,
	} {
		if m == runnel.ModeDefault || q.modes[m] != nil || slices.Contains(q.startModes, m) {
			out = append(out, m)
		}
	}
	return out
}

// Open implements [runnel.Provider].
func (p *provider) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	begin := opening{method: methodNew}
	if opt.Resume != "" {
		begin = opening{method: methodResume, session: opt.Resume}
	}
	c, err := p.open(ctx, opt, begin)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Fork implements [runnel.Forker].
func (p forkingProvider) Fork(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	if err := agentconn.CheckFork(opt); err != nil {
		return nil, err
	}
	c, err := p.open(ctx, opt, opening{method: methodFork, session: opt.Resume})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Translate implements [runnel.Translator].
func (p *provider) Translate(lines iter.Seq2[runnel.Line, error]) iter.Seq2[event.Event, error] {
	return agentconn.Translate(newTranslator(p.agent), lines)
}

// Adopt implements [runnel.Adopter].
func (p *provider) Adopt(_ context.Context, opt runnel.Options) (runnel.Conn, runnel.Backlog, error) {
	c := &conn{tr: newTranslator(p.agent), bypass: opt.AllowBypass, dir: opt.Dir, own: p.own}
	c.tr.session.starts(opt.PermissionMode, p.asksFirst(opt))
	ac, back, err := agentconn.Adopt(opt, p.environ(os.Environ(), opt), p.agent.conn(), c.tr, p.credential(), c.isReady)
	if err != nil {
		return nil, runnel.Backlog{}, err
	}
	c.Conn = ac
	if path, _, err := p.command(opt); err == nil {
		p.knownCaps.set(path, c.tr.session.caps)
	}
	return c, back, nil
}

// open starts the agent and completes the handshake, which opens a
// conversation.
func (p *provider) open(ctx context.Context, opt runnel.Options, begin opening) (*conn, error) {
	if err := p.check(opt, begin); err != nil {
		return nil, err
	}
	if f := p.agent.quirks().startup.waitResumable; f != nil && begin.session != "" {
		if err := f(ctx, p.environ(os.Environ(), opt), begin.session); err != nil {
			return nil, err
		}
	}
	c, err := p.start(ctx, opt)
	if err != nil {
		return nil, err
	}
	h := handshake{p: p, c: c, opt: opt, opening: begin}
	if err := c.Handshake(ctx, h.run); err != nil {
		return nil, err
	}
	return c, nil
}

// start starts the agent process. The caller does the handshake.
func (p *provider) start(ctx context.Context, opt runnel.Options) (*conn, error) {
	path, args, err := p.command(opt)
	if f := p.agent.quirks().startup.checkDir; err == nil && f != nil {
		err = f(opt.Dir)
	}
	if err == nil {
		err = p.checkTrust(opt)
	}
	if err != nil {
		return nil, err
	}
	b, err := p.broker(opt)
	if err != nil {
		return nil, err
	}
	defer b.CloseUnused()
	env, err := p.envWithKey(p.environ(os.Environ(), opt), b, opt)
	if err != nil {
		return nil, err
	}
	if f := p.agent.quirks().startup.linkInState; f != nil && !opt.Sandbox.IsOn() {
		if at, why := f(env, opt.Dir); at != "" {
			return nil, runnel.Fail(runnel.SessionCreateFailed, text.OneLine(at, 500)+" "+why.reason+". "+p.DisplayName()+" would read or write without asking where a link leads, "+
				"and an agent in a sandbox could have made one. "+why.next)
		}
	}
	args = slices.Concat(args, p.agent.quirks().startup.alwaysArgs)
	if !opt.Trusted {
		args = slices.Concat(args, p.agent.quirks().startup.untrustedArgs)
	}
	env = withPassword(env, p.agent.quirks().startup.password)
	if f := p.agent.quirks().startup.noGoals; f != nil {
		env = f(env)
	}
	if f := p.agent.quirks().startup.pinGit; f != nil && !opt.Trusted {
		env = f(env, agentconn.GitPins(ctx, env, opt))
	}
	if f := p.agent.quirks().startup.atLinks; f != nil && !opt.Trusted && !opt.Sandbox.IsOn() {
		env = f(env, opt)
	}
	if p.asksFirst(opt) {
		if env, err = p.agent.quirks().startup.askFirst(env); err != nil {
			return nil, err
		}
		for _, f := range []func([]string, runnel.Options) ([]string, error){p.agent.quirks().startup.subagentsAsk, p.agent.quirks().startup.unseenAgents} {
			if f == nil {
				continue
			}
			if env, err = f(env, opt); err != nil {
				return nil, err
			}
		}
	}
	if f := p.agent.quirks().startup.noHelpers; f != nil && !opt.Trusted {
		if env, err = f(env); err != nil {
			return nil, err
		}
	}
	if f := p.agent.quirks().startup.askAboutTexts; f != nil && !opt.Sandbox.IsOn() && opt.PermissionMode != runnel.ModeBypass {
		if env, err = f(args, env); err != nil {
			return nil, err
		}
	}
	if f := p.agent.quirks().startup.floors; f != nil {
		if env, err = f(env, opt); err != nil {
			return nil, err
		}
	}
	if f := p.agent.quirks().startup.startModel; f != nil && opt.Model != "" {
		env = f(env, opt.Model)
	}
	box := p.agent.enclosure(env, opt.Dir)
	if f := p.agent.quirks().startup.acceptEdits; f != nil && opt.PermissionMode == runnel.ModeAcceptEdits {
		if env, err = f(env, opt.Dir); err != nil {
			return nil, err
		}
		readsKept(box, env)
	}
	if opt.Delegation == runnel.DelegateNever {
		if env, args, err = p.neverDelegates(env, args, box); err != nil {
			return nil, err
		}
	}
	if prefix := p.agent.quirks().startup.claimTemp; prefix != "" && !opt.Sandbox.IsOn() {
		if err := agentconn.ClaimTemp(env, p.DisplayName(), prefix); err != nil {
			return nil, err
		}
	}
	if p.agent.quirks().startup.ownTemp && !opt.Sandbox.IsOn() {
		if env, err = agentconn.OwnTemp(env, p.DisplayName()); err != nil {
			return nil, err
		}
	}
	opt.Limits = p.limits
	c := &conn{tr: newTranslator(p.agent), bypass: opt.AllowBypass, dir: opt.Dir, own: p.own}
	c.tr.session.starts(opt.PermissionMode, p.asksFirst(opt))
	c.Conn, err = agentconn.Start(ctx, agentconn.Command{
		Path: path, Args: args, Env: env, Mark: "ACP_" + proc.MarkSuffix, Elsewhere: true, ProgramVariable: p.agent.quirks().startup.programVariable, Worktrees: p.agent.quirks().startup.worktrees, Above: obeyedAbove, Enclosure: box, Broker: b,
	}, p.agent.conn(), c.tr, opt)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// asksFirst reports whether Runnel makes the agent ask before each command.
func (p *provider) asksFirst(opt runnel.Options) bool {
	return p.agent.quirks().startup.askFirst != nil && !opt.Sandbox.IsOn()
}

// neverDelegates returns the environment and the arguments with which the agent
// starts no subagents. It adds to box what the agent then reads in a sandbox.
func (p *provider) neverDelegates(env, args []string, box *agentconn.Enclosure) ([]string, []string, error) {
	q := p.agent.quirks().startup
	if q.noSubagents != nil {
		env = q.noSubagents(env)
	}
	if q.neverDelegates != nil {
		var err error
		if env, err = q.neverDelegates(env); err != nil {
			return nil, nil, err
		}
		readsKept(box, env)
	}
	return env, slices.Concat(args, q.noSubagentArgs), nil
}

// withPassword returns env with a random password in the variable, unless env has
// one or the name is empty. The password is one of the kinds that are removed from
// events, also if the agent prints its environment.
func withPassword(env []string, name string) []string {
	given := func(e string) bool { return strings.HasPrefix(e, name+"=") && e != name+"=" }
	if name == "" || slices.ContainsFunc(env, given) {
		return env
	}
	return agentconn.SetVariable(env, name, "rnl_"+rand.Text())
}

// command returns the program to run and its arguments. No part of them comes
// from an API client.
func (p *provider) command(opt runnel.Options) (path string, args []string, err error) {
	cmd := p.agent.Command
	if len(cmd) == 0 {
		return "", nil, runnel.Fail(runnel.AgentNotInstalled, p.DisplayName()+" has no command. Check the configuration.")
	}
	name := cmd[0]
	if opt.Path != "" {
		name = opt.Path
	}
	path, err = agentconn.Find(name, p.agent.conn(), opt)
	return path, cmd[1:], err
}

// environ returns the environment of the agent: the allowed variables of
// parent, then the variables of the agent's entry, its quirks, the
// configuration and opt. Later variables win. It removes the variables in
// Agent.BypassVariables, unless opt allows bypass or a quirk set them.
func (p *provider) environ(parent []string, opt runnel.Options) []string {
	a := p.agent
	extra := map[string]string{}
	var quirky []string
	if f := a.quirks().startup.environ; f != nil {
		quirky = f(p.configured(opt))
	}
	for _, e := range slices.Concat(a.Env, quirky, p.env, opt.Env) {
		if name, value, ok := strings.Cut(e, "="); ok {
			extra[name] = value
		}
	}
	refused := func(e string) bool { // applies to configured variables too
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(a.BypassVariables, name) && !slices.Contains(quirky, e)
	}
	env := proc.OwnCode(proc.Environ(parent, slices.Concat(proc.Base(), inheritAll, a.Inherit), extra))
	if opt.AllowBypass {
		return env
	}
	return slices.DeleteFunc(env, refused)
}
