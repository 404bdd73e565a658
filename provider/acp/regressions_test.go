package acp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// A request for form values outside of a turn cannot be shown to a user. It is
// answered with the result for a cancelled form.
func TestValuesAskedForBesideATurn(t *testing.T) {
	_, due := run(t, sayHello, hello, sayNew, opened1,
		out(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"sessionId":"s1","mode":"form","message":"m","requestedSchema":{}}}`))
	if want := []string{`{"jsonrpc":"2.0","id":7,"result":{"action":"cancel"}}`}; !slices.Equal(due, want) {
		t.Errorf("%q, want %q", due, want)
	}
}

// An approval of a plan offers no option that would bypass permissions, because
// the options of the session do not allow bypass.
func TestPlansDoNotBypass(t *testing.T) {
	evs, _ := runAs(t, known(t, "claude-agent-acp"), withBegun(
		out(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c","kind":"switch_mode","title":"Ready?","rawInput":{"plan":"p"}},"options":[`+
			`{"optionId":"exit-plan-auto","kind":"allow_always","name":"Yes, and use auto mode"},{"optionId":"exit-plan-clear-auto","kind":"allow_always","name":"Yes, clear context"},`+
			`{"optionId":"exit-plan-bypass","kind":"allow_always","name":"Yes, and bypass permissions"},{"optionId":"auto","kind":"allow_always","name":"Yes, and use auto mode"},{"optionId":"bypassPermissions","kind":"allow_always","name":"Yes, and bypass"},`+
			`{"optionId":"default","kind":"allow_once","name":"Yes"},{"optionId":"plan","kind":"reject_once","name":"No"}]}}`))...)
	asked := bodies[event.ApprovalRequested](evs)
	if len(asked) != 1 {
		t.Fatalf("%d questions", len(asked))
	}
	var labels []string
	for _, c := range asked[0].Approval.Choices {
		labels = append(labels, c.Label)
	}
	if want := []string{"Yes", "No", "Deny and stop"}; !slices.Equal(labels, want) {
		t.Errorf("choices: %q, want %q", labels, want)
	}
}

// ready returns a conn without a process, for an agent that offers options.
func ready(t *testing.T, a Agent, options string) *conn {
	t.Helper()
	c := &conn{tr: newTranslator(a)}
	for _, l := range []runnel.Line{sayHello, hello, sayNew, out(`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1","configOptions":` + options + `}}`)} {
		agentconn.Feed(c.tr, l)
	}
	return c
}

// If the name of an option means that the agent does not ask, the option can be
// switched on only if bypass is allowed. The names of its values do not matter.
func TestOptionsThatBypassByTheirName(t *testing.T) {
	c := ready(t, Agent{Name: "mine"}, `[{"id":"yolo","name":"Y","type":"boolean","currentValue":false},`+
		`{"id":"skip-permissions","name":"S","type":"select","currentValue":"off","options":[{"value":"off","name":"Off"},{"value":"on","name":"On"}]}]`)
	for _, s := range []setting{{"yolo", "true"}, {"skip-permissions", "on"}} {
		if _, _, err := c.tr.session.change(settingRequest{fieldConfig, s}, false); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%v: %v", s, err)
		}
		if method, _, err := c.tr.session.change(settingRequest{fieldConfig, s}, true); err != nil || method == "" {
			t.Errorf("%v, where it is allowed: %v", s, err)
		}
	}
	for _, s := range []setting{{"yolo", "false"}, {"skip-permissions", "off"}} {
		if _, _, err := c.tr.session.change(settingRequest{fieldConfig, s}, false); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}

// If an agent is in a mode in which it does not ask, it gets a prompt only if
// bypass is allowed. The agent may start in such a mode, or change to it by
// itself.
func TestNoPromptWhereNobodyIsAsked(t *testing.T) {
	mode := func(value string) string {
		return `[{"id":"mode","name":"Mode","category":"mode","type":"select","currentValue":"` + value + `","options":[{"value":"ask","name":"Ask"},{"value":"yolo","name":"Y"}]}]`
	}
	for name, c := range map[string]*conn{
		"begun so": ready(t, Agent{Name: "mine"}, mode("yolo")),
		"gone so": func() *conn {
			c := ready(t, Agent{Name: "mine"}, mode("ask"))
			if err := c.mayPrompt(); err != nil {
				t.Error(err)
			}
			evs, _ := agentconn.Feed(c.tr, upd("config_option_update", `"configOptions":`+mode("yolo")))
			if len(bodies[event.Notice](evs)) != 1 {
				t.Error("nobody is told")
			}
			return c
		}(),
		"gone so in words of its own": func() *conn {
			c := ready(t, known(t, "claude-agent-acp"), strings.ReplaceAll(mode("ask"), "yolo", "auto"))
			agentconn.Feed(c.tr, upd("current_mode_update", `"currentModeId":"auto"`))
			return c
		}(),
	} {
		if err := c.mayPrompt(); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
		c.bypass = true
		if err := c.mayPrompt(); err != nil {
			t.Errorf("%s, where it is allowed: %v", name, err)
		}
	}
}

