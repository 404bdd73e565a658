package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
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
	extensions       []string // run only
	persona          string   // run only
	output           string   // run only
	ask, answers     bool     // run only
	quiet, chats     bool     // run only
}

func (f *runFlags) register(cmd *cobra.Command, a *app) {
	fl := cmd.Flags()
	fl.StringVar(&f.agent, "agent", os.Getenv("RUNNEL_AGENT"), "`NAME` of the agent: "+strings.Join(a.names(), ", ")+", or one of the configuration; default the first that is installed (RUNNEL_AGENT)")
	fl.StringVar(&f.path, "agent-path", "", "`FILE` of the agent's program; default as configured, or looked up in PATH")
	configFlag(cmd)
	fl.StringVarP(&f.dir, "dir", "C", "", "`DIR` the agent works in; default the current one")
	fl.StringVar(&f.model, "model", "", "`ID` of a model; default the agent's")
	fl.StringVar(&f.mode, "permission-mode", "", "`MODE`: default, acceptEdits, plan or dontAsk; what would be asked is denied, but for --ask and --answers")
	fl.StringVar(&f.effort, "effort", "", "`LEVEL` of how hard the model thinks, in the agent's own words, such as low, medium or high")
	fl.StringVar(&f.auth, "auth", "", "`CREDENTIAL` of the agent: agent-login or api-key; default as configured, else the agent chooses")
	fl.StringArrayVar(&f.set, "set", nil, "one of the agent's own settings, as `ID=VALUE`; repeatable; 'runnel agents NAME' lists them")
	fl.StringSliceVar(&f.addDirs, "add-dir", nil, "further `DIR` the agent may use; repeatable")
	fl.IntVar(&f.maxTurns, "max-turns", 0, "`N` model calls at most for the prompt; default no limit")
	fl.StringVar(&f.resume, "resume", "", "go on with a conversation, by the agent's own `ID` of it, or with the last one of --dir: last")
	fl.BoolVar(&f.fork, "fork", false, "with --resume: begin with a copy of that conversation, which itself stays as it is")
	fl.DurationVar(&f.timeout, "timeout", 0, "end the agent after this `TIME`, such as 10m; default never")
	fl.BoolVar(&f.trust, "trust", false, "obey the settings of --dir itself, which can run commands unasked; default only in "+trustedKey+" of the configuration")
	fl.BoolVar(&f.bypass, "dangerously-bypass-permissions", false, "run every tool without asking; only where nothing can be harmed")
}

