package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/profile"
)

// maxPrompt is the maximum size of a prompt on standard input, in bytes.
const maxPrompt = 32 << 20

// runFlags are the flags of `run` and `record`.
type runFlags struct {
	agent, path      string
	dir, model, mode string
	effort, resume   string
	fork             bool
	auth             string
	set              []string
	addDirs          []string
	maxTurns         int
	timeout          time.Duration
	bypass, trust    bool
	keys             string
	budget           runnel.Budget
	sandbox          string
	egress           []string
	egressSets       []string
	egressAsk        bool
	extensions       []string // not for `record`
	persona          string   // not for `record`
	output           string   // not for `record`
	ask, answers     bool     // not for `record`
	quiet, chats     bool     // not for `record`
	local            bool     // not for `record`
	worktree         bool     // not for `record`
}

func (f *runFlags) register(cmd *cobra.Command, a *app) {
	fl := cmd.Flags()
	fl.StringVar(&f.agent, "agent", os.Getenv("RUNNEL_AGENT"), "`NAME` of the agent: "+strings.Join(a.names(), ", ")+", or an agent of the configuration file; default: RUNNEL_AGENT, or else the first installed agent")
	fl.StringVar(&f.path, "agent-path", "", "`FILE` to run as the agent; default: from the configuration file, or else found in PATH")
	configFlag(cmd)
	fl.StringVarP(&f.dir, "dir", "C", "", "`DIR` in which the agent works; default: the current directory")
	fl.StringVar(&f.model, "model", "", "`ID` of the model; default: from the configuration file, or else chosen by the agent")
	fl.StringVar(&f.mode, "permission-mode", "", "permission `MODE`, which sets what needs an approval: default, acceptEdits, plan or dontAsk")
	fl.StringVar(&f.effort, "effort", "", "reasoning effort, a `LEVEL` that the agent defines, such as low, medium or high")
	fl.StringVar(&f.auth, "auth", "", "`CREDENTIAL` that the agent uses: agent-login or api-key; default: from the configuration file, or else chosen by the agent")
	fl.StringArrayVar(&f.set, "set", nil, "a setting of the agent, as `ID=VALUE`; repeatable; 'runnel agents NAME' lists the settings")
	fl.StringSliceVar(&f.addDirs, "add-dir", nil, "another `DIR` that the agent may use; repeatable")
	fl.IntVar(&f.maxTurns, "max-turns", 0, "stop after `N` model calls; default: no limit")
	fl.StringVar(&f.resume, "resume", "", "continue the conversation with this `ID`, as the agent names it, or \"last\" for the last conversation in --dir")
	fl.BoolVar(&f.fork, "fork", false, "with --resume: continue a copy and leave the conversation itself unchanged")
	fl.DurationVar(&f.timeout, "timeout", 0, "stop the agent after this `TIME`, such as 10m; default: no limit")
	fl.StringVar(&f.keys, "keys", "", "who holds the agent's API key, a `HOLDER`: agent, or broker for runnel, which then calls the model for the agent; default: from the configuration file, or else agent")
	fl.Float64Var(&f.budget.USD, "budget-usd", 0, "cancel the turn when the session has cost more than this `AMOUNT` of US dollars; default: no limit")
	fl.Int64Var(&f.budget.Tokens, "budget-tokens", 0, "cancel the turn when the session has used more than `N` tokens of input and output; default: no limit")
	fl.Float64Var(&f.budget.Minutes, "budget-minutes", 0, "cancel the turn when the session's turns have run for `N` minutes; default: no limit")
	f.sandboxFlags(cmd)
	fl.BoolVar(&f.trust, "trust", false, "trust --dir: the agent uses the settings in that folder, which can run commands without asking; default: trust only the "+trustedKey+" of the configuration file")
	fl.BoolVar(&f.bypass, "dangerously-bypass-permissions", false, "run every tool without asking; use this only where no harm is possible")
}

