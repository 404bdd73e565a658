package agentconn

import (
	"bytes"
	"context"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/recording"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// Adopt takes over an agent that an earlier server process started. It passes
// the lines that the supervisor kept through the translator, in their original
// order. If no turn has begun yet, Adopt calls isReady, which fails if the
// earlier process ended during the handshake. c finds the API key of an agent
// with a broker. If Adopt fails, the agent keeps running under its supervisor.
func Adopt(opt runnel.Options, env []string, agent Agent, tr Translator, c Credential, isReady func() error) (*Conn, runnel.Backlog, error) {
	process, kept, err := supervisor.Attach(supervisor.Takeover(opt.Takeover), redactor(env))
	if err != nil {
		return nil, runnel.Backlog{}, notAdopted(agent, err)
	}
	defer kept.Held.Close()
	conn := New(process, agent, tr, opt)
	var back runnel.Backlog
	if conn.box, err = reopen(opt, c, kept.Held, kept.Note); err == nil {
		conn.box.watch(process)
		back, err = conn.RestoreBacklog(kept)
	}
	if err == nil && !kept.Known {
		err = isReady()
	}
	if err != nil {
		if !conn.Detach() {
			_ = process.Stop(context.Background(), proc.Now) // it has exited already
		}
		return nil, runnel.Backlog{}, notAdopted(agent, err)
	}
	return conn, back, nil
}

func notAdopted(agent Agent, cause error) error {
	return runnel.Fail(runnel.ProcessCrash, agent.Name+" cannot be taken over", cause)
}

// RestoreBacklog restores the state of the earlier process's connection from
// the lines that the supervisor kept, and writes the replies that are still
// due.
func (c *Conn) RestoreBacklog(kept *supervisor.Backlog) (runnel.Backlog, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	back := runnel.Backlog{After: -1}
	if kept.Known {
		back.After = kept.Log
		if err := c.tr.Restore(kept.State); err != nil {
			return back, err
		}
	}
	c.read = kept.From
	c.tapBacklog(kept)
	due := make(map[string]any) // unwritten replies, by name
	for _, l := range kept.Lines {
		if !l.In {
			c.read = l.End
			back.Events = append(back.Events, c.replay(l, due)...)
			continue
		}
		line := bytes.TrimRight(l.Text, "\n")
		about := c.tr.About(line)
		delete(due, about.Settles)
		if about.Prompt != "" {
			back.Prompts = append(back.Prompts, about.Prompt)
		}
		back.Events = append(back.Events, c.tr.Sent(line, l.At)...)
	}
	c.base = c.read
	c.lines = jsonl.NewReader(io.MultiReader(bytes.NewReader(kept.Rest), c.process.Stdout()), 0)
	for _, name := range slices.Sorted(maps.Keys(due)) {
		_ = c.write(due[name]) // it fails if the agent has exited, which Next reports
	}
	back.Waiting = c.tr.Waiting()
	return back, nil
}

// tapBacklog passes the lines that the supervisor kept to tap. Some of them
// passed while no server process ran.
func (c *Conn) tapBacklog(kept *supervisor.Backlog) {
	if !c.tapping() {
		return
	}
	m := recording.Mark{Mark: recording.Takeover}
	if kept.Known {
		m.State = kept.State
	}
	var lines []runnel.Line
	for _, l := range kept.Lines {
		line := runnel.Line{At: l.At, Dir: runnel.DirOut, Text: bytes.TrimRight(l.Text, "\r\n")}
		if l.In {
			line.Dir = runnel.DirIn
		}
		if len(bytes.TrimSpace(line.Text)) == 0 || len(line.Text) > jsonl.DefaultMax && !l.In {
			continue
		}
		lines, m.Times = append(lines, line), append(m.Times, l.At)
	}
	c.mark(m)
	for _, l := range lines {
		c.tap(l.Dir, l.Text)
	}
}

// replay passes a kept line of the agent through the translator, and adds the
// resulting replies to due.
func (c *Conn) replay(l supervisor.Line, due map[string]any) []event.Event {
	line := bytes.TrimRight(l.Text, "\r\n")
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return nil
	case len(line) > jsonl.DefaultMax:
		return []event.Event{{At: l.At, Body: tooLong}}
	}
	evs, messages := c.tr.Printed(decodable(line), l.At)
	for _, m := range messages {
		if text, err := encode(m); err == nil {
			due[c.tr.About(text).Settles] = m
		}
	}
	return evs
}

// Translate passes a recording of one process through a translator. It yields
// the events that Next returned, and those that the session logged itself:
// prompts, decisions, and approvals that an interrupt withdrew. If the
// recording begins with the mark of a turn, the translator starts from the
// state in the mark.
func Translate(tr Translator, lines iter.Seq2[runnel.Line, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		each := func(evs []event.Event) bool {
			for _, ev := range evs {
				if !yield(ev, nil) {
					return false
				}
			}
			return true
		}
		r := NewReader(tr)
		fresh := true // tr has received no line
		for line, err := range lines {
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			if line.Dir == runnel.DirMeta {
				if m, ok := recording.ParseMark(line.Text); ok && fresh && len(m.State) > 0 {
					_ = tr.Restore(m.State) // a state that cannot be read: tr starts with the turn
				}
				continue
			}
			fresh = fresh && line.Dir == runnel.DirErr
			if evs, _ := r.Line(line); !each(evs) {
				return
			}
		}
		each(tr.Flush())
	}
}

// Feed passes one line of a recording through a translator. The second result
// is the replies that are due. The recording contains them in later lines.
func Feed(tr Translator, l runnel.Line) ([]event.Event, []any) {
	switch l.Dir {
	case runnel.DirIn:
		return tr.Sent(l.Text, l.At), nil
	case runnel.DirOut:
		return tr.Printed(decodable(l.Text), l.At)
	}
	return nil, nil
}
