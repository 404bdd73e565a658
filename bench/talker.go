package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// A talker is an agent driven directly through its pipes with JSON-RPC.
type talker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	tagged bool // whether messages have the member "jsonrpc"
	next   int64
	stderr strings.Builder // read only after Wait
}

// talk starts cmd. The caller must end the talker.
func talk(cmd *exec.Cmd, tagged bool) (*talker, error) {
	t := &talker{cmd: cmd, tagged: tagged}
	cmd.Stderr = &t.stderr
	cmd.WaitDelay = time.Second // processes that it started may keep its pipes open
	var err error
	if t.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.out = bufio.NewReaderSize(out, 64<<10)
	return t, cmd.Start()
}

func (t *talker) write(m jsonrpc.Message, err error) error {
	if err != nil {
		return err
	}
	line, err := jsonrpc.Encode(m, t.tagged)
	if err != nil {
		return err
	}
	_, err = t.in.Write(append(line, '\n'))
	return err
}

func (t *talker) notify(method string, params any) error {
	return t.write(jsonrpc.NewNotification(method, params))
}

// ask sends a request and returns its id.
func (t *talker) ask(method string, params any) (jsonrpc.ID, error) {
	t.next++
	id := jsonrpc.Number(t.next)
	return id, t.write(jsonrpc.NewRequest(id, method, params))
}

// call sends a request and decodes its result into out, unless out is nil. It
// calls see, unless that is nil, with each message before the response.
func (t *talker) call(method string, params, out any, see func(jsonrpc.Message)) error {
	id, err := t.ask(method, params)
	if err != nil {
		return err
	}
	_, err = t.until(func(m jsonrpc.Message) (bool, error) {
		if m.Kind() != jsonrpc.Response || !m.ID.Same(id) {
			if see != nil {
				see(m)
			}
			return false, nil
		}
		if m.Error != nil {
			return true, fmt.Errorf("%s: %w: %s", method, m.Error, m.Error.Message)
		}
		if out == nil {
			return true, nil
		}
		return true, json.Unmarshal(m.Result, out)
	})
	return err
}

// until reads messages until see returns true. It returns the time at which the
// last message arrived. It rejects requests from the agent, because none is
// expected.
func (t *talker) until(see func(jsonrpc.Message) (last bool, err error)) (time.Time, error) {
	for {
		line, err := t.out.ReadBytes('\n')
		at := time.Now()
		if err != nil {
			return at, fmt.Errorf("%s is gone: %w", t.cmd.Path, err)
		}
		m, err := jsonrpc.Decode(line)
		if err != nil {
			return at, fmt.Errorf("%w: %.200s", err, line)
		}
		if m.Kind() == jsonrpc.Request {
			if err := t.write(jsonrpc.Overloaded(m), nil); err != nil {
				return at, err
			}
		}
		if last, err := see(m); last || err != nil {
			return at, err
		}
	}
}

// untilDelta reads messages until of returns true, and returns the time at
// which that message arrived. of should accept messages with text of the model.
// untilDelta fails on a message with an error.
func (t *talker) untilDelta(of func(jsonrpc.Message) bool) (time.Time, error) {
	return t.until(func(m jsonrpc.Message) (bool, error) {
		if m.Error != nil {
			return true, fmt.Errorf("%w: %s", m.Error, m.Error.Message)
		}
		return of(m), nil
	})
}

// end closes the agent's input, which makes the agent exit, and discards the
// rest of its output. It kills an agent that takes more than ten seconds.
func (t *talker) end(ctx context.Context) error {
	err := t.in.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = t.cmd.Process.Kill() })() // fails if it has ended
	_, _ = io.Copy(io.Discard, t.out)                                   // until the agent has ended
	if waitErr := t.cmd.Wait(); err == nil {
		err = waitErr
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", t.cmd.Path, err, t.stderr.String())
	}
	return nil
}
