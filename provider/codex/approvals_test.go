package codex

import (
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
