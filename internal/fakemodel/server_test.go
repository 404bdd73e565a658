package fakemodel_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel/internal/fakemodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg fakemodel.Config) *fakemodel.Server {
	t.Helper()
	s, err := fakemodel.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// turn is one message of a conversation that the test sends to the server.
type turn struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

func user(text string) turn { return turn{"user", text} }

func result(id string) turn {
	return turn{"user", []any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": "<<play hello>>"}}}
}

func post(t *testing.T, s *fakemodel.Server, stream bool, turns ...turn) *http.Response {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": "m", "stream": stream, "messages": turns})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL()+"/v1/messages?beta=true", strings.NewReader(string(body)))
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

// sse is one server-sent event, decoded.
type sse struct {
	Type  string
	Index int
	Delta struct{ Type, Text, Thinking, Partial_json, Stop_reason string }
	Error struct{ Type string }
}

func readSSE(r io.Reader) (evs []sse, err error) {
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		var e sse
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return evs, err
		}
		evs = append(evs, e)
	}
	return evs, sc.Err()
}

func names(evs []sse) (out []string) {
	for _, e := range evs {
		if n := len(out); n == 0 || out[n-1] != e.Type {
			out = append(out, e.Type)
		}
	}
	return out
}

func TestStreamHasAllBlocks(t *testing.T) {
	s := start(t, fakemodel.Config{})
	sc := fakemodel.Scenario{Steps: []fakemodel.Step{{Chunk: 3, Blocks: []fakemodel.Block{
		{Type: "thinking", Text: "hmm, well"},
		{Type: "redacted_thinking", Data: "eA=="},
		{Type: "text", Text: "grüß ", Repeat: 2},
		{Type: "tool_use", Name: "Bash", Input: json.RawMessage(`{"command":"ls"}`)},
		{Type: "tool_use", Name: "Bash", RawInput: `{"command":`},
	}}}}
	evs, err := readSSE(post(t, s, true, user(sc.Prompt("go"))).Body)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]string{}
	stop := ""
	for _, e := range evs {
		got[e.Index] += e.Delta.Text + e.Delta.Thinking + e.Delta.Partial_json
		stop += e.Delta.Stop_reason
	}
	want := map[int]string{0: "hmm, well", 1: "", 2: "grüß grüß ", 3: `{"command":"ls"}`, 4: `{"command":`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if stop != "tool_use" {
		t.Errorf("stop reason %q, want tool_use", stop)
	}
	if last := evs[len(evs)-1].Type; last != "message_stop" {
		t.Errorf("last event %q", last)
	}
}

func TestConversationChoosesTheStep(t *testing.T) {
	s := start(t, fakemodel.Config{Scenarios: map[string]fakemodel.Scenario{
		"two": {Steps: []fakemodel.Step{{Text: "first"}, {Text: "second"}}},
	}})
	tests := []struct {
		name  string
		turns []turn
		want  string
	}{
		{"first step", []turn{user("<<play two>>")}, "first"},
		{"a tool result has no directive", []turn{user("<<play two>>"), {"assistant", "first"}, result("x")}, "second"},
		{"past the last step", []turn{user("<<play two>>"), {"assistant", "a"}, result("x"), {"assistant", "b"}, result("y")}, "ok (no more steps)"},
		{"the last directive counts", []turn{user("<<play two>>"), {"assistant", "a"}, user("<<play hello>>")}, "Hello from the fake model."},
		{"a message without a directive does not count", []turn{user("<<play two>>"), {"assistant", "a"}, user("and then?")}, "second"},
		{"no directive", []turn{user("--help")}, "ok"},
		{"only the outer directive counts", []turn{user(fakemodel.Scenario{Steps: []fakemodel.Step{{Text: "outer <<play hello>>"}}}.Prompt(""))}, "outer <<play hello>>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var msg struct {
				Content []struct{ Text string }
			}
			if err := json.NewDecoder(post(t, s, false, tt.turns...).Body).Decode(&msg); err != nil {
				t.Fatal(err)
			}
			if len(msg.Content) != 1 || msg.Content[0].Text != tt.want {
				t.Errorf("got %+v, want %q", msg.Content, tt.want)
			}
		})
	}
}

func TestBadDirectiveIsAnError(t *testing.T) {
	s := start(t, fakemodel.Config{})
	for _, text := range []string{
		"<<play nobody>>", `<<play {"steps":[{"txt":"typo"}]}>>`, `<<play {"steps":[{"blocks":[{"type":"audio"}]}]}>>`,
		`<<play {"steps":[{"faults":[{"kind":"gremlin"}]}]}>>`, `<<play {"steps":`,
	} {
		if resp := post(t, s, true, user(text)); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", text, resp.StatusCode)
		}
	}
}

func TestFailureFailsTheGivenNumberOfTimes(t *testing.T) {
	s := start(t, fakemodel.Config{})
	sc := fakemodel.Scenario{Steps: []fakemodel.Step{{Text: "at last", Fail: &fakemodel.Failure{
		Status: 529, Headers: fakemodel.Headers{"Retry-After": "7"}, Times: 2,
	}}}}
	var got []int
	for range 3 {
		resp := post(t, s, true, user(sc.Prompt("")))
		got = append(got, resp.StatusCode)
		if resp.StatusCode != 529 {
			continue
		}
		var body struct{ Error struct{ Type string } }
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || body.Error.Type != "overloaded_error" {
			t.Errorf("error type %q (%v)", body.Error.Type, err)
		}
		if resp.Header.Get("Retry-After") != "7" {
			t.Error("no Retry-After")
		}
	}
	if d := cmp.Diff([]int{529, 529, 200}, got); d != "" {
		t.Error(d)
	}
}