// options returns the options that the flags request.
func (f *runFlags) options(a *app) (runnel.Options, error) {
	opt := runnel.Options{
		Model: f.model, PermissionMode: runnel.PermissionMode(f.mode), ReasoningEffort: f.effort, MaxTurns: f.maxTurns, Auth: runnel.Auth(f.auth), Keys: runnel.Keys(f.keys), Budget: f.budget,
		Resume: f.resume, Fork: f.fork, Path: f.path, Timeout: f.timeout,
		Filter: a.filter,
		Warn:   func(_, message string) { a.stderrf("runnel: warning: %s", termtext.Clean(message)) },
	}
	if f.bypass {
		if f.mode != "" && f.mode != string(runnel.ModeBypass) {
			return opt, usage("--dangerously-bypass-permissions and --permission-mode %s contradict each other; give one of them", termtext.Clean(f.mode))
		}
		opt.PermissionMode, opt.AllowBypass = runnel.ModeBypass, true
	} else if f.mode == string(runnel.ModeBypass) {
		return opt, usage("--permission-mode bypass: use the flag --dangerously-bypass-permissions instead")
	}
	f.enclose(&opt)
	var err error
	if opt.Config, err = ownSettings(f.set); err != nil {
		return opt, err
	}
	if opt.Extensions, err = extensions(f.extensions); err != nil {
		return opt, err
	}
	if opt.Dir, err = directory(f.dir); err != nil {
		return opt, err
	}
	opt.Trusted = f.trust || gateway.Trusts(a.trusted, opt.Dir)
	for _, d := range f.addDirs {
		abs, err := directory(d)
		if err != nil {
			return opt, err
		}
		opt.AddDirs = append(opt.AddDirs, abs)
	}
	opt.UntrustedDirs = gateway.Untrusted(a.trusted, opt.AddDirs)
	a.warnOfLinks(a.trusted)
	if f.timeout < 0 {
		return opt, usage("--timeout must not be negative")
	}
	return opt, nil
}

// ownSettings parses ID=VALUE. VALUE may be empty or contain anything.
func ownSettings(set []string) (runnel.Values, error) {
	if len(set) == 0 {
		return nil, nil
	}
	values := make(runnel.Values)
	for _, s := range set {
		id, value, ok := strings.Cut(s, "=")
		switch _, twice := values[id]; {
		case !ok || id == "":
			return nil, usage("--set %s: must be ID=VALUE; 'runnel agents NAME' lists the settings of an agent", termtext.Clean(s))
		case twice:
			return nil, usage("--set %s: is given twice; give each setting once", termtext.Clean(id))
		}
		values[id] = value
	}
	return values, nil
}

// extensions parses KEY=JSON.
func extensions(set []string) (runnel.Extensions, error) {
	x := make(runnel.Extensions)
	for _, s := range set {
		key, value, ok := strings.Cut(s, "=")
		switch _, twice := x[key]; {
		case !ok || key == "":
			return nil, usage("--extension %s: must be KEY=JSON, such as %s=true", termtext.Clean(s), runnel.CapToolsResults)
		case twice:
			return nil, usage("--extension %s: is given twice; give each key once", termtext.Clean(key))
		}
		x[key] = json.RawMessage(value)
	}
	return x, nil
}

// directory returns the absolute path of dir, which must be a directory.
func directory(dir string) (string, error) {
	abs, err := filepath.Abs(dir) // "" is the current directory
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", usage("the directory %s does not exist", termtext.Clean(abs))
	case err != nil:
		return "", usage("%s", termtext.Clean(err.Error()))
	case !info.IsDir():
		return "", usage("%s is not a directory", termtext.Clean(abs))
	}
	return abs, nil
}

