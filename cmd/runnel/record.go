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
		Short: "Run one prompt and record the raw lines of the agent",
		Long: `Run one prompt and write every line between runnel and the agent, in both
directions, to a file. Use it to report a problem or to make a test. 'runnel
translate' turns the file into events again, without the agent.

Every agent can be recorded except the scripted one. Each line of the file is a
JSON object: "t" is the time in milliseconds since the start, "dir" is "in" (to
the agent), "out", "err" or "meta", and "line" is the unchanged line.

The file contains your prompt, the agent's answers and the output of its tools.
Only you can read it. Check its content before you share it.` + "\n" + exitHelpText,
		Example: `  runnel record --agent ` + a.example() + ` -o turn.jsonl "list the files here"
  runnel record --effort low -o turn.jsonl - < prompt.md
  runnel translate turn.jsonl | jq -r .type
  jq -r 'select(.dir == "in").line' turn.jsonl   # what runnel sent`,
		Args: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usage("-o is missing; give the file to write")
			}
			a.hide()
			if err := a.knowAgents(cmd.Flags()); err != nil {
				return err
			}
			return a.record(cmd.Context(), f, file, args)
		},
	}
	f.register(cmd, a)
	cmd.Flags().StringVarP(&file, "output", "o", "", "`FILE` to write, which must not exist yet")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print only the answer")
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
		return usage("%s cannot be recorded, because it runs inside runnel and prints no lines", p.Name())
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
	outcome := a.runHere(ctx, p, opt, nil, text, newTextView(a, f.quiet, false))
	n, err := rec.close()
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	a.stderrf("Recorded %d lines in %s", n, file)
	return outcome
}
