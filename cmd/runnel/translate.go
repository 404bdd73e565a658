package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/recording"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// translated is the session id of events that come from no event log.
const translated = "translated"

func (a *app) translateCommand() *cobra.Command {
	var agent, dir string
	var history bool
	cmd := &cobra.Command{
		Use:   "translate [--agent NAME] [--history] FILE|ID",
		Short: "Turn a recording or an agent's transcript into events",
		Long: `Turn a recording of 'runnel record', or a debug capture of 'runnel sessions
capture', into the events of the recorded turns, one JSON object per line. The
agent is not started. FILE may be "-" for standard input. Turns and items have
the same ids as on a server; the session has the id "translated".

With --history, translate a conversation that the agent stored itself. Give
--agent, and the path of the transcript or the id that the agent gave the
conversation. Some agents are started to read a stored conversation, but no
model is called; they find it only in the directory to which it belongs (--dir).

The exit code is 0 even if the recorded turn failed.`,
		Example: `  runnel translate turn.jsonl | jq -r .type
  runnel translate --agent ` + a.example() + ` turn.jsonl   # if it has no meta line
  runnel translate --agent ` + a.example() + ` --history ~/path/to/transcript.jsonl
  runnel translate --agent ` + a.example() + ` --history -C ~/src/app \
    0b5d3c1e-59f0-4c1c-b2f7-8d5f7f0e9a11`,
		Args: exactly(1, "one file or id is needed"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.knowAgents(cmd.Flags()); err != nil {
				return err
			}
			evs, err := a.translation(cmd.Context(), agent, history, dir, args[0])
			if err == nil {
				err = a.printEvents(evs, history)
			}
			if e, ok := errors.AsType[*recordingError](err); ok && args[0] != "-" {
				e.file = args[0]
			}
			return err
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "`NAME` of the agent; default: the agent in the recording")
	cmd.Flags().BoolVar(&history, "history", false, "translate a conversation that the agent stored itself")
	cmd.Flags().StringVarP(&dir, "dir", "C", "", "with --history and an id: `DIR` of the conversation; default: the current directory")
	configFlag(cmd)
	return cmd
}

// printEvents prints events, one per line. It fails if no event belongs to a
// turn, because then the file is not what the user said it is.
func (a *app) printEvents(evs iter.Seq2[event.Event, error], history bool) error {
	enc := a.encoder()
	turns := false
	for ev, err := range evs {
		if e, ok := errors.AsType[*runnel.Error](err); ok && history && e.Code == runnel.InvalidRequest {
			return &recordingError{what: e.Message}
		}
		if err != nil {
			return err
		}
		if err := enc.Encode(ev); err != nil {
			return err
		}
		turns = turns || ev.Turn != ""
	}
	switch {
	case turns:
		return nil
	case history:
		return &recordingError{what: "this contains no turn; with --history, give a transcript that the agent of --agent stored, or the id that it gave a conversation"}
	}
	return &recordingError{what: "this recording contains no turn; check that --agent names the recorded agent"}
}

// translation returns the events of a recording or, with history, of an agent's
// own transcript.
func (a *app) translation(ctx context.Context, agent string, history bool, dir, file string) (iter.Seq2[event.Event, error], error) {
	if history {
		return a.historyOf(ctx, agent, dir, file)
	}
	rd := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		rd = &closeAtEnd{f}
	}
	head, lines, err := readRecording(rd)
	if err != nil {
		return nil, err
	}
	if agent == "" {
		agent = head.Agent
	}
	if agent == "" {
		return nil, usage("the recording does not name its agent; give it with --agent")
	}
	p, err := a.provider(ctx, agent)
	if err != nil {
		return nil, err
	}
	t, ok := p.(runnel.Translator)
	if !ok {
		return nil, usage("%s has no recordings, because it runs inside runnel and prints no lines", p.Name())
	}
	return runnel.Replay(translated, p.Name(), translateParts(t, lines, head.Capture)), nil
}

// translateParts translates the lines of one process after the other. A capture
// may begin in the middle of a turn: its lines before the first mark are
// skipped, because they cannot be translated.
func translateParts(t runnel.Translator, lines iter.Seq2[runnel.Line, error], capture bool) iter.Seq2[event.Event, error] {
	if !capture {
		return t.Translate(lines)
	}
	return func(yield func(event.Event, error) bool) {
		next, stop := iter.Pull2(lines)
		defer stop()
		line, err, ok := next()
		kind := func() recording.Kind {
			if err != nil || line.Dir != runnel.DirMeta {
				return ""
			}
			m, _ := recording.ParseMark(line.Text)
			return m.Mark
		}
		for ok && err == nil && kind() == "" {
			line, err, ok = next()
		}
		for ok {
			part := func(yield func(runnel.Line, error) bool) { // until the next process starts
				for first := true; ok && (first || kind() != recording.Start); first = false {
					if !yield(line, err) {
						return
					}
					line, err, ok = next()
				}
			}
			for ev, err := range t.Translate(part) {
				if !yield(ev, err) || err != nil {
					return
				}
			}
		}
	}
}

func (a *app) historyOf(ctx context.Context, agent, dir, file string) (iter.Seq2[event.Event, error], error) {
	if agent == "" {
		return nil, usage("--history needs --agent, because a transcript does not name its agent")
	}
	p, err := a.provider(ctx, agent)
	if err != nil {
		return nil, err
	}
	h, ok := p.(runnel.Historian)
	if !ok {
		return nil, usage("%s stores no transcripts that runnel can read", p.Name())
	}
	ref, err := keptAs(file, dir)
	if err != nil {
		return nil, err
	}
	ref.Trusted = gateway.Trusts(a.trusted, ref.Dir)
	return runnel.Replay(translated, p.Name(), h.History(ctx, ref)), nil
}

// keptAs returns the conversation that name refers to: a transcript file if one
// exists, otherwise the agent's id of a conversation in the directory dir.
func keptAs(name, dir string) (runnel.Conversation, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return runnel.Conversation{}, err
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, os.ErrNotExist) && filepath.Base(name) == name && filepath.Ext(name) == "":
		dir, err := directory(dir)
		return runnel.Conversation{AgentSessionID: name, Dir: dir}, err
	case err != nil:
		return runnel.Conversation{}, err
	case !info.Mode().IsRegular():
		return runnel.Conversation{}, errors.New(termtext.Clean(name) + " is not a file")
	}
	return runnel.Conversation{File: abs, Anywhere: true, Size: info.Size(), UpdatedAt: info.ModTime()}, nil
}

// closeAtEnd closes a file once it has been read.
type closeAtEnd struct{ f *os.File }

func (c *closeAtEnd) Read(p []byte) (int, error) {
	n, err := c.f.Read(p)
	if err == io.EOF {
		_ = c.f.Close()
	}
	return n, err
}
