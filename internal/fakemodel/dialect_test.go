package fakemodel_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// object is a JSON object.
type object = map[string]any

// answer is an answer as a client of any API reads it.
type answer struct {
	Text, Thinking string
	Calls          []string // name and arguments of each call
	Stop           string   // the stop reason; "" if the answer did not end
	Error          string   // the code of an error event
	In, Out        int64
}

// api is the client's side of one dialect.
type api struct {
	path    string // the path of a streaming request
	request func(turns []turn) object
	read    func(h *answer, event object)
	stops   map[string]string // the API's stop reasons, by Anthropic's
	failure string            // the path of the error type in an error body, for status 429
}

// at returns the value at a path in a JSON value. The path has keys and
// indices, separated by dots.
func at(v any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case object:
			v = x[key]
		case []any:
			if len(x) == 0 {
				return nil
			}
			v = x[0]
		default:
			return nil
		}
	}
	return v
}

func str(v any, path string) string {
	s, _ := at(v, path).(string)
	return s
}

func num(v any, path string) int64 {
	f, _ := at(v, path).(float64)
	return int64(f)
}

func hasResult(tn turn) bool {
	_, ok := tn.Content.([]any)
	return ok
}

var apis = map[string]api{
	"anthropic": {
		path: "/v1/messages",
		request: func(turns []turn) object {
			return object{"model": "m", "stream": true, "messages": turns}
		},
		read: func(h *answer, e object) {
			h.Text += str(e, "delta.text")
			h.Thinking += str(e, "delta.thinking")
			if n := str(e, "content_block.name"); n != "" {
				h.Calls = append(h.Calls, n+" ")
			}
			if p := str(e, "delta.partial_json"); p != "" {
				h.Calls[len(h.Calls)-1] += p
			}
			h.Stop += str(e, "delta.stop_reason")
			h.Error += str(e, "error.type")
			if e["type"] == "message_delta" {
				h.In, h.Out = num(e, "usage.input_tokens"), num(e, "usage.output_tokens")
			}
		},
		stops:   map[string]string{"end_turn": "end_turn", "tool_use": "tool_use", "max_tokens": "max_tokens"},
		failure: "error.type",
	},
	"responses": {
		path: "/v1/responses",
		request: func(turns []turn) object {
			items := []object{{"type": "message", "role": "developer", "content": []object{{"type": "input_text", "text": "be good"}}}}
			for _, tn := range turns {
				switch {
				case hasResult(tn):
					items = append(items, object{"type": "function_call_output", "call_id": "c", "output": "<<play hello>>"})
				case tn.Role == "assistant": // text and calls
					items = append(items,
						object{"type": "reasoning", "summary": []any{}},
						object{"type": "message", "role": "assistant", "content": []object{{"type": "output_text", "text": tn.Content}}},
						object{"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"})
				default:
					items = append(items, object{"type": "message", "role": "user", "content": []object{{"type": "input_text", "text": tn.Content}}})
				}
			}
			return object{"model": "m", "stream": true, "input": items}
		},
		read: func(h *answer, e object) {
			switch e["type"] {
			case "response.output_text.delta":
				h.Text += str(e, "delta")
			case "response.reasoning_summary_text.delta":
				h.Thinking += str(e, "delta")
			case "response.output_item.done":
				if n := str(e, "item.name"); n != "" {
					h.Calls = append(h.Calls, n+" "+str(e, "item.arguments")+str(e, "item.input"))
				}
			case "response.completed", "response.incomplete":
				h.Stop = str(e, "response.status") + str(e, "response.incomplete_details.reason")
				h.In, h.Out = num(e, "response.usage.input_tokens"), num(e, "response.usage.output_tokens")
			case "response.failed":
				h.Error = str(e, "response.error.code")
			case "error":
				h.Error = str(e, "code")
			}
		},
		stops:   map[string]string{"end_turn": "completed", "tool_use": "completed", "max_tokens": "incompletemax_output_tokens"},
		failure: "error.code",
	},
	"chat": {
		path: "/v1/chat/completions",
		request: func(turns []turn) object {
			msgs := []object{{"role": "system", "content": "be good"}}
			for _, tn := range turns {
				switch {
				case hasResult(tn):
					msgs = append(msgs, object{"role": "tool", "tool_call_id": "c", "content": "<<play hello>>"})
				case tn.Role == "assistant": // in two messages, as some agents have it
					msgs = append(msgs, object{"role": "assistant", "content": tn.Content},
						object{"role": "assistant", "content": nil, "tool_calls": []any{}})
				default:
					msgs = append(msgs, object{"role": "user", "content": []object{{"type": "text", "text": tn.Content}}})
				}
			}
			return object{"model": "m", "stream": true, "stream_options": object{"include_usage": true}, "messages": msgs}
		},
		read: func(h *answer, e object) {
			h.Text += str(e, "choices.0.delta.content")
			h.Thinking += str(e, "choices.0.delta.reasoning_content")
			if n := str(e, "choices.0.delta.tool_calls.0.function.name"); n != "" {
				h.Calls = append(h.Calls, n+" ")
			}
			if a := str(e, "choices.0.delta.tool_calls.0.function.arguments"); a != "" {
				h.Calls[num(e, "choices.0.delta.tool_calls.0.index")] += a
			}
			h.Stop += str(e, "choices.0.finish_reason")
			h.Error += str(e, "error.code")
			h.In, h.Out = max(h.In, num(e, "usage.prompt_tokens")), max(h.Out, num(e, "usage.completion_tokens"))
		},
		stops:   map[string]string{"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"},
		failure: "error.code",
	},
	"gemini": {
		path: "/v1beta/models/m:streamGenerateContent?alt=sse",
		request: func(turns []turn) object {
			var contents []object
			for _, tn := range turns {
				switch {
				case hasResult(tn):
					contents = append(contents, object{"role": "user", "parts": []object{{"functionResponse": object{"name": "f", "response": object{"output": "<<play hello>>"}}}}})
				case tn.Role == "assistant":
					contents = append(contents, object{"role": "model", "parts": []object{{"text": tn.Content}, {"functionCall": object{"name": "f"}}}})
				default:
					contents = append(contents, object{"role": "user", "parts": []object{{"text": "<context>"}, {"text": tn.Content}}})
				}
			}
			return object{"contents": contents, "systemInstruction": object{"parts": []object{{"text": "be good"}}}}
		},
		read: func(h *answer, e object) {
			part := at(e, "candidates.0.content.parts.0")
			if at(part, "thought") == true {
				h.Thinking += str(part, "text")
			} else {
				h.Text += str(part, "text")
			}
			if n := str(part, "functionCall.name"); n != "" {
				args, _ := json.Marshal(at(part, "functionCall.args"))
				h.Calls = append(h.Calls, n+" "+string(args))
			}
			h.Stop += str(e, "candidates.0.finishReason")
			h.Error += str(e, "error.status")
			h.In = num(e, "usageMetadata.promptTokenCount")
			h.Out = num(e, "usageMetadata.candidatesTokenCount") + num(e, "usageMetadata.thoughtsTokenCount")
		},
		stops:   map[string]string{"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS"},
		failure: "error.status",
	},
}

