//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// endless is a turn with a tool that runs for an hour.
const endless = `{"steps":[{"text":"Listening."},{"tool":{"name":"Bash","arguments":{},"takesMs":3600000}}]}`

func TestFirstInterruptCancels(t *testing.T) {
	r := startRun(t, "hang")
	r.waitFor(t, event.ItemDone{})
	r.signal(t, syscall.SIGINT)
	events, code := r.wait(t)
	last, ok := events[len(events)-1].Body.(event.ResponseDone)
	if code != exitNotDone || !ok || last.Status != event.StatusCancelled {
		t.Errorf("exit %d after %#v, want %d after a cancelled turn", code, events[len(events)-1].Body, exitNotDone)
	}
	if !bytes.Contains(r.stderr.Bytes(), []byte("press Ctrl-C again")) {
		t.Errorf("stderr %q does not say how to end the agent at once", r.stderr.Bytes())
	}
}

func TestSecondInterruptAndTerminateEndTheAgent(t *testing.T) {
	for name, signals := range map[string][]syscall.Signal{
		"interrupt twice": {syscall.SIGINT, syscall.SIGINT},
		"interrupt often": slices.Repeat([]syscall.Signal{syscall.SIGINT}, 20),
		"terminate":       {syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRun(t, endless)
			r.waitFor(t, event.ItemDone{})
			for _, sig := range signals {
				if err := r.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
			}
			events, code := r.wait(t)
			last, ok := events[len(events)-1].Body.(event.ResponseDone)
			if code != exitNotDone || !ok || last.Status != event.StatusCancelled {
				t.Errorf("exit %d after %#v, want %d after a cancelled turn", code, events[len(events)-1].Body, exitNotDone)
			}
		})
	}
}

// running is a `runnel run -o events` with the scripted agent.
type running struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr bytes.Buffer
	events []event.Event
}

func startRun(t *testing.T, prompt string) *running {
	t.Helper()
	r := &running{cmd: exec.CommandContext(t.Context(), "runnel", "run", "--agent", "script", "-o", "events", prompt)}
	r.cmd.Stderr = &r.stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.lines = bufio.NewScanner(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// next reads an event. It returns false at the end.
func (r *running) next(t *testing.T) bool {
	t.Helper()
	if !r.lines.Scan() {
		return false
	}
	var ev event.Event
	if err := json.Unmarshal(r.lines.Bytes(), &ev); err != nil {
		t.Fatal(err)
	}
	r.events = append(r.events, ev)
	return true
}

// waitFor reads until the agent has begun to answer and an event of b's type
// has arrived.
func (r *running) waitFor(t *testing.T, b event.Body) {
	t.Helper()
	started := false
	for r.next(t) {
		ev := r.events[len(r.events)-1]
		if _, ok := ev.Body.(event.ResponseStart); ok {
			started = true
		}
		if started && event.Type(ev.Body) == event.Type(b) {
			return
		}
	}
	t.Fatalf("the run ended without %s: %s", event.Type(b), r.stderr.Bytes())
}

func (r *running) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (r *running) wait(t *testing.T) ([]event.Event, int) {
	t.Helper()
	for r.next(t) {
	}
	err := r.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return r.events, exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return r.events, 0
}
