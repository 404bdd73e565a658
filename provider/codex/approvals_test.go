package codex

import (
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// What is written to a running command is not among the parameters of the
// question. The command itself is: an approval that looked like one for the
// command would be answered as one by rules.
func TestWriteStdinApprovalNamesItsOwnTool(t *testing.T) {
	for kind, want := range map[string]string{"command": "shell", "writeStdin": "write_stdin"} {
		d := seat(t)
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
