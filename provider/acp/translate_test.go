package acp

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/internal/translate"
)

const testTurn = "0192f0c1-0000-7000-8000-000000000001"

// Lines of a short conversation.
var (
	sayHello = in(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
	hello    = out(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}`)
	sayNew   = in(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/p","mcpServers":[]}}`)
	opened1  = out(`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}`)
	sayGo    = in(`{"jsonrpc":"2.0","id":"prompt:` + testTurn + `","method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"go"}]}}`)
	stop     = in(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`)
	ended    = out(`{"jsonrpc":"2.0","id":"prompt:` + testTurn + `","result":{"stopReason":"end_turn"}}`)
	begun    = []runnel.Line{sayHello, hello, sayNew, opened1, sayGo}
)

func in(s string) runnel.Line {
	return runnel.Line{At: fixtureStart, Dir: runnel.DirIn, Text: []byte(s)}
}
func out(s string) runnel.Line {
	return runnel.Line{At: fixtureStart, Dir: runnel.DirOut, Text: []byte(s)}
}

// upd returns a session update. kind is its type; rest are its other members.
func upd(kind, rest string) runnel.Line {
	if rest != "" {
		rest = "," + rest
	}
	return out(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"` + kind + `"` + rest + `}}}`)
}

func chunkOf(text string) runnel.Line {
	return upd("agent_message_chunk", `"content":{"type":"text","text":"`+text+`"}`)
}

// run feeds lines to a translator for an agent without known quirks. due are
// the translator's replies.
func run(t testing.TB, lines ...runnel.Line) (evs []event.Event, due []string) {
	t.Helper()
	return runAs(t, Agent{Name: "unknown"}, lines...)
}

func runAs(t testing.TB, a Agent, lines ...runnel.Line) (evs []event.Event, due []string) {
	t.Helper()
	return feed(newTranslator(a), lines...)
}

func feed(tr *translator, lines ...runnel.Line) (evs []event.Event, due []string) {
	for _, l := range lines {
		got, replies := agentconn.Feed(tr, l)
		evs = append(evs, got...)
		for _, r := range replies {
			due = append(due, string(r.(json.RawMessage)))
			evs = append(evs, tr.Sent(r.(json.RawMessage), fixtureStart)...)
		}
	}
	return append(evs, tr.Flush()...), due
}

func withBegun(lines ...runnel.Line) []runnel.Line {
	return append(append([]runnel.Line{}, begun...), lines...)
}

// closed applies the rules of a turn as the engine does, and checks them.
func closed(t testing.TB, evs []event.Event) {
	t.Helper()
	ruled := agentrig.Ruled(t, "acp", evs)
	agentrig.Closed(t, ruled)
	for _, n := range bodies[event.Notice](ruled) {
		if n.Code == string(runnel.InvalidStreamEvent) {
			t.Errorf("an invalid event: %s", n.Message)
		}
	}
}

// TestUnknownMessagesChangeNothing sends messages, updates and members that the
// protocol does not define, and members of a wrong type.
func TestUnknownMessagesChangeNothing(t *testing.T) {
	plain, _ := run(t, withBegun(chunkOf("hi"), ended)...)
	tr := newTranslator(Agent{Name: "unknown"})
	odd, due := feed(tr, withBegun(
		upd("holodeck_update", `"content":{"type":"hologram"},"toolCallId":{"an":"object"}`),
		out(`{"jsonrpc":"2.0","method":"_vendor/news","params":[1]}`),
		out(`{"jsonrpc":"2.0","id":"x9","method":"_vendor/ask","params":{}}`),
		upd("agent_message_chunk", `"content":{"type":"text","text":"hi","annotations":{"x":1}},"_meta":{"y":[1]},"futureField":{"deep":{"er":[]}}`),
		upd("tool_call_update", `"toolCallId":17,"status":["done"],"content":"text"`),
		upd("plan", `"entries":"none"`), upd("config_option_update", `"configOptions":[17,{"id":5}]`),
		upd("available_commands_update", `"availableCommands":[null,"x"]`),
		out(`{"jsonrpc":"2.0","id":99,"result":{}}`), ended,
	)...)
	if len(due) != 1 || !strings.Contains(due[0], `"id":"x9"`) || !strings.Contains(due[0], "-32601") {
		t.Errorf("replies %q", due)
	}
	kept := odd[:0:0]
	for _, ev := range odd {
		if b, ok := ev.Body.(event.ItemDone); ok {
			if _, isPlan := b.FinalItem.(event.Plan); isPlan {
				continue
			}
		}
		if b, ok := ev.Body.(event.ItemStart); !ok || b.ItemType != event.TypePlan {
			kept = append(kept, ev)
		}
	}
	closed(t, odd)
	feed(tr, out(`{"jsonrpc":`))
	if messages, lines := tr.Skipped(); messages != 5 || lines != 1 { // the four notifications and the request
		t.Errorf("%d messages and %d lines were skipped", messages, lines)
	}
	text := func(evs []event.Event) (s []string) {
		for _, b := range bodies[event.ItemDone](evs) {
			if m, ok := b.FinalItem.(event.Message); ok {
				s = append(s, m.Content)
			}
		}
		return s
	}
	if d := cmp.Diff(text(plain), text(kept)); d != "" {
		t.Error(d)
	}
}

