package acp

import (
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Claude Agent 0.100.0 sends the arguments of a call while the model writes
// them. The item of the call ends only when the arguments are complete.
func TestArgumentsThatGrowAreShownWhole(t *testing.T) {
	call := upd("tool_call", `"toolCallId":"c1","name":"Bash","rawInput":{},"status":"pending","title":"Terminal","kind":"execute","content":[]`)
	part := upd("tool_call_update", `"toolCallId":"c1","rawInput":{"command":"echo hi"},"title":"echo hi"`)
	whole := upd("tool_call_update", `"toolCallId":"c1","rawInput":{"command":"echo hi","timeout":9}`)
	used := upd("usage_update", `"used":10,"size":100`)
	done := upd("tool_call_update", `"toolCallId":"c1","status":"completed","rawOutput":"hi"`)
	for name, lines := range map[string][]runnel.Line{
		"content":          {call, part, upd("tool_call_update", `"toolCallId":"c1","rawInput":{"command":"echo hi","timeout":9},"content":[{"type":"content","content":{"type":"text","text":"Say hi"}}]`)},
		"end of a message": {call, part, whole, used},
		"response":         {call, part, whole, upd("tool_call_update", `"toolCallId":"c1"`)},
		"end of the call":  {call, part, whole, done},
	} {
		tr := newTranslator(known(t, "claude-agent-acp"))
		evs, _ := feed(tr, withBegun(lines[:len(lines)-1]...)...)
		if ended := calledWith(evs); len(ended) != 0 {
			t.Errorf("%s: ended before its arguments were whole, with %q", name, ended)
		}
		evs, _ = runAs(t, known(t, "claude-agent-acp"), withBegun(lines...)...)
		if ended := calledWith(evs); len(ended) != 1 || ended[0] != `{"command":"echo hi","timeout":9}` {
			t.Errorf("%s: ended with %q", name, ended)
		}
	}
}

// Claude Agent 0.100.0 reports a call with the arguments of its permission check
// if the check overtakes the model's message. A replay shows the arguments of
// the message.
func TestArgumentsOfAnEarlyCheckAreReplacedByTheMessage(t *testing.T) {
	call := upd("tool_call", `"toolCallId":"c1","name":"Bash","rawInput":{"timeout":9,"command":"echo hi"},"status":"pending","title":"echo hi","kind":"execute","content":[{"type":"content","content":{"type":"text","text":"Say hi"}}]`)
	asked := out(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c1","title":"echo hi","kind":"execute","rawInput":{"timeout":9,"command":"echo hi"}},"options":[{"optionId":"a","name":"Yes","kind":"allow_once"}]}}`)
	began := upd("usage_update", `"used":1,"size":100`)
	part := upd("tool_call_update", `"toolCallId":"c1","rawInput":{"command":"echo hi"}`)
	whole := upd("tool_call_update", `"toolCallId":"c1","rawInput":{"command":"echo hi","timeout":9}`)
	used := upd("usage_update", `"used":10,"size":100`)
	done := upd("tool_call_update", `"toolCallId":"c1","status":"completed","rawOutput":"hi"`)
	const ofCheck, ofMessage = `{"timeout":9,"command":"echo hi"}`, `{"command":"echo hi","timeout":9}`
	for name, tt := range map[string]struct {
		want  string
		lines []runnel.Line
	}{
		"message begins after the check": {ofMessage, []runnel.Line{call, asked, began, whole, used, done}},
		"message in parts":               {ofMessage, []runnel.Line{call, began, part, whole, used, done}},
		"no check":                       {ofMessage, []runnel.Line{call, began, whole, used, done}},
		"message without usage":          {ofMessage, []runnel.Line{call, asked, whole, done}},
		"message equals the check":       {ofCheck, []runnel.Line{call, asked, began, used, done}},
	} {
		evs, _ := runAs(t, known(t, "claude-agent-acp"), withBegun(tt.lines...)...)
		if args := calledWith(evs); len(args) != 1 || args[0] != tt.want {
			t.Errorf("%s: ended with %q", name, args)
		}
	}
}

// calledWith returns the arguments in the finished items of calls.
func calledWith(evs []event.Event) (arguments []string) {
	for _, b := range bodies[event.ItemDone](evs) {
		if call, ok := b.FinalItem.(event.FunctionCall); ok {
			arguments = append(arguments, string(call.Arguments))
		}
	}
	return arguments
}

// A notice of the agent is shown with its title and its description.
func TestNoticesKeepTheirDescription(t *testing.T) {
	evs, _ := runAs(t, known(t, "claude-agent-acp"), withBegun(
		upd("notice", `"severity":"warning","title":"Auto mode unavailable","description":"The model does not support it."`),
		upd("notice", `"severity":"info","title":"Only a title"`), ended)...)
	var said []string
	for _, n := range bodies[event.Notice](evs) {
		said = append(said, string(n.Level)+" "+n.Message)
	}
	if len(said) != 2 || said[0] != "warning Auto mode unavailable: The model does not support it." || said[1] != "info Only a title" {
		t.Errorf("%q", said)
	}
}

// A location that only a question names is not part of the call's item, because
// a replay has no questions.
func TestPlacesThatOnlyAQuestionNamesAreNoPartOfTheCall(t *testing.T) {
	call := upd("tool_call", `"toolCallId":"c1","name":"Bash","rawInput":{},"status":"pending","title":"Terminal","kind":"execute","content":[]`)
	whole := upd("tool_call_update", `"toolCallId":"c1","rawInput":{"command":"touch x"},"title":"touch x"`)
	asked := out(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c1","title":"touch x","kind":"execute","rawInput":{"command":"touch x"},"locations":[{"path":"/p/x"}]},"options":[{"optionId":"a","name":"Yes","kind":"allow_once"}]}}`)
	evs, _ := runAs(t, known(t, "claude-agent-acp"), withBegun(call, whole, asked)...)
	for _, b := range bodies[event.ItemDone](evs) {
		if c, ok := b.FinalItem.(event.FunctionCall); ok && c.Locations != nil {
			t.Errorf("got %+v", c.Locations)
		}
	}
	if len(calledWith(evs)) != 1 {
		t.Error("the item of the call did not end")
	}
}

// A rule or a profile about one tool must not apply to another one.
func TestToolsOfGeminiHaveTheirWholeNames(t *testing.T) {
	for id, want := range map[string]string{
		"run_shell_command__run_shell_command_1_0":                                 "run_shell_command",
		"write_file__k3j9x":                                                        "write_file",
		"mcp_hub_github__delete_repo__k3j9x":                                       "mcp_hub_github__delete_repo",
		"mcp_hub_github__delete_repo__mcp_hub_github__delete_repo_1764489600000_2": "mcp_hub_github__delete_repo",
		"mcp_a__mcp_a_1_0__mcp_a__mcp_a_1_0_1764489600000_2":                       "mcp_a__mcp_a_1_0",
		"mcp_a_b_1_0__synth_f00_1764489600000_3":                                   "mcp_a_b_1_0",
		"read_many_files-1764489600000-1":                                          "",
		"":                                                                         "",
	} {
		if got := geminiTool(toolCall{ID: id}); got != want {
			t.Errorf("%s: got %q, want %q", id, got, want)
		}
	}
}