// each runs a test for every API, each with a new server.
func each(t *testing.T, cfg fakemodel.Config, test func(t *testing.T, s *fakemodel.Server, a api)) {
	for name, a := range apis {
		t.Run(name, func(t *testing.T) { test(t, start(t, cfg), a) })
	}
}

func send(t *testing.T, s *fakemodel.Server, path string, body any) *http.Response {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL()+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// ask sends a conversation and returns the model's answer.
func (a api) ask(t *testing.T, s *fakemodel.Server, turns ...turn) (answer, error) {
	t.Helper()
	resp := send(t, s, a.path, a.request(turns))
	if resp.StatusCode != http.StatusOK {
		return answer{}, fmt.Errorf("status %d", resp.StatusCode)
	}
	return a.listen(resp)
}

func (a api) listen(resp *http.Response) (h answer, err error) {
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var e object
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return h, err
		}
		a.read(&h, e)
	}
	return h, sc.Err()
}

func play(steps ...fakemodel.Step) turn { return user(fakemodel.Scenario{Steps: steps}.Prompt("go")) }

func TestEveryAPIGivesTheSameAnswer(t *testing.T) {
	each(t, fakemodel.Config{}, func(t *testing.T, s *fakemodel.Server, a api) {
		got, err := a.ask(t, s, play(fakemodel.Step{
			Text: "Two at once. ", Chunk: 3,
			Usage: map[string]int64{"input_tokens": 100, "output_tokens": 20},
			Blocks: []fakemodel.Block{
				{Type: "thinking", Text: "hmm, well"},
				{Type: "text", Text: "grüß ", Repeat: 2},
				fakemodel.Call("one", object{"a": 1}),
				fakemodel.Call("two", object{"b": "x"}),
			},
		}))
		if err != nil {
			t.Fatal(err)
		}
		want := answer{
			Text: "Two at once. grüß grüß ", Thinking: "hmm, well", Calls: []string{`one {"a":1}`, `two {"b":"x"}`},
			Stop: a.stops["tool_use"], In: 100, Out: 20,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestEveryAPIFollowsTheConversation(t *testing.T) {
	two := map[string]fakemodel.Scenario{"two": {Steps: []fakemodel.Step{{Text: "first"}, {Text: "second"}}}}
	assistant := func(s string) turn { return turn{"assistant", s} }
	tests := map[string]struct {
		turns []turn
		want  string
	}{
		"first step":                                   {[]turn{user("<<play two>>")}, "first"},
		"a tool result has no directive":               {[]turn{user("<<play two>>"), assistant("first"), result("c")}, "second"},
		"two results":                                  {[]turn{user("<<play two>>"), assistant("first"), result("c"), result("d")}, "second"},
		"past the last step":                           {[]turn{user("<<play two>>"), assistant("a"), result("c"), assistant("b"), result("c")}, "ok (no more steps)"},
		"the last directive counts":                    {[]turn{user("<<play two>>"), assistant("a"), user("<<play hello>>")}, "Hello from the fake model."},
		"a message without a directive does not count": {[]turn{user("<<play two>>"), assistant("a"), user("and then?")}, "second"},
		"no directive":                                 {[]turn{user("--help")}, "ok"},
	}
	each(t, fakemodel.Config{Scenarios: two}, func(t *testing.T, s *fakemodel.Server, a api) {
		for name, tt := range tests {
			if got, err := a.ask(t, s, tt.turns...); err != nil || got.Text != tt.want {
				t.Errorf("%s: got %q, %v; want %q", name, got.Text, err, tt.want)
			}
		}
	})
}

func TestEveryAPIPlaysUnpromptedSteps(t *testing.T) {
	assistant := func(s string) turn { return turn{"assistant", s} }
	each(t, fakemodel.Config{}, func(t *testing.T, s *fakemodel.Server, a api) {
		s.Unprompted("what to remember", fakemodel.Step{Text: "first"}, fakemodel.Step{Text: "second"})
		for want, turns := range map[string][]turn{
			"first":                      {user("<<play hello>>"), assistant("a"), user("Say what to remember.")},
			"second":                     {user("<<play hello>>"), assistant("a"), user("Say what to remember."), assistant("first"), result("c")},
			"Hello from the fake model.": {user("<<play hello>>")},
		} {
			if got, err := a.ask(t, s, turns...); err != nil || got.Text != want {
				t.Errorf("got %q, %v; want %q", got.Text, err, want)
			}
		}
	})
}

func TestEveryAPIAppliesFaultsToAStream(t *testing.T) {
	tests := map[string]struct {
		fault   fakemodel.Fault
		text    string
		stop    string
		failed  bool // the stream contains an error event
		wantErr bool
	}{
		"malformed":   {fakemodel.Fault{Kind: fakemodel.Malformed, After: 1}, "ab", "", false, true},
		"truncate":    {fakemodel.Fault{Kind: fakemodel.Truncate, After: 1}, "ab", "", false, true},
		"error event": {fakemodel.Fault{Kind: fakemodel.ErrorEvent, After: 1, Type: "too_bad"}, "ab", "", true, false},
		"failed":      {fakemodel.Fault{Kind: fakemodel.Failed, Type: "too_bad"}, "", "", true, false},
		"no stop":     {fakemodel.Fault{Kind: fakemodel.NoStop, After: 2}, "abcd", "", false, false},
		"incomplete":  {fakemodel.Fault{Kind: fakemodel.Incomplete, After: 1}, "ab", "max_tokens", false, false},
	}
	each(t, fakemodel.Config{}, func(t *testing.T, s *fakemodel.Server, a api) {
		for name, tt := range tests {
			tt.fault.Times = 1
			prompt := play(fakemodel.Step{Chunk: 2, Text: "abcd", Faults: []fakemodel.Fault{tt.fault}})
			got, err := a.ask(t, s, prompt)
			if (err != nil) != tt.wantErr || got.Text != tt.text || got.Stop != a.stops[tt.stop] || (got.Error == "too_bad") != tt.failed {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			if again, err := a.ask(t, s, prompt); err != nil || again.Text != "abcd" || again.Stop != a.stops["end_turn"] {
				t.Errorf("%s: the second attempt is %+v, %v", name, again, err)
			}
		}
	})
}

func TestEveryAPIFailsTheGivenNumberOfTimes(t *testing.T) {
	each(t, fakemodel.Config{}, func(t *testing.T, s *fakemodel.Server, a api) {
		body := a.request([]turn{play(fakemodel.Step{Text: "at last", Fail: &fakemodel.Failure{
			Status: 429, Type: "too_much", Message: "Slow down.", Headers: fakemodel.Headers{"Retry-After": "7"}, Times: 2,
		}})})
		for _, want := range []int{429, 429, 200} {
			resp := send(t, s, a.path, body)
			if resp.StatusCode != want {
				t.Fatalf("status %d, want %d", resp.StatusCode, want)
			}
			if want == 200 {
				continue
			}
			var e object
			if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
				t.Fatal(err)
			}
			if str(e, a.failure) != "too_much" || str(e, "error.message") != "Slow down." || resp.Header.Get("Retry-After") != "7" {
				t.Errorf("%v, %v", e, resp.Header)
			}
		}
	})
}

func TestEveryAPIWaitsAtGates(t *testing.T) {
	each(t, fakemodel.Config{}, func(t *testing.T, s *fakemodel.Server, a api) {
		go func() {
			for _, name := range []string{"headers", "one"} {
				<-s.Gate(name).Reached()
				s.Gate(name).Open()
			}
		}()
		got, err := a.ask(t, s, play(fakemodel.Step{Chunk: 1, Text: "abc", Hold: "headers", Faults: []fakemodel.Fault{
			{Kind: fakemodel.Stall, After: 1, Gate: "one"},
		}}))
		if err != nil || got.Text != "abc" || got.Stop != a.stops["end_turn"] {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestEveryAPIRejectsBlocksThatItCannotRepresent(t *testing.T) {
	each(t, fakemodel.Config{}, func(t *testing.T, s *fakemodel.Server, a api) {
		for _, text := range []string{"<<play nobody>>", `<<play {"steps":[{"blocks":[{"type":"audio"}]}]}>>`} {
			if _, err := a.ask(t, s, user(text)); err == nil || err.Error() != "status 400" {
				t.Errorf("%s: %v, want status 400", text, err)
			}
		}
	})
	for _, name := range []string{"anthropic", "chat", "gemini"} {
		prompt := play(fakemodel.Step{Blocks: []fakemodel.Block{{Type: "web_search", Text: "weather"}}})
		if _, err := apis[name].ask(t, start(t, fakemodel.Config{}), prompt); err == nil || err.Error() != "status 400" {
			t.Errorf("%s: web search: %v, want status 400", name, err)
		}
	}
	prompt := play(fakemodel.Step{Blocks: []fakemodel.Block{{Type: "tool_use", Name: "f", RawInput: `{"a":`}}})
	if _, err := apis["gemini"].ask(t, start(t, fakemodel.Config{}), prompt); err == nil {
		t.Error("gemini: arguments that are not JSON were accepted")
	}
}