func TestSilentStepAnswersAfterEmptyAnswers(t *testing.T) {
	s := start(t, fakemodel.Config{})
	sc := fakemodel.Scenario{Steps: []fakemodel.Step{{Text: "at last", EmptyAnswers: 1}}}
	var got []string
	for range 2 {
		var msg struct{ Content []struct{ Text string } }
		if err := json.NewDecoder(post(t, s, false, user(sc.Prompt(""))).Body).Decode(&msg); err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, b := range msg.Content {
			text += b.Text
		}
		got = append(got, text)
	}
	if d := cmp.Diff([]string{"", "at last"}, got); d != "" {
		t.Error(d)
	}
}

func TestFaultsBreakTheStream(t *testing.T) {
	tests := []struct {
		fault   fakemodel.Fault
		want    []string // runs of event types
		wantErr bool
	}{
		{fakemodel.Fault{Kind: fakemodel.Malformed, After: 1}, []string{"message_start", "ping", "content_block_start", "content_block_delta"}, true},
		{fakemodel.Fault{Kind: fakemodel.Truncate, After: 1}, []string{"message_start", "ping", "content_block_start", "content_block_delta"}, true},
		{fakemodel.Fault{Kind: fakemodel.ErrorEvent, After: 1}, []string{"message_start", "ping", "content_block_start", "content_block_delta", "error"}, false},
		{fakemodel.Fault{Kind: fakemodel.NoStop, After: 2}, []string{"message_start", "ping", "content_block_start", "content_block_delta", "content_block_stop"}, false},
		{fakemodel.Fault{Kind: fakemodel.NoStop}, []string{"message_start", "ping"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.fault.Kind, func(t *testing.T) {
			s := start(t, fakemodel.Config{})
			sc := fakemodel.Scenario{Steps: []fakemodel.Step{{Chunk: 2, Text: "abcd", Faults: []fakemodel.Fault{tt.fault}}}}
			evs, err := readSSE(post(t, s, true, user(sc.Prompt(""))).Body)
			if d := cmp.Diff(tt.want, names(evs)); d != "" {
				t.Error(d)
			}
			if (err != nil) != tt.wantErr {
				t.Errorf("error %v, want one: %v", err, tt.wantErr)
			}
		})
	}
}

func TestStallWaitsForItsGate(t *testing.T) {
	s := start(t, fakemodel.Config{})
	sc := fakemodel.Scenario{Steps: []fakemodel.Step{{Chunk: 1, Text: "abc", Hold: "headers", Faults: []fakemodel.Fault{
		{Kind: fakemodel.Stall, After: 1, Gate: "one"},
		{Kind: fakemodel.Stall, After: 2, Gate: "two"},
	}}}}
	go func() {
		for _, name := range []string{"headers", "one", "two"} {
			<-s.Gate(name).Reached()
			s.Gate(name).Open()
		}
	}()
	evs, err := readSSE(post(t, s, true, user(sc.Prompt(""))).Body)
	if err != nil || evs[len(evs)-1].Type != "message_stop" {
		t.Errorf("stream ended with %v, %v", names(evs), err)
	}
}

func TestCloseEndsAStalledStream(t *testing.T) {
	s := start(t, fakemodel.Config{})
	sc := fakemodel.Scenario{Steps: []fakemodel.Step{{Text: "abc", Faults: []fakemodel.Fault{{Kind: fakemodel.Stall}}}}}
	resp := post(t, s, true, user(sc.Prompt("")))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := readSSE(resp.Body); err == nil {
		t.Error("the stream ended without an error")
	}
}

func TestRequestsAreKept(t *testing.T) {
	s := start(t, fakemodel.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	found := make(chan fakemodel.Request, 1)
	go func() {
		r, err := s.Await(ctx, func(r fakemodel.Request) bool { return r.Method == "POST" })
		if err != nil {
			t.Error(err)
		}
		found <- r
	}()
	head, err := http.Head(s.URL() + "/")
	if err != nil || head.StatusCode != 200 {
		t.Fatal(head, err)
	}
	resp, err := http.Post(s.URL()+"/v1/messages/count_tokens", "application/json", strings.NewReader(`{"messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	count, _ := io.ReadAll(resp.Body)
	if string(count) != `{"input_tokens":3}` {
		t.Errorf("count_tokens: %s", count)
	}
	if r := <-found; r.N != 2 || string(r.Body) != `{"messages":[]}` || r.Path != "/v1/messages/count_tokens" {
		t.Errorf("awaited %+v", r)
	}
	if n := len(s.Requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestStartRejectsAddressesBeyondLoopback(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:0", "example.com:0"} {
		if s, err := fakemodel.Start(fakemodel.Config{Addr: addr}); err == nil {
			s.Close()
			t.Errorf("%s: Start succeeded", addr)
		}
	}
}
