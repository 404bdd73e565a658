package fakemodel_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// output returns the items of an answer without streaming, each as text with
// its main fields, and the response.
func output(t *testing.T, s *fakemodel.Server, extra object, turns ...turn) (items []string, response object) {
	t.Helper()
	body := apis["responses"].request(turns)
	body["stream"] = false
	for k, v := range extra {
		if k == "input" {
			v = append(body["input"].([]object), v.([]object)...)
		}
		body[k] = v
	}
	resp := send(t, s, "/v1/responses", body)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	if err := json.NewDecoder(resp.Body).Decode(&response); err != nil {
		t.Fatal(err)
	}
	for _, it := range response["output"].([]any) {
		var words []string
		for _, field := range []string{"type", "phase", "namespace", "name", "arguments", "input", "action.query", "content.0.text"} {
			if v := str(it, field); v != "" {
				words = append(words, v)
			}
		}
		items = append(items, strings.Join(words, " "))
	}
	return items, response
}

const patch = "*** Begin Patch\n*** Add File: a\n+b\n*** End Patch\n"

func TestResponsesCallsToolsInTheWayTheyAreOffered(t *testing.T) {
	exec := object{"type": "custom", "name": "exec"}
	tests := map[string]struct {
		extra object
		call  fakemodel.Block
		want  string
	}{
		"a function": {
			object{"tools": []object{{"type": "function", "name": "exec_command"}}},
			fakemodel.Call("exec_command", object{"cmd": "ls"}), `function_call exec_command {"cmd":"ls"}`,
		},
		"a tool that takes text": {
			object{"tools": []object{{"type": "custom", "name": "apply_patch"}}},
			fakemodel.Call("apply_patch", patch), "custom_tool_call apply_patch " + patch,
		},
		"text for a function": {
			object{"tools": []object{{"type": "function", "name": "apply_patch"}}},
			fakemodel.Call("apply_patch", "p"), `function_call apply_patch {"input":"p"}`,
		},
		"a namespace": {
			object{"tools": []object{{"type": "namespace", "name": "mcp__s", "tools": []object{{"type": "function", "name": "f"}}}}},
			fakemodel.Call("f", object{}), "function_call mcp__s f {}",
		},
		"a function through the JavaScript tool": {
			object{"input": []object{{"type": "additional_tools", "tools": []object{{"type": "namespace", "name": "functions", "tools": []object{exec}}}}}},
			fakemodel.Call("exec_command", object{"cmd": "ls"}), `custom_tool_call functions exec text(await tools.exec_command({"cmd":"ls"}));`,
		},
		"text through the JavaScript tool": {
			object{"tools": []object{exec}},
			fakemodel.Call("apply_patch", "p\n"), `custom_tool_call exec text(await tools.apply_patch("p\n"));`,
		},
		"a call of the JavaScript tool itself": {
			object{"tools": []object{exec}},
			fakemodel.Call("exec", "text(1)"), `custom_tool_call exec text(1)`,
		},
		"a tool offered next to the JavaScript tool": {
			object{"tools": []object{exec, {"type": "function", "name": "update_plan"}}},
			fakemodel.Call("update_plan", object{}), `function_call update_plan {}`,
		},
		"a tool that is not offered": {
			object{}, fakemodel.Call("no_such_tool", object{}), `function_call no_such_tool {}`,
		},
		"arguments that are not JSON": {
			object{}, fakemodel.Block{Type: "tool_use", Name: "exec_command", RawInput: `{"cmd":`}, `function_call exec_command {"cmd":`,
		},
	}
	s := start(t, fakemodel.Config{})
	for name, tt := range tests {
		got, _ := output(t, s, tt.extra, play(fakemodel.Step{Blocks: []fakemodel.Block{tt.call}}))
		if d := cmp.Diff([]string{tt.want}, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestResponsesSupportsItsOwnBlockTypes(t *testing.T) {
	s := start(t, fakemodel.Config{})
	items, r := output(t, s, nil, play(fakemodel.Step{StopReason: "max_tokens", Usage: map[string]int64{
		"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 30, "reasoning_tokens": 7,
	}, Blocks: []fakemodel.Block{
		{Type: "thinking", Parts: []string{"**First**", "**Then**"}},
		{Type: "text", Text: "Looking.", Phase: "commentary", NoID: true},
		{Type: "web_search", Text: "weather"},
		{Type: "text", Text: "Sunny.", Phase: "final_answer"},
	}}))
	want := []string{"reasoning", "message commentary Looking.", "web_search_call weather", "message final_answer Sunny."}
	if d := cmp.Diff(want, items); d != "" {
		t.Error(d)
	}
	if str(r, "status") != "incomplete" || str(r, "incomplete_details.reason") != "max_output_tokens" {
		t.Errorf("ended %v, %v", r["status"], r["incomplete_details"])
	}
	usage := object{
		"input_tokens": 100.0, "input_tokens_details": object{"cached_tokens": 40.0},
		"output_tokens": 30.0, "output_tokens_details": object{"reasoning_tokens": 7.0}, "total_tokens": 130.0,
	}
	if d := cmp.Diff(usage, r["usage"]); d != "" {
		t.Error(d)
	}
	parts := at(r, "output").([]any)[0].(object)["summary"].([]any)
	if len(parts) != 2 || str(parts[1], "text") != "**Then**" {
		t.Errorf("summary: %v", parts)
	}
	if _, has := at(r, "output").([]any)[1].(object)["id"]; has {
		t.Error("the message with noId has an id")
	}
}

// An agent can send back two calls of one answer with an output between them.
func TestResponsesGroupsItemsOfOneAnswerByTheirIDs(t *testing.T) {
	s := start(t, fakemodel.Config{})
	prompt := play(
		fakemodel.Step{Blocks: []fakemodel.Block{fakemodel.Call("f", object{}), fakemodel.Call("g", object{})}},
		fakemodel.Step{Text: "second"},
	)
	_, r := output(t, s, nil, prompt)
	var input []object
	for _, it := range r["output"].([]any) {
		it := it.(object)
		input = append(input, it, object{"type": "function_call_output", "call_id": it["call_id"], "output": "x"})
	}
	got, _ := output(t, s, object{"input": input}, prompt)
	if d := cmp.Diff([]string{"message second"}, got); d != "" {
		t.Error(d)
	}
}

func TestRequestsWithoutAPromptUseNoStep(t *testing.T) {
	prompt := play(fakemodel.Step{Text: "the answer", Fail: &fakemodel.Failure{Status: 500, Times: 1}})
	title := object{"type": "object", "properties": object{"title": object{"type": "string"}, "n": object{"type": "INTEGER"}, "mood": object{"enum": []string{"good"}}}}
	text := func(s string) []object { return []object{{"text": s}} }
	tests := map[string]struct {
		path  string
		body  object
		where string
		want  string
	}{
		"a title by its schema": {"/v1/responses", object{
			"input": prompt.Content, "text": object{"format": object{"type": "json_schema", "schema": title}},
		}, "output.0.content.0.text", `{"mood":"good","n":1,"title":"A title"}`},
		"a summary": {"/v1/responses", object{"input": []object{
			{"role": "user", "content": text(prompt.Content.(string))},
			{"role": "user", "content": text("You are performing a CONTEXT CHECKPOINT COMPACTION.")},
		}}, "output.0.content.0.text", "A summary of the conversation."},
		"a title": {"/v1/chat/completions", object{"messages": []object{
			{"role": "system", "content": "You are a title generator."}, {"role": "user", "content": prompt.Content},
		}}, "choices.0.message.content", "A title"},
		"a choice of the model": {"/v1beta/models/m:generateContent", object{
			"contents":         []object{{"role": "user", "parts": text(prompt.Content.(string))}},
			"generationConfig": object{"responseJsonSchema": object{"type": "OBJECT", "properties": object{"complexity_score": object{"type": "INTEGER"}}}},
		}, "candidates.0.content.parts.0.text", `{"complexity_score":1}`},
	}
	s := start(t, fakemodel.Config{})
	for name, tt := range tests {
		var got object
		if err := json.NewDecoder(send(t, s, tt.path, tt.body).Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if str(got, tt.where) != tt.want {
			t.Errorf("%s: %v, want %q", name, got, tt.want)
		}
	}
	// A request with a user's own schema gets the step. The other requests have
	// not used up the step's failure.
	body := object{"input": prompt.Content, "text": object{"format": object{"schema": object{"type": "object", "properties": object{"colour": object{}}}}}}
	if resp := send(t, s, "/v1/responses", body); resp.StatusCode != 500 {
		t.Errorf("status %d, want the failure of the step", resp.StatusCode)
	}
}

func TestResponsesHasTwoKindsOfErrorEvents(t *testing.T) {
	for kind, want := range map[string]string{fakemodel.Failed: "event: response.failed", fakemodel.ErrorEvent: "event: error"} {
		prompt := play(fakemodel.Step{Text: "abc", Faults: []fakemodel.Fault{{Kind: kind}}})
		data, err := io.ReadAll(send(t, start(t, fakemodel.Config{}), "/v1/responses", apis["responses"].request([]turn{prompt})).Body)
		if err != nil || !strings.Contains(string(data), want+"\n") {
			t.Errorf("%s: %s, %v", kind, data, err)
		}
	}
}

func TestChatReportsUsageOnlyIfRequested(t *testing.T) {
	a := apis["chat"]
	body := a.request([]turn{user("<<play hello>>")})
	delete(body, "stream_options")
	got, err := a.listen(send(t, start(t, fakemodel.Config{}), a.path, body))
	if err != nil || got.Out != 0 || got.Stop != "stop" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAnswersWithoutStreaming(t *testing.T) {
	step := fakemodel.Step{Text: "Hi.", Blocks: []fakemodel.Block{{Type: "thinking", Text: "hm"}, fakemodel.Call("f", object{"a": 1})}}
	chat := apis["chat"].request([]turn{play(step)})
	delete(chat, "stream")
	tests := map[string]struct {
		path  string
		body  object
		words map[string]string
	}{
		"chat": {"/v1/chat/completions", chat, map[string]string{
			"choices.0.message.content": "Hi.", "choices.0.message.reasoning_content": "hm",
			"choices.0.message.tool_calls.0.function.arguments": `{"a":1}`, "choices.0.finish_reason": "tool_calls",
		}},
		"gemini": {"/v1beta/models/m:generateContent", apis["gemini"].request([]turn{play(step)}), map[string]string{
			"candidates.0.content.parts.0.text": "Hi.", "candidates.0.finishReason": "STOP", "modelVersion": "m",
		}},
	}
	for name, tt := range tests {
		var got object
		if err := json.NewDecoder(send(t, start(t, fakemodel.Config{}), tt.path, tt.body).Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		for where, want := range tt.words {
			if str(got, where) != want {
				t.Errorf("%s: %s is %q, want %q", name, where, str(got, where), want)
			}
		}
	}
}

func TestModelsAndTokenCountingRoutes(t *testing.T) {
	s := start(t, fakemodel.Config{})
	resp, err := http.Get(s.URL() + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var models object
	if err := json.NewDecoder(resp.Body).Decode(&models); err != nil || str(models, "data.0.id") != "fake-model" {
		t.Errorf("models: %v, %v", models, err)
	}
	var count object
	if err := json.NewDecoder(send(t, s, "/v1beta/models/m:countTokens", object{"contents": []any{}}).Body).Decode(&count); err != nil || num(count, "totalTokens") == 0 {
		t.Errorf("countTokens: %v, %v", count, err)
	}
	if resp := send(t, s, "/v1beta/models/m:embedContent", object{}); resp.StatusCode != http.StatusNotFound {
		t.Errorf("embedContent: status %d", resp.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
}
