package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/internal/turnview"
)

func (a *app) attachCommand() *cobra.Command {
	var readOnly, verbose bool
	var lines int
	cmd := &cobra.Command{
		Use:   "attach [-n N] [--read-only] ID",
		Short: "Follow a session and answer its approvals in this terminal",
		Long: `Print the last lines of a session, and then what happens, until Ctrl-C. Ctrl-C
ends only this command: the session goes on. ID may be the beginning of an id.

Each approval that waits is asked in this terminal, and can be answered on the
page or in another terminal, too: the first answer counts. Without an answer the
approval continues to wait. As with 'runnel run --ask', what you typed before an
approval appeared and until half a second later is ignored. Approvals are not
asked with --read-only, nor if standard input or standard error is no terminal.

If the server restarts, the command waits for it and continues.

'runnel ps' lists the sessions that work or wait. 'runnel run --resume' sends
another prompt. 'runnel logs' prints a history in full.`,
		Example: `  runnel attach 0192f0c1
  runnel attach -n 100 0192f0c1
  runnel attach --read-only 0192f0c1 > turn.txt`,
		Args: exactly(1, "the id of a session is needed; 'runnel ps' shows those that run, 'runnel sessions list' all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return usage("--lines must not be negative")
			}
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			ad, err := connect(cmd.Context(), c)
			if errors.Is(err, errNoServer) {
				return errStartServer
			} else if err != nil {
				return err
			}
			s := remoteSessions{ad}
			row, err := pick(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			a.hide()
			l := sessionLog{
				app: a, session: row, ask: !readOnly && a.terminal(a.in) && a.terminal(a.err),
				printer: newLogPrinter(a, turnview.Config{Dir: row.ProjectDir, Verbose: verbose, Prompts: true, Times: true, Hold: holdAskedRow, Hint: "Ctrl-C leaves"}, lines),
			}
			if err := l.history(cmd.Context(), s); err != nil {
				return err
			}
			l.hello = fmt.Sprintf("runnel: following %s in %s (%s); Ctrl-C leaves, and the session goes on", cell(row.CLIType), cell(row.ProjectDir), cell(stateWord(row)))
			return l.follow(cmd.Context(), ad)
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "do not ask about approvals")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "also print reasoning and the output of tools")
	cmd.Flags().IntVarP(&lines, "lines", "n", 20, "first print the last `N` lines of the history")
	return cmd
}
