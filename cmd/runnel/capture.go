package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/termtext"
)

func (a *app) sessionsCapture() *cobra.Command {
	var on, off bool
	cmd := &cobra.Command{
		Use:   "capture [--on | --off] ID",
		Short: "Capture the raw lines of a session's agent",
		Long: `Switch the debug capture of a session on or off, or print what it has captured.
A capture has every line between the server and the agent, in both directions,
in the format of 'runnel record'. Use it to report a problem. 'runnel translate'
turns it into events again. It needs the running server.

A running agent is captured at once; 'runnel translate' skips lines before the
next turn. The server removes known secrets from each line, but the capture
contains prompts, answers and the output of tools: check its content before you
share it. A secret that the agent prints in several pieces is not removed.

The server keeps the capture in a private file until the session is deleted or
--on begins another capture. It stops a capture that has 32 MiB, that cannot be
written, or that leaves too little space on the disk, and reports that in the
session.`,
		Example: `  runnel sessions capture --on 0192f0c1
  runnel sessions capture 0192f0c1 > capture.jsonl
  runnel sessions capture 0192f0c1 | runnel translate -
  runnel sessions capture --off 0192f0c1`,
		Args: exactly(1, "the id of a session is needed; 'runnel sessions list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if on && off {
				return usage("--on and --off exclude each other")
			}
			return a.withSession(cmd, args[0], func(r remoteSessions, id string) error {
				if !on && !off {
					return r.printCapture(cmd.Context(), visibleJSON{a.out}, id)
				}
				st, err := r.capture(cmd.Context(), id, on)
				if err != nil {
					return err
				}
				state := "off"
				if st.On {
					state = "on"
				}
				a.stderrf("The capture of %s is %s and has %d bytes", termtext.Clean(id), state, st.Bytes)
				return nil
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&on, "on", false, "switch the capture on, with an empty file unless it is on already")
	cmd.Flags().BoolVar(&off, "off", false, "switch the capture off and keep the file")
	return cmd
}

func (r remoteSessions) capture(ctx context.Context, id string, on bool) (st gateway.Capture, err error) {
	err = r.ad.post(ctx, sessionPath(id, "capture"), map[string]bool{"on": on}, &st)
	return st, err
}

func (r remoteSessions) printCapture(ctx context.Context, w io.Writer, id string) error {
	st, err := r.whole(ctx, gateway.Status{SessionID: id})
	if err != nil {
		return err
	}
	if st.Capture == nil {
		return runnel.Fail(runnel.InvalidRequest, "this session has no capture; switch it on with --on")
	}
	var file []byte
	if err := r.ad.get(ctx, sessionPath(id, "capture"), &file); err != nil {
		return err
	}
	_, err = w.Write(file)
	return err
}