// prompt returns the prompt: the argument, or else all of standard input.
func (a *app) prompt(args []string) (string, error) {
	if len(args) > 1 {
		return "", usage("the prompt must be one argument; put it in quotes")
	}
	if len(args) == 1 && args[0] != "-" {
		if args[0] == "" {
			return "", usage("the prompt is empty")
		}
		return args[0], nil
	}
	if len(args) == 0 && a.terminal(a.in) {
		return "", usage("the prompt is missing; pass it as an argument or on standard input")
	}
	data, err := io.ReadAll(io.LimitReader(a.in, maxPrompt+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the prompt: %w", err)
	case len(data) > maxPrompt:
		return "", usage("the prompt is longer than %d MiB; put the text in a file and name the file in the prompt", maxPrompt>>20)
	case len(strings.TrimSpace(string(data))) == 0:
		return "", usage("the prompt on standard input is empty")
	}
	return string(data), nil
}

// terminal reports whether s is a terminal.
func (a *app) terminal(s any) bool {
	f := fileOf(s)
	return f != nil && isatty.IsTerminal(f.Fd())
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [PROMPT]",
		Short: "Run one prompt and print the agent's answer",
		Long: `Run one prompt in a directory and print the agent's answer. The answer goes to
standard output and everything else to standard error, so a pipe receives only
the answer. Without PROMPT, or with "-", the prompt is read from standard input.

On a terminal, the command draws the turn while it happens: the text, each call
of a tool in one row, diffs, the plan, and a summary at the end. NO_COLOR=1
leaves out colours, and TERM=dumb or --quiet make the output plain.

By default, every approval that the agent requests is denied. --ask asks you in
this terminal instead. It ignores everything that you typed before an approval
appeared and until half a second later, and it does not read from a pipe.
--permission-mode changes what needs an approval.

If a server uses the same data directory, it runs the prompt in a session, which
the page shows. Approvals that --ask or --answers wait for can be answered on
the page, too; the first answer counts. If the server restarts, the command
waits for it and continues. With --worktree, the agent works in a new git
worktree and not in your own files. --local runs the prompt without the server,
as do --agent-path, --timeout, --trust, --profiles-dir and --extension (apart
from ` + string(runnel.CapToolsResults) + `), which a server does not take.

Ctrl-C cancels the turn. A second Ctrl-C stops the agent, or, if a server runs
the turn, ends only this command; 'runnel attach' follows the turn again.

With --answers, a program answers approvals. It reads them from standard output
(--output events or upserts) and writes one line for each to standard input:

  {"approvalId":"…","choice":"…","argumentsDigest":"…"}

The id, the choice and the digest come from the approval; a denial needs no
digest. "reason" and "updatedArguments" are optional. When standard input ends,
or a line is not an answer, all open and later approvals are denied. On Linux,
standard input and output must be sockets, such as one end of a socketpair, or
terminals, because an agent can open pipes and files.

Output formats:
  text       the answer, while the agent writes it
  events     every event, one JSON object per line
  upserts    whole items, each time they change, one JSON object per line
  universal  finished pieces in a flat envelope, one JSON object per line. The
             arguments and outputs of tools are included only with
             --extension ` + string(runnel.CapToolsResults) + `=true
` + exitHelpText,
		Example: `  runnel run "why does the build fail?"
  runnel run < prompt.md
  runnel run --ask --dir ~/src/app "fix the failing test"
  runnel run --agent ` + a.example() + ` --permission-mode acceptEdits "fix it"
  runnel run --model MODEL --effort high "plan it"   # see 'runnel agents NAME'
  runnel run --output events "list the TODOs" | jq -r .type
  runnel run --persona reviewer "review the last commit"
  runnel run --resume last "and now the docs"
  runnel run --worktree "try another way" # see 'runnel sessions worktree'
  runnel run -- "--help is the text of this prompt"`,
		Args: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			a.hide()
			if err := a.knowAgents(cmd.Flags()); err != nil {
				return err
			}
			return a.runPrompt(cmd, f, args)
		},
	}
	f.register(cmd, a)
	serverFlags(cmd.Flags())
	cmd.Flags().BoolVar(&f.local, "local", false, "run the prompt without the running server; it is then in no list of sessions")
	cmd.Flags().BoolVar(&f.worktree, "worktree", false, "let the agent work in a new git worktree of --dir, with a branch of its own; 'runnel sessions worktree' shows, merges and removes it. It needs the running server")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "output `FORMAT`: text, events, upserts or universal")
	cmd.Flags().StringVar(&f.persona, "persona", "", "`NAME` of a profile, which sets options and allows or denies tools; 'runnel profiles' lists the profiles")
	profileFlags(cmd.Flags())
	cmd.Flags().StringArrayVar(&f.extensions, "extension", nil, "an option of the universal API, as `KEY=JSON`; repeatable")
	cmd.Flags().BoolVar(&f.ask, "ask", false, "ask you about approvals in this terminal; the prompt must be an argument")
	cmd.Flags().BoolVar(&f.answers, "answers", false, "read a program's answers to approvals from standard input; the prompt must be an argument")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "with --output text: print only the answer")
	cmd.Flags().BoolVarP(&f.chats, "verbose", "v", false, "with --output text: also print reasoning and the output of tools")
	return cmd
}

// runPrompt runs one prompt, in the running server if there is one that can run
// it.
func (a *app) runPrompt(cmd *cobra.Command, f runFlags, args []string) error {
	ctx := cmd.Context()
	opt, err := f.options(a)
	if err != nil {
		return err
	}
	if err := a.canAnswer(f, args); err != nil {
		return err
	}
	if !slices.Contains(outputFormats, f.output) {
		return usage("unknown output format %q; use text, events, upserts or universal", termtext.Clean(f.output))
	}
	text, err := a.prompt(args)
	if err != nil {
		return err
	}
	if err := runnel.CheckPrompt("prompt", text, 0); err != nil {
		return failure(err)
	}
	if f.worktree && f.resume != "" {
		return usage("--worktree is for a new session: an agent continues a conversation in the directory in which it began")
	}
	l, err := a.serverFor(cmd, f, opt, text)
	if err != nil {
		return err
	}
	if l == nil && f.worktree {
		return usage("--worktree needs the running server, which keeps the session with its worktree; start it with 'runnel serve', and leave out --local")
	}
	if l != nil {
		return a.runOnServer(ctx, l, f, opt, text)
	}
	return a.runLocally(cmd, f, opt, text)
}