// options returns the options that the flags request.
func (f *runFlags) options(a *app) (runnel.Options, error) {
	opt := runnel.Options{
		Model: f.model, PermissionMode: runnel.PermissionMode(f.mode), ReasoningEffort: f.effort, MaxTurns: f.maxTurns, Auth: runnel.Auth(f.auth),
		Resume: f.resume, Fork: f.fork, Path: f.path, Timeout: f.timeout,
		Filter: a.filter,
		Warn:   func(_, message string) { a.say("runnel: warning: %s", termtext.Clean(message)) },
	}
	if f.bypass {
		if f.mode != "" && f.mode != string(runnel.ModeBypass) {
			return opt, usage("--dangerously-bypass-permissions and --permission-mode %s contradict each other", termtext.Clean(f.mode))
		}
		opt.PermissionMode, opt.AllowBypass = runnel.ModeBypass, true
	} else if f.mode == string(runnel.ModeBypass) {
		return opt, usage("bypassing permissions has a flag of its own: --dangerously-bypass-permissions")
	}
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
			return nil, usage("--set %s: must be ID=VALUE; 'runnel agents NAME' lists what an agent offers", termtext.Clean(s))
		case twice:
			return nil, usage("--set %s: is given twice", termtext.Clean(id))
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
			return nil, usage("--extension %s: is given twice", termtext.Clean(key))
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
		return "", usage("there is no directory %s", termtext.Clean(abs))
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
		return "", usage("the prompt is one argument: put it in quotes")
	}
	if len(args) == 1 && args[0] != "-" {
		if args[0] == "" {
			return "", usage("the prompt is empty")
		}
		return args[0], nil
	}
	if len(args) == 0 && a.terminal(a.in) {
		return "", usage("a prompt is missing: give it as an argument or through standard input")
	}
	data, err := io.ReadAll(io.LimitReader(a.in, maxPrompt+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the prompt: %w", err)
	case len(data) > maxPrompt:
		return "", usage("the prompt is longer than %d MiB; put the text in a file and name the file", maxPrompt>>20)
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
		Short: "Run one prompt and print what the agent does",
		Long: `Run one prompt in a directory and print what the agent says. The answer goes to
standard output and everything else to standard error, so that a pipe gets the
answer alone. Without PROMPT, or with "-", standard input is the prompt.

What the agent wants to ask is denied, unless --ask lets you answer here. A
question takes its answer half a second after it appears; what was typed before
is discarded, and so is every answer that comes through a pipe.
Ctrl-C asks the agent to stop; the second time it is ended.

A program answers with --answers and --output events or upserts: it reads of an
approval and writes {"approvalId":"…","choice":"…","argumentsDigest":"…"} to
standard input, one line each, also with "reason" or "updatedArguments". The
digest is the approval's; only a denial needs none. What is open when standard
input ends, or holds something else, is denied. On Linux standard input and
output have to be sockets, such as one end of a socketpair, or terminals: an
agent can open pipes and files.

Output formats:
  text       the answer as it is written
  events     the canonical events, one JSON object a line
  upserts    whole items as they change, one JSON object a line
  universal  finished pieces in a flat envelope, one JSON object a line. Tools
             have their arguments and outputs only with
             --extension ` + string(runnel.CapToolsResults) + `=true
` + exitHelpText,
		Example: `  runnel run "why does the build fail?"
  runnel run < prompt.md
  runnel run --ask --dir ~/src/app "fix the failing test"
  runnel run --agent ` + a.example() + ` --permission-mode acceptEdits "fix it"
  runnel run --model MODEL --effort high "plan it"   # see 'runnel agents NAME'
  runnel run --output events "list the TODOs" | jq -r .type
  runnel run --persona reviewer "look at the last commit"
  runnel run --resume last "and now the docs"
  runnel run -- "--help is the text of this prompt"`,
		Args: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			a.hide()
			if err := a.knowAgents(cmd.Flags()); err != nil {
				return err
			}
			var folders profile.Folders
			if f.persona != "" {
				var err error
				if folders, _, err = a.profileFolders(cmd, f.dir); err != nil {
					return err
				}
			}
			return a.runPrompt(cmd.Context(), f, folders, args)
		},
	}
	f.register(cmd, a)
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "`FORMAT`: text, events, upserts or universal")
	cmd.Flags().StringVar(&f.persona, "persona", "", "`NAME` of a profile, which gives options and decides about tools; 'runnel profiles' lists them")
	profileFlags(cmd.Flags())
	cmd.Flags().StringArrayVar(&f.extensions, "extension", nil, "an option of the universal API, as `KEY=JSON`; repeatable")
	cmd.Flags().BoolVar(&f.ask, "ask", false, "ask at this terminal what the agent wants to know; needs the prompt as an argument")
	cmd.Flags().BoolVar(&f.answers, "answers", false, "read answers of a program from standard input; needs the prompt as an argument")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "with --output text: print nothing but the answer")
	cmd.Flags().BoolVarP(&f.chats, "verbose", "v", false, "with --output text: print thoughts and the output of tools too")
	return cmd
}

// runPrompt runs one prompt. folders contain the profile that f names.
func (a *app) runPrompt(ctx context.Context, f runFlags, folders profile.Folders, args []string) error {
	opt, err := f.options(a)
	if err != nil {
		return err
	}
	if err := a.canAnswer(f, args); err != nil {
		return err
	}
	p, err := a.provider(ctx, f.agent)
	if err != nil {
		return err
	}
	var prof *profile.Profile
	if f.persona != "" {
		if opt.Trusted { // the flag --trust trusts a folder, too
			folders.Project = opt.Dir
		}
		if prof, err = persona(folders, f.persona, opt); err != nil {
			return failure(err)
		}
		opt = enforce(folders, prof, p, opt)
	}
	opt, by, err := a.resolve(p, opt, prof)
	if err != nil {
		return failure(err)
	}
	if others := listed(by); f.chats && others != "" {
		a.say("runnel: options: %s", termtext.Clean(others))
	}
	out, err := a.sink(f, p, opt)
	if err != nil {
		return err
	}
	text, err := a.prompt(args)
	if err != nil {
		return err
	}
	switch {
	case f.ask:
		k := newAsker(a.in, a.err)
		opt.Approve, out = k.approve, showing{out, k.seen}
	case f.answers:
		s := newAnswers(a.in, a.say)
		opt.Approve, out = s.approve, announcing{out, s}
	}
	return a.drive(ctx, p, opt, text, out)
}

