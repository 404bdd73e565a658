//go:build unix

package codex

import (
	"bufio"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// asksBetweenTurns is an agent that answers each prompt, and then asks out of
// turn, always under the same ids.
const asksBetweenTurns = `#!/bin/sh
reply() { printf '{"id":%s,"result":%s}\n' "$(printf '%s' "$line" | sed -n 's/^[^"]*"id":\("[^"]*"\|[0-9]*\),.*/\1/p')" "$1"; }
while read -r line; do
  case $line in
  *'"method":"initialize"'*) reply '{"userAgent":"runnel"}' ;;
  *'"account/read"'*) reply '{"account":null,"requiresOpenaiAuth":false}' ;;
  *'"thread/start"'*|*'"thread/resume"'*) reply '{"thread":{"id":"t1"},"model":"m","approvalPolicy":"on-request","sandbox":{"type":"workspaceWrite"}}' ;;
  *'"model/list"'*) reply '{"data":[]}' ;;
  *'"turn/start"'*)
    reply '{"turn":{"id":"u","status":"inProgress"}}'
    echo '{"method":"turn/started","params":{"threadId":"t1","turn":{"id":"u","items":[],"status":"inProgress"}}}'
    echo '{"method":"turn/completed","params":{"threadId":"t1","turn":{"id":"u","items":[],"status":"completed","error":null}}}'
    echo '{"method":"mcpServer/elicitation/request","id":0,"params":{"threadId":"t1","turnId":null,"serverName":"s","mode":"url","message":"m","url":"https://example.com/"}}' ;;
  *'"id":0'*) echo '{"method":"serverRequest/resolved","params":{"threadId":"t1","requestId":0}}' ;;
  esac
done
`

func TestEachProcessOfASessionCanAskUnderTheSameRequestID(t *testing.T) {
	t.Parallel()
	providertest.RunReusedRequestIDs(t, asksBetweenTurns, func(path string) runnel.Provider { return New().WithProgram([]string{path}, nil) })
}

// TestInterruptEndsCommands checks that an interrupt ends all commands of the
// turn, including a command in the background.
func TestInterruptEndsCommands(t *testing.T) {
	r := newRig(t)
	one, two := newWitness(t, r.File("one")), newWitness(t, r.File("two"))
	r.Play(calls(fakemodel.Call("exec_command", args{"cmd": one.command("one"), "yield_time_ms": 250})), calls(shell(two.command("two"))), says("Never."))
	one.wait(one.begun)
	two.wait(two.begun)
	r.Interrupt()
	if d, ok := last(r.FinishTurn("")).(event.ResponseDone); !ok || d.Status != event.StatusCancelled {
		t.Errorf("%+v", d)
	}
	r.Play(says("On."))
	r.FinishTurn("")
	one.wait(one.ended)
	two.wait(two.ended)
}

// A witness reports when a command has begun, and when all of its processes
// have ended. They have a pipe open, which the system closes when they end.
type witness struct {
	t            testing.TB
	begun, ended chan struct{}
}

// newWitness makes the pipe.
func newWitness(t testing.TB, pipe string) witness {
	t.Helper()
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	w := witness{t, make(chan struct{}), make(chan struct{})}
	go func() {
		f, err := os.Open(pipe) // waits for the command
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		in := bufio.NewReader(f)
		if _, err := in.ReadString('\n'); err == nil {
			close(w.begun)
		}
		_, _ = io.Copy(io.Discard, in)
		close(w.ended)
	}()
	return w
}

// command returns a command that runs until it is killed. It runs in the folder
// of the pipe.
func (w witness) command(pipe string) string {
	return "exec 3>" + pipe + "; echo begun >&3; while true; do sleep 600; done"
}

func (w witness) wait(what chan struct{}) {
	w.t.Helper()
	late := time.NewTimer(waitTimeout)
	defer late.Stop()
	select {
	case <-what:
	case <-late.C:
		w.t.Fatal("a command did not begin or did not end")
	}
}
