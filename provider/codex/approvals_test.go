package codex

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// The agent's question about input for a running command contains the command,
// but not the input. If the approval looked like one for the command, a stored
// rule that allows the command would answer it.
func TestWriteStdinApprovalNamesItsOwnTool(t *testing.T) {
	for kind, want := range map[string]string{"command": "shell", "writeStdin": "write_stdin"} {
		d := newHarness(t)
		d.prompt("a")
		d.begins("th", "n1")
		d.out(`{"method":"item/commandExecution/requestApproval","id":0,"params":{"kind":"` + kind + `","threadId":"th","turnId":"n1","itemId":"x1","command":"/bin/bash -lc 'git status'","cwd":"/p"}}`)
		var tools []string
		for _, ev := range d.evs {
			if b, ok := ev.Body.(event.ApprovalRequested); ok {
				tools = append(tools, b.Approval.ToolName)
			}
		}
		if len(tools) != 1 || tools[0] != want {
			t.Errorf("%s: tools %q, want %q", kind, tools, want)
		}
	}
}

// TestTooDeepQuestionIsDenied: no decoder accepts such a question. It is denied
// at once, with a notice, and the turn ends as the agent says.
func TestTooDeepQuestionIsDenied(t *testing.T) {
	d := newHarness(t)
	d.prompt("a")
	d.begins("th", "n1")
	d.out(`{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"th","turnId":"n1","itemId":"x1","command":"ls","cwd":"/p","additionalPermissions":{"network":` + strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000) + `}}}`)
	d.ends("th", "n1", "completed")
	if len(d.due) != 1 || !strings.Contains(d.due[0], `"id":0`) || !strings.Contains(d.due[0], `"error"`) {
		t.Errorf("replies %q", d.due)
	}
	notices := bodies[event.Notice](d.evs)
	if len(notices) != 1 || notices[0].Code != "QUESTION_REFUSED" {
		t.Errorf("notices %+v", notices)
	}
	if asked, ends := len(bodies[event.ApprovalRequested](d.evs)), len(bodies[event.ResponseDone](d.evs)); asked != 0 || ends != 1 {
		t.Errorf("%d questions were asked, and the turn ended %d times", asked, ends)
	}
}