// A prompt ends a running turn that no prompt started. The events of that end
// are emitted with the agent's next line, because a session does not receive
// events that a sent line causes.
func TestUnaskedTurnEndsForTheSession(t *testing.T) {
	c := &conn{tr: newTranslator(Agent{Name: "mine", Version: 2})}
	for _, l := range []runnel.Line{
		in(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2}}`),
		out(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}`), sayNew, opened1, upd("state_update", `"state":"running"`),
		chunkOf("by itself"),
	} {
		agentconn.Feed(c.tr, l)
	}
	unasked := c.tr.turns.now.id
	for _, ev := range c.tr.Sent(sayGo.Text, fixtureStart) {
		if ev.Turn == unasked {
			t.Errorf("told where nobody hears it: %s", event.Type(ev.Body))
		}
	}
	evs, _ := c.tr.Printed(chunkOf("answer").Text, fixtureStart)
	if len(evs) == 0 || !slices.ContainsFunc(evs, func(ev event.Event) bool { return ev.Turn == unasked && event.Ends(ev.Body) }) {
		t.Errorf("the turn does not end: %+v", evs)
	}
	if last := evs[len(evs)-1]; last.Turn != testTurn {
		t.Errorf("the last is of turn %q", last.Turn)
	}
}

// A call that has ended keeps none of its content in memory.
func TestCallsThatAreOverAreSmall(t *testing.T) {
	tr := newTranslator(Agent{Name: "mine"})
	text, _ := json.Marshal(strings.Repeat("x", 1<<16))
	block := `"content":[{"type":"content","content":{"type":"text","text":` + string(text) + `}}]`
	for _, l := range withBegun(
		upd("tool_call", `"toolCallId":"c","title":"t","kind":"execute","status":"in_progress","rawInput":{"a":1}`),
		upd("tool_call_update", `"toolCallId":"c","status":"completed",`+block),
		upd("tool_call_update", `"toolCallId":"c","status":"completed",`+block),
	) {
		agentconn.Feed(tr, l)
	}
	if c := tr.turns.now.calls.byID["c"]; len(c.content)+len(c.rawOutput)+len(c.output.Streamed()) > 0 {
		t.Errorf("it keeps %d pieces of content", len(c.content))
	}
}

// Older releases of codex-acp send no message ids and no usage; their turns
// complete. In newer releases, a last message without an id is the text of a
// failure, unless it answers one of the agent's own commands.
func TestTurnWithoutUsageOfAnOlderCodexACPIsCompleted(t *testing.T) {
	named := upd("agent_message_chunk", `"messageId":"m1","content":{"type":"text","text":"Named."}`)
	commands := upd("available_commands_update", `"availableCommands":[{"name":"status","description":"s"}]`)
	prompt := func(id, text string) runnel.Line {
		return in(`{"jsonrpc":"2.0","id":"prompt:` + id + `","method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"` + text + `"}]}}`)
	}
	const second = "00000000-0000-4000-8000-0000000000b2"
	end := func(id string) runnel.Line {
		return out(`{"jsonrpc":"2.0","id":"prompt:` + id + `","result":{"stopReason":"end_turn"}}`)
	}
	for name, c := range map[string]struct {
		lines []runnel.Line
		fails bool
	}{
		"no message has an id": {withBegun(chunkOf("Done."), end(testTurn)), false},
		"the others have ids":  {withBegun(named, end(testTurn), prompt(second, "go"), chunkOf("unexpected status 400"), end(second)), true},
		"a command's answer":   {withBegun(commands, named, end(testTurn), prompt(second, "/status"), chunkOf("All well."), end(second)), false},
	} {
		evs, _ := runAs(t, known(t, "codex-acp"), c.lines...)
		_, failed := evs[len(evs)-1].Body.(event.ResponseError)
		if failed != c.fails {
			t.Errorf("%s: it ends as %#v", name, evs[len(evs)-1].Body)
		}
	}
}

