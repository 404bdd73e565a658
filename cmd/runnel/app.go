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

// app is what the commands share.
type app struct {
	in        io.Reader
	out, err  io.Writer
	providers []runnel.Provider
	trusted   []string         // folders whose own settings may run code, as the configuration has it
	options   []profile.Source // that sessions have unless they have others; see optionSources
	issued    *redact.Redactor // knows the credentials that we made
	secrets   *redact.Redactor // above issued: nothing that we print or log holds one
}

// The exit codes.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotDone  = 3 // cancelled, or something was denied
	exitHelpText = `
Exit codes: 0 completed, 1 failed, 2 wrong usage, 3 cancelled or denied.`
)

// exitError ends the process with a code. Without err nothing is printed: what
// there is to say was said.
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

// usage returns an error about how the command was called.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// run executes the command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	// A write to a closed pipe is an error like any other, so that a command
	// still ends what it started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	out := &output{w: a.out}
	a.out = out
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
		return exitOK // whoever read the output has seen enough, as head does
	}
	if err != nil {
		a.say("%s: %s", cmd.CommandPath(), explain(err))
	}
	if code == exitUsage {
		a.say("Run '%s --help' for examples.", cmd.CommandPath())
	}
	return code
}

// explain returns what to tell the user about err: the safe message of an
// error of the library, and the whole of others, which this program made.
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
		msg = e.Err.Error() // the operator is the one who reads this
	}
	return termtext.Clean(fmt.Sprintf("%s (%s)", msg, e.Code))
}

// say writes a line for the person in front of the terminal.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.err, a.secrets.String(fmt.Sprintf(format, args...)))
}

// hide hides this process from the agents that the command will start.
func (a *app) hide() {
	if _, err := hideMemory(); err != nil {
		a.say("runnel: warning: %s", err)
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "runnel",
		Short: "One gateway in front of every coding agent",
		Long: `Runnel runs coding agents and gives every one of them the same shape: a live
stream of typed events that nobody can lose, on a page, over HTTP and here.

Begin with one of these:
  runnel serve                    # the page and the API, on this machine only
  runnel run "explain this code"  # one prompt, here
  runnel agents                   # which agents there are, and how to get them`,
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("there is no command %q", args[0])
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
		a.serveCommand(), a.loginCommand(), a.runCommand(), a.agentsCommand(), a.profilesCommand(), a.rulesCommand(), a.sessionsCommand(), a.tokenCommand(),
		a.backupCommand(), a.doctorCommand(), a.recordCommand(), a.translateCommand(), a.openapiCommand(), a.versionCommand(),
	)
	return root
}

// wrapFlags makes a template of help describe flags within a width.
func wrapFlags(template string, width int) string {
	const usual, most = 80, 100 // wider lines are hard to read
	if width == 0 {
		width = usual
	}
	return strings.ReplaceAll(template, "Flags.FlagUsages ", fmt.Sprintf("Flags.FlagUsagesWrapped %d ", min(width, most)))
}

// dashHint says how to send a prompt that looks like a flag.
func dashHint(cmd *cobra.Command, err error) string {
	if strings.HasSuffix(cmd.Use, "[PROMPT]") && strings.HasPrefix(err.Error(), "unknown") {
		return `; a prompt that begins with a dash goes after "--" or through standard input`
	}
	return ""
}

// exactly checks the number of arguments, in words.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s", what)
		}
		return nil
	}
}

var nothing = exactly(0, "this command takes no arguments")
