package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/redact"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/profile"
)

// app holds the state that all commands share.
type app struct {
	in        io.Reader
	out, err  io.Writer
	providers []runnel.Provider
	trusted   []string            // trusted folders of the configuration: their own settings may run code
	options   []profile.Source    // defaults of sessions; see optionSources
	refused   []runnel.Capability // those of agents that the configuration does not permit
	limits    runnel.Limits       // those that an agent of the configuration has; see enableLimits
	issued    *redact.Redactor    // redacts credentials that this program created
	secrets   *redact.Redactor    // also redacts what issued redacts; used for all that is printed or logged
}

// Exit codes of all commands.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotDone  = 3 // cancelled, or something was denied
	exitHelpText = `
Exit codes: 0 completed, 1 failed, 2 wrong usage, 3 cancelled or denied.`
)

// exitError ends the process with an exit code. If err is nil, nothing is
// printed, because the command has printed its messages already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage returns an error about wrong usage of a command.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// run executes the command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	// Without this handler a write to a closed pipe would kill the process.
	// With it the write fails, and the command can still stop what it started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	out := &output{w: a.out}
	a.out, a.err = out, &diverted{usual: a.err}
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := exitFailed
	if e, ok := errors.AsType[*exitError](err); ok {
		code, err = e.code, e.err
	} else if out.gone.Load() {
		return exitOK // the reader of the output closed it early, as head does
	}
	if err != nil {
		a.stderrf("%s: %s", cmd.CommandPath(), explain(err))
	}
	if code == exitUsage {
		a.stderrf("Run '%s --help' for examples.", cmd.CommandPath())
	}
	return code
}

// explain returns the text that the user sees for err. For an error of the
// library it is the safe message, except for internal errors. Other errors come
// from this program and are shown in full.
func explain(err error) string {
	if e, ok := errors.AsType[*recordingError](err); ok {
		return termtext.Clean(e.Error())
	}
	e, ok := errors.AsType[*runnel.Error](err)
	if !ok {
		return termtext.Clean(err.Error())
	}
	msg := e.Message
	if e.Code == runnel.Internal && e.Err != nil {
		msg = e.Err.Error() // the reader is the operator, who may see the cause
	}
	return termtext.Clean(fmt.Sprintf("%s (%s)", msg, e.Code))
}

// stderrf prints a line on standard error, with secrets redacted.
func (a *app) stderrf(format string, args ...any) {
	fmt.Fprintln(a.err, a.secrets.String(fmt.Sprintf(format, args...)))
}

// hide protects this process's memory from the agents that the command starts.
func (a *app) hide() {
	if _, err := hideMemory(); err != nil {
		a.stderrf("runnel: warning: %s", err)
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "runnel",
		Short: "Run coding agents from a web page, an HTTP API and the command line",
		Long: `Runnel runs the coding agents that are installed on this machine. You send
prompts, watch the work and answer approvals on a web page, over an HTTP API or
in this terminal. The server stores every event before it shows it, so nothing
that you saw there is lost if a program crashes.

Start with one of these commands:
  runnel serve                    # start the page and the API on this machine
  runnel run "explain this code"  # run one prompt and print the answer
  runnel agents                   # list agents and how to install them`,
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetUsageTemplate(wrapFlags(root.UsageTemplate(), a.width()))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%s%s", err, dashHint(cmd, err))
	})
	root.AddCommand(
		a.serveCommand(), a.loginCommand(), a.certificateCommand(), a.runCommand(), a.psCommand(), a.attachCommand(), a.logsCommand(), a.agentsCommand(), a.mcpCommand(), a.profilesCommand(), a.rulesCommand(), a.sessionsCommand(), a.egressCommand(), a.denialsCommand(), a.searchCommand(), a.usageCommand(), a.retentionCommand(), a.tokenCommand(), a.devicesCommand(), a.auditCommand(),
		a.backupCommand(), a.restoreCommand(), a.compactCommand(), a.doctorCommand(), a.recordCommand(), a.translateCommand(), a.openapiCommand(), a.versionCommand(),
	)
	a.completions(root)
	safeScripts(root)
	return root
}

// wrapFlags changes a help template so that flag descriptions wrap at a width.
func wrapFlags(template string, width int) string {
	const usual, most = 80, 100 // wider lines are hard to read
	if width == 0 {
		width = usual
	}
	return strings.ReplaceAll(template, "Flags.FlagUsages ", fmt.Sprintf("Flags.FlagUsagesWrapped %d ", min(width, most)))
}

// dashHint returns how to pass a prompt that looks like a flag, or "".
func dashHint(cmd *cobra.Command, err error) string {
	if strings.HasSuffix(cmd.Use, "[PROMPT]") && strings.HasPrefix(err.Error(), "unknown") {
		return `; put a prompt that begins with a dash after "--", or pass it on standard input`
	}
	return ""
}

// exactly rejects any number of arguments but n, with what as the error text.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s", what)
		}
		return nil
	}
}

var nothing = exactly(0, "this command takes no arguments")