// runLocally runs a prompt in this process.
func (a *app) runLocally(cmd *cobra.Command, f runFlags, opt runnel.Options, text string) error {
	ctx := cmd.Context()
	p, err := a.provider(ctx, f.agent)
	if err != nil {
		return err
	}
	var prof *profile.Profile
	if f.persona != "" {
		folders, _, err := a.profileFolders(cmd, f.dir)
		if err != nil {
			return err
		}
		if opt.Trusted { // the flag --trust trusts a folder, too
			folders.Project = opt.Dir
		}
		if prof, err = persona(folders, f.persona, opt); err != nil {
			return failure(err)
		}
		opt = enforce(folders, prof, p, opt)
	}
	sources, err := a.sources(p, opt, prof)
	if err != nil {
		return failure(err)
	}
	opt, by := profile.Resolve(sources...)
	if c, err := loadConfig(cmd.Flags()); err == nil { // without a data directory there is nothing to protect
		opt.Protected = guardedBy(c)
	}
	opt.Withheld = a.stateOfAgents()
	if others := listed(by); f.chats && others != "" {
		a.stderrf("runnel: options: %s", termtext.Clean(others))
	}
	out := a.sink(f, opt.Dir, runnel.AgentKind(p), opt.Extensions.Results())
	out, opt.Approve = a.approver(f, out)
	return a.runHere(ctx, p, opt, sources, text, out)
}

// runHere runs a prompt in this process and shows its events. An error about an
// option names the source of the option, if it is one of sources.
func (a *app) runHere(ctx context.Context, p runnel.Provider, opt runnel.Options, sources profile.Sources, text string, out sink) error {
	if undo, err := adoptOrphans(); err == nil { // without it fewer processes that an agent leaves behind are found
		defer undo()
	}
	r, err := runnel.Start(ctx, p, opt, runnel.Text(text))
	if err != nil {
		_ = out.close()
		return failure(sources.Blame(err))
	}
	return a.drive(ctx, r, "stop the agent at once", sources.Blame, out)
}

// runOnServer runs a prompt in a session of the running server.
func (a *app) runOnServer(ctx context.Context, l *serverLink, f runFlags, opt runnel.Options, text string) error {
	p := serverPrompt{app: a, link: l, run: f, opt: opt, text: text}
	if err := p.choose(ctx); err != nil {
		return failure(err)
	}
	kind := strings.ReplaceAll(p.agent, "-", "_")
	if known := detect.NewIndex(a.providers).Find(p.agent); known != nil {
		kind = runnel.AgentKind(known)
	}
	results := slices.Contains(f.extensions, string(runnel.CapToolsResults)+"=true")
	r, err := p.start(ctx)
	if err != nil {
		return failure(err)
	}
	out := a.sink(f, p.dir(), kind, results)
	out, r.approvals.approve = a.approver(f, out)
	return a.drive(ctx, r, "leave the turn to the server", func(err error) error { return err }, out)
}

// approver returns what answers approvals, as the flags request, and the sink
// that it needs; a nil Approver if all approvals are denied.
func (a *app) approver(f runFlags, out sink) (sink, runnel.Approver) {
	switch {
	case f.ask:
		out, k := a.asks(out)
		return out, k.approve
	case f.answers:
		s := newAnswers(a.in, a.stderrf)
		return announcing{out, s}, s.approve
	}
	return out, nil
}

// asks returns an asker at this terminal, and the sink that it needs.
func (a *app) asks(out sink) (sink, *asker) {
	k := newAsker(a.in, a.err)
	if v, ok := out.(*liveView); ok {
		k.out, k.ask = fileOf(a.err), v.ask
	}
	return showing{out, k.seen}, k
}

const notPrivate = "--answers: standard %s is neither a socket nor a terminal. An agent could open a pipe or a file, answer its own approval, or change what you see of it. " +
	"Use one end of a socketpair as standard input and output: Node.js does so by default, Python has socket.socketpair(), and a shell can use socat"

// canAnswer checks whether approvals can be answered as the flags request. With
// --ask the answers must be typed at a terminal: text from a pipe may have been
// written before the question.
func (a *app) canAnswer(f runFlags, args []string) error {
	switch {
	case !f.ask && !f.answers:
		return nil
	case f.ask && f.answers:
		return usage("--ask and --answers contradict each other; give --ask if you answer, or --answers if a program does")
	case len(args) != 1 || args[0] == "-":
		return usage("--ask and --answers read answers from standard input, so the prompt has to be an argument")
	case f.answers && f.output != "events" && f.output != "upserts":
		return usage("--answers needs --output events or upserts, which contain the ids of approvals")
	case f.answers && !isPrivate(fileOf(a.in)):
		return usage(notPrivate, "input")
	case f.answers && !isPrivate(fileOf(a.out)):
		return usage(notPrivate, "output")
	case f.ask && !(a.terminal(a.in) && a.terminal(a.err)):
		return usage("--ask needs a terminal for approvals (standard error) and answers (standard input), because text in a pipe may be older than the approval. Use --answers if a program answers, or --permission-mode to change what needs an approval")
	}
	return nil
}
