package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/detect"
)

func (a *app) recordCommand() *cobra.Command {
	var f runFlags
	var file string
	cmd := &cobra.Command{
		Use:   "record -o FILE [flags] [PROMPT]",
		Short: "Run one prompt and keep every raw line that passed",
		Long: `Run one prompt with a real agent and write every line that passed, in both
directions, to a file: for reporting a problem and for tests. 'runnel translate'
makes events of it again, without the agent.

Any agent can be recorded whose lines runnel translates itself: all but the
scripted one. Each line of the file is {"t": milliseconds since the beginning,
"dir": "in" (to the agent), "out", "err" or "meta", "line": the line as it was}.

The file holds what you and the agent said and what its tools printed. It is
readable by you only; look through it before you give it away.` + "\n" + exitHelpText,
		Example: `  runnel record --agent ` + a.example() + ` -o turn.jsonl "list the files here"
  runnel record --effort low -o turn.jsonl - < prompt.md
  runnel translate turn.jsonl | jq -r .type
  jq -r 'select(.dir == "in").line' turn.jsonl   # what the agent was told`,
		Args: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usage("-o is missing: which file to write")
			}
			a.hide()
			if err := a.knowAgents(cmd.Flags()); err != nil {
				return err
			}
			return a.record(cmd.Context(), f, file, args)
		},
	}
	f.register(cmd, a)
	cmd.Flags().StringVarP(&file, "output", "o", "", "`FILE` to write; must not exist")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but the answer")
	return cmd
}

func (a *app) record(ctx context.Context, f runFlags, file string, args []string) (err error) {
	opt, err := f.options(a)
	if err != nil {
		return err
	}
	p, err := a.provider(ctx, f.agent)
	if err != nil {
		return err
	}
	if _, ok := p.(runnel.Translator); !ok {
		return usage("%s cannot be recorded: it has no lines of its own", p.Name())
	}
	text, err := a.prompt(args)
	if err != nil {
		return err
	}
	w, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return usage("%s", err)
	}
	defer w.Close()
	rec, err := newRecorder(w, p.Name(), detect.Probe(ctx, p).Version)
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	opt.Tap = rec.tap
	outcome := a.drive(ctx, p, opt, text, newTextView(a, f.quiet, false))
	n, err := rec.close()
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	a.say("%d lines are in %s", n, file)
	return outcome
}