func TestUndecodableLinesBecomeNotices(t *testing.T) {
	secret := "sk-ant-canary"
	for _, junk := range []string{
		"not json " + secret, `{"jsonrpc":"2.0","method":` + secret, "\x1b[31m" + secret, `"` + secret + `"`, "[1,2]", "17",
		"\xff\xfe{\x00}\x00" + secret, strings.Repeat("[", 100000),
	} {
		evs, _ := run(t, withBegun(chunkOf("h"), out(junk), chunkOf("i"), ended)...)
		sound(t, evs)
		if strings.Contains(dump(evs), secret) {
			t.Errorf("%q: the line is shown", junk)
		}
		if n := bodies[event.Notice](evs); len(n) != 1 || n[0].Code != "UNDECODABLE_LINE" {
			t.Errorf("%.40q: notices %+v", junk, n)
		}
		if !strings.Contains(dump(evs), `"content":"hi"`) {
			t.Errorf("%.40q: %s", junk, dump(evs))
		}
	}
}

func TestInvalidIDsOfAnAgentAreContained(t *testing.T) {
	tool := func(status string) runnel.Line {
		return upd("tool_call_update", `"toolCallId":"c1","status":"`+status+`","rawInput":{"a":1},"content":[{"type":"content","content":{"type":"text","text":"o"}}]`)
	}
	evs, _ := run(t, withBegun(
		tool("completed"), tool("completed"), tool("failed"), tool("in_progress"),
		upd("tool_call", `"toolCallId":"c1","title":"again","status":"pending"`),
		upd("tool_call_update", `"toolCallId":"`+strings.Repeat("z", 100000)+`","status":"completed"`),
		upd("tool_call_update", `"status":"completed"`),
		chunkOf("said"), ended, ended, chunkOf("late"), tool("completed"),
		out(`{"jsonrpc":"2.0","id":"prompt:nobody","result":{"stopReason":"end_turn"}}`),
	)...)
	closed(t, evs)
	sound(t, evs)
	calls := 0
	for _, b := range bodies[event.ItemDone](evs) {
		if f, ok := b.FinalItem.(event.FunctionCall); ok && f.CallID == "c1" {
			calls++
		}
	}
	if calls != 1 || len(bodies[event.ResponseDone](evs)) != 1 || len(dump(evs)) > 300000 {
		t.Errorf("%d calls, %d ends, %d bytes", calls, len(bodies[event.ResponseDone](evs)), len(dump(evs)))
	}
}

// TestCancelledWhateverTheAnswer checks that a turn that Runnel cancelled ends
// as cancelled, even if the agent responds with success or an error.
func TestCancelledWhateverTheAnswer(t *testing.T) {
	for _, answer := range []string{
		`"result":{"stopReason":"cancelled"}`, `"result":{"stopReason":"end_turn"}`, `"result":{}`, `"error":{"code":-32603,"message":"Aborted"}`, `"error":"x"`,
	} {
		evs, _ := run(t, withBegun(stop, out(`{"jsonrpc":"2.0","id":"prompt:`+testTurn+`",`+answer+`}`))...)
		done := bodies[event.ResponseDone](evs)
		if len(done) != 1 || done[0].Status != event.StatusCancelled {
			t.Errorf("%s: %s", answer, dump(evs))
		}
	}
}

