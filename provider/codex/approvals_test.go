package codex

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
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

// askPatch reports a patch of one file, unless path is "", and asks for it.
// grantRoot is the folder that the agent wants to write to for the whole
// session, or "".
func askPatch(d *harness, path, grantRoot string) event.Approval {
	d.t.Helper()
	d.prompt("a")
	d.begins("th", "n1")
	if path != "" {
		d.out(fmt.Sprintf(`{"method":"item/started","params":{"threadId":"th","turnId":"n1","item":{"type":"fileChange","id":"x1","changes":[{"path":%q,"kind":{"type":"add"},"diff":"x"}]}}}`, path))
	}
	d.out(fmt.Sprintf(`{"method":%q,"id":0,"params":{"threadId":"th","turnId":"n1","itemId":"x1","grantRoot":%s}}`, askFileChange, translate.Object(grantRoot)))
	asked := bodies[event.ApprovalRequested](d.evs)
	if len(asked) != 1 {
		d.t.Fatalf("%d questions", len(asked))
	}
	return asked[0].Approval
}

// The agent's question about a patch does not contain the patch. If the patch
// was not received, a user cannot see what would be allowed, so the question
// can only be denied. The same holds for an unknown command.
func TestWhatWasNotShownCanOnlyBeDenied(t *testing.T) {
	const file = `{"path":"/p/a","kind":{"type":"add"},"diff":"x"}`
	item := func(when, item string) string {
		return `{"method":"item/` + when + `","params":{"threadId":"th","turnId":"n1","item":` + item + `}}`
	}
	for name, c := range map[string]struct{ method, item string }{
		"unknown patch":         {askFileChange, ""},
		"patch without files":   {askFileChange, item("started", `{"type":"fileChange","id":"x1","changes":[]}`)},
		"patch with more files": {askFileChange, item("started", `{"type":"fileChange","id":"x1","changes":[`+strings.Repeat(file+",", maxChanges)+file+`]}`)},
		"patch applied before":  {askFileChange, item("completed", `{"type":"fileChange","id":"x1","status":"completed","changes":[`+file+`]}`)},
		"command, not a patch":  {askFileChange, item("started", `{"type":"commandExecution","id":"x1","command":"ls","cwd":"/p"}`)},
		"unknown command":       {askCommand, ""},
		"patch, not a command":  {askCommand, item("started", `{"type":"fileChange","id":"x1","changes":[`+file+`]}`)},
		"command without words": {askCommand, item("started", `{"type":"commandExecution","id":"x1","command":"","cwd":"/p"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			d := newHarness(t)
			d.prompt("a")
			d.begins("th", "n1")
			if c.item != "" {
				d.out(c.item)
			}
			d.out(`{"method":"` + c.method + `","id":0,"params":{"threadId":"th","turnId":"n1","itemId":"x1"}}`)
			asked := bodies[event.ApprovalRequested](d.evs)
			if len(asked) != 1 {
				t.Fatalf("%d questions", len(asked))
			}
			a := asked[0].Approval
			for _, c := range a.Choices {
				if c.Kind != event.ChoiceDeny && c.Kind != event.ChoiceDenyStop {
					t.Errorf("the question offers %q for %s", c.Label, a.Arguments)
				}
			}
			if _, err := d.tr.answer(a.ID, runnel.Decision{Choice: allowOnce}); runnel.CodeOf(err) != runnel.InvalidRequest {
				t.Errorf("allowed: %v", err)
			}
			said := 0
			for _, n := range bodies[event.Notice](d.evs) {
				if n.Code == "CANNOT_ALLOW" && n.Level == event.LevelWarning {
					said++
				}
			}
			if said != 1 {
				t.Errorf("%d notices say why: %s", said, dump(d.evs))
			}
			lines, err := d.tr.answer(a.ID, runnel.Decision{Choice: deny})
			if err != nil || len(lines) != 1 || string(lines[0].(json.RawMessage)) != `{"id":0,"result":{"decision":"decline"}}` {
				t.Errorf("the denial is %s, %v", lines, err)
			}
		})
	}
}

// A question without a command is about the command of its item.
func TestQuestionWithoutCommandShowsTheCommandOfItsItem(t *testing.T) {
	d := newHarness(t)
	d.prompt("a")
	d.begins("th", "n1")
	d.out(`{"method":"item/started","params":{"threadId":"th","turnId":"n1","item":{"type":"commandExecution","id":"x1","command":"rm -r x","cwd":"/p"}}}`)
	d.out(`{"method":"` + askCommand + `","id":0,"params":{"threadId":"th","turnId":"n1","itemId":"x1"}}`)
	asked := bodies[event.ApprovalRequested](d.evs)
	if len(asked) != 1 || string(asked[0].Approval.Arguments) != `{"command":"rm -r x","cwd":"/p"}` || asked[0].Approval.Choices[0].Kind != event.ChoiceAllowOnce {
		t.Errorf("asked %+v", asked)
	}
	if n := bodies[event.Notice](d.evs); len(n) != 0 {
		t.Errorf("notices %+v", n)
	}
}

func TestPatchThatWasShownCanBeAllowed(t *testing.T) {
	d := newHarness(t)
	a := askPatch(d, "/p/a", "")
	if n := bodies[event.Notice](d.evs); len(n) != 0 || len(a.Choices) != 4 || len(a.Changes) != 1 {
		t.Errorf("notices %+v, choices %+v, changes %+v", n, a.Choices, a.Changes)
	}
}

// What is granted to the agent is the whole folder, so a shortened path must
// not be offered: the beginning of a path may look like another folder.
func TestGrantedFolderIsShownInFullOrNotOffered(t *testing.T) {
	long := "/p/" + strings.Repeat("x/", 200) + "secrets"
	for root, offered := range map[string]bool{
		"/p/data":             true,
		"/p/My Data":          true,
		long:                  false,
		"/p/\u202edata":       false, // would be shown as /p/data
		"/p/a\n/etc":          false, // would be shown as /p/a /etc
		"/p/two  spaces":      false,
		"/p/" + long + "\x00": false,
	} {
		d := newHarness(t)
		a := askPatch(d, "/p/a", root)
		i := slices.IndexFunc(a.Choices, func(c event.Choice) bool { return c.Kind == event.ChoiceAllowSession })
		if (i >= 0) != offered {
			t.Errorf("%q: the choices are %+v", root, a.Choices)
		}
		if i >= 0 && !strings.Contains(a.Choices[i].Label, root+" ") {
			t.Errorf("%q: the label is %q", root, a.Choices[i].Label)
		}
		var args struct {
			Changes   []json.RawMessage `json:"changes"`
			GrantRoot string            `json:"grantRoot"`
		}
		if err := json.Unmarshal(a.Arguments, &args); err != nil || args.GrantRoot != root || len(args.Changes) != 1 {
			t.Errorf("%q: the arguments are %s", root, a.Arguments)
		}
		d.out(`{"method":"item/completed","params":{"threadId":"th","turnId":"n1","item":{"type":"fileChange","id":"x1","status":"completed","changes":[{"path":"/p/a","kind":{"type":"add"},"diff":"x"}]}}}`)
		if n := bodies[event.Notice](d.evs); len(n) != 0 {
			t.Errorf("%q: the folder counts as another argument of the patch: %+v", root, n)
		}
	}
}
