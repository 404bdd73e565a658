//go:build unix

package claude

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testexec"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// unstoppable is an agent that answers each prompt. It ignores the end of its
// input and the signals INT, TERM and HUP.
const unstoppable = `#!/bin/sh
trap '' INT TERM HUP
echo $$ > "$0.pid"
` + answersSetup + `n=0
while read -r line; do
  case $line in *'"type":"user"'*)
    n=$((n+1))
    echo '{"type":"system","subtype":"init","session_id":"0192f0c1-7d5e-4c3a-9d0e-2b1f6f0f6a11","model":"m","tools":[]}'
    echo '{"type":"assistant","session_id":"0192f0c1-7d5e-4c3a-9d0e-2b1f6f0f6a11","message":{"id":"msg_'$n'","role":"assistant","model":"m","content":[{"type":"text","text":"Answer '$n'."}],"stop_reason":"end_turn"}}'
    echo '{"type":"result","subtype":"success","is_error":false,"session_id":"0192f0c1-7d5e-4c3a-9d0e-2b1f6f0f6a11","result":"Answer '$n'."}'
  esac
done
while :; do sleep 1; done
`

// A turn ends with the agent's result, although the process continues. Close
// stops the process, although it ignores signals.
func TestTurnEndsWithItsResultAndNotWithTheProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "claude")
	if err := testexec.Write(path, unstoppable); err != nil {
		t.Fatal(err)
	}
	log := new(runnel.Memory)
	s, err := runnel.Open(t.Context(), New(), runnel.Options{Path: path, Dir: t.TempDir()}, runnel.Config{ID: "s", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, answer := range []string{"Answer 1.", "Answer 2."} {
		turn, err := s.Send(t.Context(), runnel.Text("go"))
		if err != nil {
			t.Fatal(err)
		}
		var got string
		var ends int
		for ev, err := range runnel.Follow(t.Context(), log, "s", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Turn != turn.ID {
				continue
			}
			if done, ok := ev.Body.(event.ItemDone); ok {
				if m, ok := done.FinalItem.(event.Message); ok && m.Origin == event.OriginAgent {
					got = m.Content
				}
			}
			if event.Ends(ev.Body) {
				if b, ok := ev.Body.(event.ResponseDone); !ok || b.Status != event.StatusCompleted {
					t.Errorf("ended as %+v", ev.Body)
				}
				ends++
				break
			}
		}
		if got != answer || ends != 1 {
			t.Errorf("got %q with %d ends, want %q", got, ends, answer)
		}
	}
	data, err := os.ReadFile(path + ".pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || syscall.Kill(pid, 0) != nil {
		t.Fatalf("the agent %d does not run: %v", pid, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the agent still runs: %v", err)
	}
}

// asksBetweenTurns is an agent that answers each prompt, and then asks out of
// turn, always under the same request id.
const asksBetweenTurns = `#!/bin/sh
while read -r line; do
  case $line in
  *'"type":"user"'*)
    echo '{"type":"system","subtype":"init","session_id":"0192f0c1-7d5e-4c3a-9d0e-2b1f6f0f6a11","model":"m","tools":[]}'
    echo '{"type":"result","subtype":"success","is_error":false,"session_id":"0192f0c1-7d5e-4c3a-9d0e-2b1f6f0f6a11"}'
    echo '{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"c"}}' ;;
  *'"type":"control_request"'*) ` + answersLine + ` ;;
  esac
done
`

func TestEachProcessOfASessionCanAskUnderTheSameRequestID(t *testing.T) {
	t.Parallel()
	providertest.RunReusedRequestIDs(t, asksBetweenTurns, func(path string) runnel.Provider { return New().WithProgram([]string{path}, nil) })
}