var asksC1 = out(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c1","title":"touch x","kind":"execute","rawInput":{"command":"touch x"}},"options":[{"optionId":"a","name":"Yes","kind":"allow_once"},{"optionId":"A","name":"Always","kind":"allow_always"},{"optionId":"y","name":"bypassPermissions","kind":"allow_always"},{"optionId":"yolo","name":"All","kind":"allow_once"},{"optionId":"r","name":"No","kind":"reject_once"},{"optionId":"q","name":"?","kind":"maybe"}]}}`)

func TestQuestions(t *testing.T) {
	tr := newTranslator(Agent{Name: "unknown"})
	for _, l := range withBegun(asksC1) {
		agentconn.Feed(tr, l)
	}
	if len(tr.Waiting()) != 1 {
		t.Fatal(tr.Waiting())
	}
	id := tr.Waiting()[0]
	var got []string
	for _, c := range []string{translate.AllowOnce, translate.AllowAlways, "allow_always_2", translate.Deny, translate.DenyStop} {
		m, stop, err := tr.turns.answer(id, runnel.Decision{Choice: c})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %v", c, m.Result, stop))
	}
	want := []string{
		`allow_once {"outcome":{"outcome":"selected","optionId":"a"}} false`, `allow_always {"outcome":{"outcome":"selected","optionId":"A"}} false`,
		`allow_always_2 {"outcome":{"outcome":"selected","optionId":"y"}} false`,
		`deny {"outcome":{"outcome":"selected","optionId":"r"}} false`, `deny_stop {"outcome":{"outcome":"cancelled"}} true`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, d := range []runnel.Decision{{Choice: "yolo"}, {Choice: "q"}, {}, {Choice: translate.AllowOnce, UpdatedArguments: []byte(`{}`)}} {
		if _, _, err := tr.turns.answer(id, d); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%+v: %v", d, err)
		}
	}
	if _, _, err := tr.turns.answer("another", runnel.Decision{Choice: translate.AllowOnce}); runnel.CodeOf(err) != runnel.ApprovalGone {
		t.Errorf("unknown approval: %v", err)
	}
}

// TestQuestionsEnd checks questions that the agent withdraws, changes, or
// leaves open at the end of its turn. The approval is resolved, and the agent
// gets one answer.
func TestQuestionsEnd(t *testing.T) {
	changed := out(strings.ReplaceAll(string(asksC1.Text), "touch x", "rm -rf /"))
	for name, c := range map[string]struct {
		lines []runnel.Line
		reply string
	}{
		"withdrawn": {[]runnel.Line{asksC1, out(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}`), ended}, "-32800"},
		"changed":   {[]runnel.Line{asksC1, asksC1, changed, ended}, `"outcome":"cancelled"`},
		"left":      {[]runnel.Line{asksC1, ended}, `"outcome":"cancelled"`},
	} {
		evs, due := run(t, withBegun(c.lines...)...)
		closed(t, evs)
		resolved := bodies[event.ApprovalResolved](evs)
		if len(resolved) != 1 || resolved[0].Choice != event.ChoiceWithdrawn || len(due) != 1 || !strings.Contains(due[0], c.reply) {
			t.Errorf("%s: %+v, replies %q", name, resolved, due)
		}
	}
	evs, due := run(t, sayHello, hello, sayNew, opened1, asksC1) // no turn runs
	if len(bodies[event.ApprovalRequested](evs)) != 0 || len(due) != 1 || !strings.Contains(due[0], "cancelled") {
		t.Errorf("between turns: %s, replies %q", dump(evs), due)
	}
}

func TestForms(t *testing.T) {
	ask := out(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"sessionId":"s1","mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"colour":{"type":"string","enum":["red","blue"]}}}}}`)
	tr := newTranslator(Agent{Name: "unknown"})
	var evs []event.Event
	for _, l := range withBegun(ask) {
		got, _ := agentconn.Feed(tr, l)
		evs = append(evs, got...)
	}
	a := bodies[event.ApprovalRequested](evs)
	if len(a) != 1 || a[0].Approval.Kind != event.ApprovalForm || !strings.Contains(string(a[0].Approval.Arguments), `"enum":["red","blue"]`) {
		t.Fatalf("%s", dump(evs))
	}
	id := a[0].Approval.ID
	m, _, err := tr.turns.answer(id, runnel.Decision{Choice: translate.AllowOnce, UpdatedArguments: []byte(`{"colour":"red"}`)})
	if err != nil || string(m.Result) != `{"action":"accept","content":{"colour":"red"}}` {
		t.Errorf("%s, %v", m.Result, err)
	}
	for _, bad := range []string{`[1]`, `{`, `"x"`} {
		if _, _, err := tr.turns.answer(id, runnel.Decision{Choice: translate.AllowOnce, UpdatedArguments: []byte(bad)}); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%s: %v", bad, err)
		}
	}
	evs, due := run(t, withBegun(out(strings.Replace(string(ask.Text), `"mode":"form"`, `"mode":"url","url":"javascript:alert(1)"`, 1)))...)
	if len(bodies[event.ApprovalRequested](evs)) != 0 || len(due) != 1 || !strings.Contains(due[0], `"action":"cancel"`) {
		t.Errorf("%s, replies %q", dump(evs), due)
	}
}

// TestAgentGetsNoFilesOrTerminals checks that Runnel rejects an agent's
// requests for files and terminals, for any path.
func TestAgentGetsNoFilesOrTerminals(t *testing.T) {
	for _, method := range []string{"fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/output", "terminal/kill"} {
		for _, path := range []string{"/etc/shadow", "/p/../etc/shadow", "../x", "/p/link", "/p/own"} {
			params, err := json.Marshal(map[string]string{"sessionId": "s1", "path": path, "content": "x", "command": path})
			if err != nil {
				t.Fatal(err)
			}
			evs, due := run(t, withBegun(out(`{"jsonrpc":"2.0","id":0,"method":"`+method+`","params":`+string(params)+`}`), ended)...)
			if len(due) != 1 || !strings.Contains(due[0], `"error":{"code":-32601`) || strings.Contains(dump(evs), "shadow") {
				t.Errorf("%s %s: %q\n%s", method, path, due, dump(evs))
			}
		}
	}
}

// TestInvalidConversationIDsAreRefused checks that conversation ids and
// settings from a client are rejected if they are not valid.
func TestInvalidConversationIDsAreRefused(t *testing.T) {
	p := underlying(New(Agent{Name: "unknown", Command: []string{"/nonexistent/agent"}}))
	for _, resume := range []string{"a b", "x\n{}", strings.Repeat("x", 1<<20), "ü"} {
		if _, err := p.Open(t.Context(), runnel.Options{Resume: resume}); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("resume %.20q: %v", resume, err)
		}
	}
	tr := newTranslator(Agent{Name: "unknown"})
	for _, l := range []runnel.Line{sayHello, hello, sayNew, out(`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1","models":{"currentModelId":"m","availableModels":[{"modelId":"m","name":"M"},{"modelId":"n","name":"N"}]},"modes":{"currentModeId":"ask","availableModes":[{"id":"ask"},{"id":"yolo"}]}}}`)} {
		agentconn.Feed(tr, l)
	}
	for _, s := range []setting{
		{"model", "--dangerously-skip-permissions"}, {"model", "../x"}, {"model", strings.Repeat("m", 1<<20)}, {"model", ""},
		{"nonesuch", "x"}, {"mode", "yolo"}, {"", ""},
	} {
		if _, _, err := tr.session.change(settingRequest{fieldConfig, s}, false); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%.40v: %v", s, err)
		}
	}
	method, params, err := tr.session.change(settingRequest{fieldConfig, setting{"model", "n"}}, false)
	if err != nil || method != methodSetModel || params["modelId"] != "n" {
		t.Errorf("%s %v, %v", method, params, err)
	}
	if method, _, err := tr.session.change(settingRequest{fieldConfig, setting{"mode", "yolo"}}, true); err != nil || method != methodSetMode {
		t.Errorf("allowed: %s, %v", method, err)
	}
}