const notPrivate = "--answers: standard %s is neither a socket nor a terminal. An agent could open a pipe or a file, answer its own question, or show you another one. " +
	"Give the command one end of a socketpair as standard input and output: Node.js does so by itself, Python with socket.socketpair(), a shell with socat"

// canAnswer checks whether approvals can be answered the way the flags say.
// With --ask the answers must be typed at a terminal: text from a pipe may have
// been written before the question.
func (a *app) canAnswer(f runFlags, args []string) error {
	switch {
	case !f.ask && !f.answers:
		return nil
	case f.ask && f.answers:
		return usage("--ask and --answers contradict each other: a person answers, or a program")
	case len(args) != 1 || args[0] == "-":
		return usage("answers are read from standard input, so the prompt has to be an argument")
	case f.answers && f.output != "events" && f.output != "upserts":
		return usage("--answers needs --output events or upserts, which show the ids of questions")
	case f.answers && !isPrivate(fileOf(a.in)):
		return usage(notPrivate, "input")
	case f.answers && !isPrivate(fileOf(a.out)):
		return usage(notPrivate, "output")
	case f.ask && !(a.terminal(a.in) && a.terminal(a.err)):
		return usage("--ask needs a terminal for questions (standard error) and answers (standard input): what comes through a pipe was written before the question. A program answers with --answers; --permission-mode decides what is asked at all")
	}
	return nil
}

// drive runs a prompt and shows its events. The exit code of its error says how
// the run ended.
func (a *app) drive(ctx context.Context, p runnel.Provider, opt runnel.Options, text string, out sink) error {
	if undo, err := adoptOrphans(); err == nil { // without it fewer processes that an agent leaves behind are found
		defer undo()
	}
	r, err := runnel.Start(ctx, p, opt, runnel.Text(text))
	if err != nil {
		return failure(err)
	}
	stop := a.onInterrupt(
		func() {
			a.say("runnel: stopping; press Ctrl-C again to end the agent at once")
			_ = r.Cancel(ctx)
		},
		func() { _ = r.Close() })
	defer stop()

	var denied denials
	var broken error
	for ev, err := range r.Events(ctx) {
		if err != nil {
			break // Wait returns the reason
		}
		denied.note(ev.Body)
		if broken = out.event(ev); broken != nil {
			_ = r.Close()
			break
		}
	}
	res, err := r.Wait(ctx)
	if broken == nil {
		broken = out.close()
	}
	switch {
	case isBrokenPipe(broken): // the output was closed, so the agent was stopped
		return &exitError{code: exitNotDone}
	case broken != nil:
		return fmt.Errorf("write the output: %w", broken)
	case res.Status == event.StatusCancelled:
		return &exitError{exitNotDone, errors.New("cancelled")}
	case err != nil:
		return failure(err)
	case denied.n > 0:
		return &exitError{exitNotDone, fmt.Errorf("done, but %s; --ask lets you answer, --permission-mode decides what is asked", denied.count())}
	}
	return nil
}

// failure gives err its exit code. A request that was refused, or that the
// agent cannot fulfil, is wrong usage.
func failure(err error) error {
	switch runnel.CodeOf(err) {
	case runnel.InvalidRequest, runnel.UnsupportedCapability, runnel.PersonaNotFound:
		return &exitError{exitUsage, err}
	}
	return err
}

// denials counts the approvals that were denied.
type denials struct {
	kinds map[string]event.ChoiceKind // by approval id and choice id
	n     int
}

func (d *denials) note(b event.Body) {
	switch b := b.(type) {
	case event.ApprovalRequested:
		if d.kinds == nil {
			d.kinds = make(map[string]event.ChoiceKind)
		}
		for _, c := range b.Approval.Choices {
			d.kinds[b.Approval.ID+"\x00"+c.ID] = c.Kind
		}
	case event.ApprovalResolved:
		kind := d.kinds[b.ApprovalID+"\x00"+b.Choice]
		if kind == event.ChoiceDeny || kind == event.ChoiceDenyStop {
			d.n++
		}
	}
}

func (d *denials) count() string {
	if d.n == 1 {
		return "one thing was denied"
	}
	return fmt.Sprintf("%d things were denied", d.n)
}