// opencode sends the old messages of a conversation again before it responds to
// the request to fork the conversation.
func TestAnswersOfACopiedConversationAreNotSaidAgain(t *testing.T) {
	evs, _ := runAs(t, known(t, "opencode"), sayHello, hello,
		in(`{"jsonrpc":"2.0","id":2,"method":"session/fork","params":{"cwd":"/p","sessionId":"s0","mcpServers":[]}}`),
		upd("user_message_chunk", `"messageId":"m0","content":{"type":"text","text":"Old question."}`),
		upd("agent_message_chunk", `"messageId":"m1","content":{"type":"text","text":"Old answer."}`),
		opened1, upd("available_commands_update", `"availableCommands":[]`))
	if n := bodies[event.Notice](evs); len(n) != 0 {
		t.Errorf("notices: %+v", n)
	}
}

// The error for an invalid setting names the option that the client set, its
// value, and the values that the agent offers.
func TestErrorsNameTheOptionThatTheClientGave(t *testing.T) {
	tr := newTranslator(Agent{Name: "unknown"})
	opened := out(`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1","configOptions":[{"id":"m","name":"Model","category":"model","type":"select","currentValue":"one","options":[{"value":"one","name":"One"},{"value":"two","name":"Two"}]}]}}`)
	for _, l := range []runnel.Line{sayHello, hello, sayNew, opened} {
		agentconn.Feed(tr, l)
	}
	for _, c := range []struct {
		set  runnel.Settings
		want string
	}{
		{runnel.Settings{Model: "three"}, `model: unknown value "three"; want one or two`},
		{runnel.Settings{ReasoningEffort: "banana"}, `reasoningEffort: unknown does not offer this setting in this conversation; leave it out`},
		{runnel.Settings{Config: runnel.Values{"m": "three"}}, `config.m: unknown value "three"; want one or two`},
		{runnel.Settings{Config: runnel.Values{"nope": "1"}}, `config: unknown has no setting "nope"; it has m`},
	} {
		var err error
		for _, w := range settingRequests(nil, c.set) {
			_, _, err = tr.session.change(w, false)
		}
		if err == nil || err.Error() != "INVALID_REQUEST: "+c.want {
			t.Errorf("%+v: got %v, want %s", c.set, err, c.want)
		}
	}
}

// The request to resume a conversation fails with SessionNotFound if the agent
// does not have the conversation, in whichever form the agent reports that.
func TestErrorsOfUnknownConversations(t *testing.T) {
	for _, tt := range []struct {
		agent, session string
		err            jsonrpc.Error
		want           runnel.Code
	}{
		{"gemini", "x", jsonrpc.Error{Code: codeNotFound, Message: "Resource not found"}, runnel.SessionNotFound},
		{"gemini", "x", jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params"}, runnel.SessionNotFound},
		{"gemini", "x", jsonrpc.Error{Code: -32603, Message: "Internal error", Data: []byte(`{"details":"Invalid session identifier"}`)}, runnel.SessionNotFound},
		{"gemini", "x", jsonrpc.Error{Code: -32603, Message: "No previous sessions found for this project."}, runnel.SessionNotFound},
		{"opencode", "x", jsonrpc.Error{Code: -32603, Message: "OpenCode service failure"}, runnel.SessionNotFound},
		{"opencode", "", jsonrpc.Error{Code: -32603, Message: "OpenCode service failure"}, runnel.SessionCreateFailed},
		{"gemini", "x", jsonrpc.Error{Code: -32603, Message: "OpenCode service failure"}, runnel.SessionCreateFailed},
		{"gemini", "", jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params"}, runnel.SessionCreateFailed},
	} {
		a := known(t, tt.agent)
		h := handshake{p: &provider{agent: a}, c: &conn{tr: newTranslator(a)}, opening: opening{session: tt.session}}
		if got := runnel.CodeOf(h.refused(&tt.err)); got != tt.want {
			t.Errorf("%s, session %q: %+v gives %s, want %s", tt.agent, tt.session, tt.err, got, tt.want)
		}
	}
}