// TestTurnEndsOnceWhenOutputIsCutAtAnyByte cuts recordings after every byte. A
// cut within a line leaves a line that cannot be decoded. Such a line does not
// change the turn.
func TestTurnEndsOnceWhenOutputIsCutAtAnyByte(t *testing.T) {
	cuts := 0
	eachRecording(t, func(t *testing.T, a Agent, f fixture, _ string, arc *txtar.Archive) {
		if f.name != "tool" && f.name != "approval-allowed" && f.name != "text" {
			return
		}
		tr := newTranslator(a)
		var evs []event.Event
		for l, err := range recorded(t, section(arc, "in")) {
			if err != nil {
				t.Fatal(err)
			}
			if l.Dir == runnel.DirOut && len(l.Text) < 2000 {
				cuts += recordtest.Torn(t, tr, l)
			}
			got, _ := agentconn.Feed(tr, l)
			evs = append(evs, got...)
			closed(t, evs)
		}
	})
	if cuts < 1000 {
		t.Errorf("only %d cuts", cuts)
	}
}

// TestTurnEndsOnceWhenTheAgentDiesBetweenLines ends recordings after every
// line, as if the agent had died there.
func TestTurnEndsOnceWhenTheAgentDiesBetweenLines(t *testing.T) {
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, _ string, arc *txtar.Archive) {
		for _, part := range []string{"in", "load"} {
			lines := recordtest.All(t, section(arc, part))
			for n := range lines {
				closed(t, recordtest.Events(t, New(a).(runnel.Translator), lines[:n]))
			}
		}
	})
}

