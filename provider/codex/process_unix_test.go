//go:build unix

package codex

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
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

// The process of a session can be replaced, such as after a crash. A question
// of the new process is another question, although the agent uses its request
// id again.
func TestEachProcessOfASessionCanAskUnderTheSameRequestID(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "codex")
	if err := os.WriteFile(path, []byte(asksBetweenTurns), 0o700); err != nil {
		t.Fatal(err)
	}
	log := new(runnel.Memory)
	s, err := runnel.Open(t.Context(), New().WithProgram([]string{path}, nil), runnel.Options{Dir: t.TempDir()}, runnel.Config{ID: "s", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	after := int64(0)
	until := func(what string, f func(event.Event) bool) event.Event {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		for ev, err := range runnel.Follow(ctx, log, "s", after) {
			if err != nil {
				t.Fatalf("waiting for %s: %v", what, err)
			}
			after = ev.Seq
			if f(ev) {
				return ev
			}
		}
		t.Fatalf("no %s", what)
		return event.Event{}
	}
	for range 3 {
		if _, err := s.Send(t.Context(), runnel.Text("go")); err != nil {
			t.Fatal(err)
		}
		asked := until("question", func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
		a := asked.Body.(event.ApprovalRequested).Approval
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: allowOnce, ArgumentsDigest: a.ArgumentsDigest}); err != nil {
			t.Fatal(err)
		}
		until("end of the question's turn", func(ev event.Event) bool { return ev.Turn == asked.Turn && event.Ends(ev.Body) })
		if err := s.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