// maxSeed is the maximum size of a fuzzing input made from a recording, in
// bytes.
const maxSeed = 4 << 10

func FuzzLinesOfAnAgent(f *testing.F) {
	for _, a := range agents {
		paths, err := filepath.Glob(filepath.Join("testdata", a.Name, "*.txtar"))
		if err != nil {
			f.Fatal(err)
		}
		for _, p := range paths {
			arc, err := txtar.ParseFile(p)
			if err != nil {
				f.Fatal(err)
			}
			for _, part := range []string{"in", "load"} {
				f.Add(a.Name, recordtest.Seed(f, section(arc, part), maxSeed, func(text []byte) bool { return len(text) > maxSeed/3 }))
			}
		}
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if len(data) > 1<<20 {
			t.Skip()
		}
		a := Agent{Name: name}
		if byName[name] == nil {
			a.Name = "unknown"
		}
		tr := newTranslator(a)
		var evs []event.Event
		for _, l := range recordtest.Seeded(data) {
			if l.Dir == runnel.DirIn {
				evs = append(evs, tr.Sent(l.Text, l.At)...)
				continue
			}
			got, replies := tr.Printed(l.Text, l.At)
			evs = append(evs, got...)
			for _, r := range replies {
				evs = append(evs, tr.Sent(r.(json.RawMessage), fixtureStart)...)
			}
		}
		evs = append(evs, tr.Flush()...)
		for _, ev := range evs {
			if err := ev.Validate(); err != nil {
				t.Fatalf("%v: %s", err, dump([]event.Event{ev}))
			}
		}
		closed(t, evs)
	})
}

// TestLateWords checks text that arrives after the end of a turn. More text of
// a message of that turn is dropped. A new message becomes a notice.
func TestLateWords(t *testing.T) {
	named := func(id, text string) runnel.Line {
		return upd("agent_message_chunk", `"messageId":"`+id+`","content":{"type":"text","text":"`+text+`"}`)
	}
	evs, _ := run(t, withBegun(named("m1", "on"), stop, ended, named("m1", " and on"), named("m2", "By the "), named("m2", "way."))...)
	closed(t, evs)
	var told []string
	for _, n := range bodies[event.Notice](evs) {
		told = append(told, n.Message)
	}
	if d := cmp.Diff([]string{"By the way."}, told); d != "" {
		t.Errorf("%s\n%s", d, dump(evs))
	}
}

// TestTooDeepArgumentsAreDenied sends a question whose arguments are nested
// deeper than JSON decoders accept. The question is denied at once, and the
// turn continues to its normal end.
func TestTooDeepArgumentsAreDenied(t *testing.T) {
	deep := strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000)
	evs, due := run(t, withBegun(
		out(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c1","title":"touch x","kind":"execute","rawInput":{"command":"touch x","more":`+deep+`}},"options":[{"optionId":"a","name":"Yes","kind":"allow_once"},{"optionId":"r","name":"No","kind":"reject_once"}]}}`),
		upd("tool_call_update", `"toolCallId":"c1","status":"failed","rawOutput":`+deep), ended,
	)...)
	if len(due) != 1 || !strings.Contains(due[0], `"id":0`) || !strings.Contains(due[0], `"outcome":"cancelled"`) {
		t.Errorf("replies %q", due)
	}
	if n := len(bodies[event.ApprovalRequested](evs)); n != 0 {
		t.Errorf("%d questions were asked", n)
	}
	closed(t, evs)
	if n := len(bodies[event.ResponseDone](evs)); n != 1 {
		t.Errorf("the turn ended %d times", n)
	}
}
