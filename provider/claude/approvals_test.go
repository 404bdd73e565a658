package claude

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// askLine returns a permission request of the agent.
func askLine(request, call, input string) string {
	return `{"type":"control_request","request_id":"` + request + `","request":{"subtype":"can_use_tool","tool_name":"Bash","input":` + input + `,"tool_use_id":"` + call + `"}}`
}

// begun returns a translator with a running turn.
func begun() *translator {
	tr := newTranslator()
	tr.Sent([]byte(promptLine("go")), fixtureStart)
	tr.Printed([]byte(initLine), fixtureStart)
	return tr
}

// allow sends the agent the decision that allows an approval once.
func allow(t *testing.T, tr *translator, id string) {
	t.Helper()
	r, err := tr.approvals.answer(id, runnel.Decision{Choice: allowOnce})
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	tr.Sent(line, fixtureStart)
}

// Every list of sessions has the open questions, so their size is bounded.
func TestTooLargeQuestionsTogetherAreRefused(t *testing.T) {
	tr := begun()
	open, refused, told := 0, 0, 0
	for i := range translate.MaxOpen {
		evs, replies := tr.Printed([]byte(askLine(fmt.Sprint("q", i), fmt.Sprint("c", i), `{"command":"`+strings.Repeat("x", 100_000)+`"}`)), fixtureStart)
		open += len(bodies[event.ApprovalRequested](evs))
		refused += len(replies)
		told += len(bodies[event.Notice](evs))
	}
	if told != refused {
		t.Errorf("%d questions are refused, and %d notices say so", refused, told)
	}
	if evs, _ := tr.Printed([]byte(`{"type":"control_request","request_id":"other","request":{"subtype":"unknown"}}`), fixtureStart); len(bodies[event.Notice](evs)) > 0 {
		t.Errorf("a request that is no question: %+v", evs)
	}
	if most := translate.MaxShown/100_000 + 1; open < 2 || open > most || open+refused != translate.MaxOpen {
		t.Errorf("%d are open, %d refused", open, refused)
	}
}

func TestChangedArgumentsInvalidateAnApproval(t *testing.T) {
	tr := begun()
	evs, _ := tr.Printed([]byte(askLine("q", "c", `{"command":"ls"}`)), fixtureStart)
	a := bodies[event.ApprovalRequested](evs)[0].Approval
	if a.ArgumentsDigest != digest([]byte(`{"command":"ls"}`)) {
		t.Errorf("digest %s", a.ArgumentsDigest)
	}
	same, replies := tr.Printed([]byte(askLine("q", "c", `{"command":"ls"}`)), fixtureStart)
	if len(same)+len(replies) != 0 {
		t.Errorf("the same question again: %s %v", dump(same), replies)
	}
	evs, replies = tr.Printed([]byte(askLine("q", "c", `{"command":"rm -rf /"}`)), fixtureStart)
	if b, err := json.Marshal(replies); err != nil || !strings.Contains(string(b), `"behavior":"deny"`) || strings.Contains(string(b), "updatedInput") {
		t.Errorf("answered %s, %v", b, err)
	}
	want := event.ApprovalResolved{ApprovalID: a.ID, Choice: event.ChoiceWithdrawn, By: event.ByAgent}
	if d := cmp.Diff([]event.ApprovalResolved{want}, bodies[event.ApprovalResolved](evs)); d != "" {
		t.Error(d)
	}
	if n := bodies[event.Notice](evs); len(n) != 1 || n[0].Code != "ARGUMENTS_CHANGED" {
		t.Errorf("notices %+v", n)
	}
	if _, err := tr.approvals.answer(a.ID, runnel.Decision{Choice: allowOnce}); runnel.CodeOf(err) != runnel.ApprovalGone {
		t.Errorf("a late answer: %v", err)
	}
}

// A question with the same arguments for another tool is another question.
func TestChangedToolInvalidatesAnApproval(t *testing.T) {
	tr := begun()
	ask := askLine("q", "c", `{"command":"rm -rf /"}`)
	evs, _ := tr.Printed([]byte(strings.Replace(ask, `"Bash"`, `"Grep"`, 1)), fixtureStart)
	a := bodies[event.ApprovalRequested](evs)[0].Approval
	evs, replies := tr.Printed([]byte(ask), fixtureStart)
	if b, err := json.Marshal(replies); err != nil || !strings.Contains(string(b), `"behavior":"deny"`) {
		t.Errorf("answered %s, %v", b, err)
	}
	if r := bodies[event.ApprovalResolved](evs); len(r) != 1 || r[0].ApprovalID != a.ID {
		t.Errorf("resolved %+v", r)
	}
}

// The agent may use the request id of a resolved question again. The new
// question then needs a new approval id: the engine drops an approval with a
// known id, and the agent would wait forever for the answer.
func TestQuestionUnderTheIDOfAResolvedOneIsANewApproval(t *testing.T) {
	tr := begun()
	known := make(map[string]bool)
	for _, command := range []string{"ls", "rm", "ls"} {
		evs, _ := tr.Printed([]byte(askLine("q", "c", `{"command":"`+command+`"}`)), fixtureStart)
		a := bodies[event.ApprovalRequested](evs)[0].Approval
		if known[a.ID] {
			t.Errorf("%s: the approval has the id of a resolved one", command)
		}
		known[a.ID] = true
		allow(t, tr, a.ID)
	}
}

// The answer contains all approved arguments, so the agent runs exactly these.
func TestApprovalAnswerContainsAllArguments(t *testing.T) {
	tr := begun()
	input := `{"command":"ls","description":"List"}`
	evs, _ := tr.Printed([]byte(askLine("q", "c", input)), fixtureStart)
	r, err := tr.approvals.answer(bodies[event.ApprovalRequested](evs)[0].Approval.ID, runnel.Decision{Choice: allowOnce})
	if err != nil {
		t.Fatal(err)
	}
	if got := decodeLenient[decision](r.Response.Response); string(got.UpdatedInput) != input || got.ToolUseID != "c" {
		t.Errorf("answered %s", r.Response.Response)
	}
}

// The environment and the user's settings cannot turn approvals off. If the
// options turn them off, a notice reports it.
func TestSettingsThatSkipApprovalsAreReported(t *testing.T) {
	skip := "CLAUDE_CODE_EVEN_MORE_DANGEROUSLY_SKIP_PERMISSIONS=1"
	if env := environ([]string{skip, "CLAUDE_CODE_ENTRYPOINT=x"}, runnel.Options{}); slices.Contains(env, skip) || !slices.Contains(env, "CLAUDE_CODE_ENTRYPOINT=x") {
		t.Errorf("the agent's environment is %q", env)
	}
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Opt.Env = append(r.Opt.Env, skip, "IS_SANDBOX=1")
		settings := `{"permissions":{"defaultMode":"bypassPermissions"},"skipDangerousModePermissionPrompt":true}`
		if err := os.WriteFile(filepath.Join(r.Home.Config, "settings.json"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		_, a := r.ask("touch asked", says("ok"))
		if exists(r.File("asked")) {
			t.Fatal("the command ran before the approval")
		}
		r.Decide(a, runnel.Decision{Choice: deny})
		r.Finish("")
		if exists(r.File("asked")) {
			t.Error("the denied command ran")
		}
		// With AllowBypass, the bypass mode is reported.
		r.Conn.Close()
		r.Conn, r.Opt.AllowBypass, r.Opt.PermissionMode = nil, true, runnel.ModeBypass
		r.Play(calls(bash("touch asked", "Ask")), says("ok"))
		evs := r.Finish(deny)
		if !exists(r.File("asked")) {
			t.Errorf("the bypass mode asked for an approval\n%s", dump(evs))
		}
		if !slices.ContainsFunc(bodies[event.Notice](evs), func(n event.Notice) bool { return n.Code == "PERMISSIONS_BYPASSED" }) {
			t.Error("no notice PERMISSIONS_BYPASSED")
		}
	})
}

func TestDenyRulesHoldForSubagents(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		settings := `{"permissions":{"deny":["Bash(touch:*)"]}}`
		if err := os.WriteFile(filepath.Join(r.Home.Config, "settings.json"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		touch := func(name string) fakemodel.Step { return calls(bash("touch "+name, "Touch")) }
		r.Play(costing(touch("main"),
			calls(agent("One", false, touch("one"), calls(agent("Two", false, touch("two"), says("Two."))), says("One."))),
			calls(agent("Behind", true, touch("behind"), says("Behind."))), says("ok"), says("ended"))...)
		asked := r.Turn
		evs := r.Finish(allowOnce)
		evs = append(evs, r.Until(func(ev event.Event) bool {
			m, ok := ev.Body.(event.ItemDone)
			f, is := m.FinalItem.(event.Message)
			return ok && is && f.Content == "ended" && ev.Turn != asked
		})...)
		for _, name := range []string{"main", "one", "two", "behind"} {
			if exists(r.File(name)) {
				t.Errorf("%s ran", name)
			}
		}
		if n := len(bodies[event.ApprovalRequested](evs)); n != 0 {
			t.Errorf("%d approvals for denied calls", n)
		}
		denied := 0
		for _, it := range items(evs) {
			if f, ok := it.Final.(event.FunctionCallOutput); ok && it.Name == "Bash" && f.IsError {
				denied++
			}
		}
		if denied < 3 { // 2.1.197 does not print the messages of a subagent's subagent
			t.Errorf("%d denied calls, want 3 or more", denied)
		}
	})
}

func TestParallelApprovalsGetTheirOwnAnswers(t *testing.T) {
	for shuffle := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(shuffle, 1))
		tr := begun()
		inputs := map[string]string{} // arguments of the questions, by request id
		ids := map[string]string{}    // approval ids, by request id
		var order []string
		for i := range 8 {
			q := fmt.Sprintf("q%d", i)
			inputs[q] = fmt.Sprintf(`{"command":"touch %d"}`, i)
			order = append(order, q)
		}
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, q := range order {
			evs, _ := tr.Printed([]byte(askLine(q, "call-"+q, inputs[q])), fixtureStart)
			a := bodies[event.ApprovalRequested](evs)
			if len(a) != 1 || string(a[0].Approval.Arguments) != inputs[q] || a[0].Approval.CallID != "call-"+q {
				t.Fatalf("%d: request %s: approvals %+v", shuffle, q, a)
			}
			ids[q] = a[0].Approval.ID
		}
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, q := range order {
			choice := []string{allowOnce, deny}[rnd.IntN(2)]
			r, err := tr.approvals.answer(ids[q], runnel.Decision{Choice: choice})
			if err != nil {
				t.Fatal(err)
			}
			d := decodeLenient[decision](r.Response.Response)
			if r.Response.RequestID != q || d.ToolUseID != "call-"+q || (choice == allowOnce) != (string(d.UpdatedInput) == inputs[q]) {
				t.Fatalf("%d: %s answered by %s to %s", shuffle, q, r.Response.Response, r.Response.RequestID)
			}
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			want := []event.ApprovalResolved{{ApprovalID: ids[q], Choice: choice, By: event.ByUser}}
			if d := cmp.Diff(want, bodies[event.ApprovalResolved](tr.Sent(line, fixtureStart))); d != "" {
				t.Fatal(d)
			}
		}
		if tr.approvals.Len() != 0 {
			t.Fatalf("%d: %d are open", shuffle, tr.approvals.Len())
		}
	}
}

// The agent requests the approvals of one message one after another. It
// requests the approvals of parallel subagents at the same time.
func TestParallelSubagentsRequestApprovalsTogether(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		const n = 4
		var agents []fakemodel.Block
		for i := range n {
			agents = append(agents, agent("Agent "+itoa(i), false, calls(bash("echo ran > out"+itoa(i), "Write "+itoa(i))), says("ok")))
		}
		r.Play(costing(calls(agents...), says("done"))...)
		open := map[int]event.Approval{}
		evs := r.Until(func(ev event.Event) bool {
			if b, ok := ev.Body.(event.ApprovalRequested); ok {
				var i int
				if _, err := fmt.Sscanf(decodeLenient[toolInput](b.Approval.Arguments).Description, "Write %d", &i); err != nil {
					t.Fatal(err)
				}
				open[i] = b.Approval
			}
			return len(open) == n || event.Ends(ev.Body)
		})
		for _, i := range rand.Perm(n) { // deny half of them
			r.Decide(open[i], runnel.Decision{Choice: []string{allowOnce, deny}[i%2]})
		}
		evs = append(evs, r.Finish("")...)
		sound(t, evs)
		for i := range n {
			if ran := exists(r.File("out" + itoa(i))); ran != (i%2 == 0) {
				t.Errorf("%d ran: %v", i, ran)
			}
		}
	})
}

func TestEachCallOfOneMessageNeedsItsOwnApproval(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		var blocks []fakemodel.Block
		for i := range 8 {
			blocks = append(blocks, bash("echo ran > out"+itoa(i), "Write "+itoa(i)))
		}
		r.Play(costing(calls(blocks...), says("done"))...)
		asked := map[string]bool{}
		evs := r.Until(func(ev event.Event) bool {
			if b, ok := ev.Body.(event.ApprovalRequested); ok {
				command := decodeLenient[toolInput](b.Approval.Arguments).Command
				asked[command] = true
				choice := deny
				if strings.HasSuffix(command, "3") {
					choice = allowOnce
				}
				r.Decide(b.Approval, runnel.Decision{Choice: choice})
			}
			return event.Ends(ev.Body)
		})
		sound(t, evs)
		if len(asked) != 8 {
			t.Errorf("%d of 8 calls needed an approval", len(asked))
		}
		for i := range 8 {
			if ran := exists(r.File("out" + itoa(i))); ran != (i == 3) {
				t.Errorf("%d ran: %v", i, ran)
			}
		}
	})
}

func TestArgumentsCanBeEditedIfThereAreNoDenyRules(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		_, a := r.ask("touch asked", says("ok"))
		if !a.ArgumentsEditable {
			t.Error("the arguments cannot be changed although there are no deny rules")
		}
		r.Decide(a, runnel.Decision{Choice: allowOnce, UpdatedArguments: []byte(`{"command":"touch edited","description":"x"}`)})
		r.Finish("")
		if !exists(r.File("edited")) || exists(r.File("asked")) {
			t.Error("the changed arguments did not run")
		}
	})
}

// The agent does not check changed arguments against its deny rules. So a user
// cannot change arguments if there are deny rules.
func TestArgumentsCannotBeEditedIfThereAreDenyRules(t *testing.T) {
	edited := []byte(`{"command":"touch denied","description":"x"}`)
	eachAgent(t, func(t *testing.T, r *rig) {
		rules := `{"permissions":{"deny":["Bash(touch denied:*)"]}}`
		if err := os.WriteFile(filepath.Join(r.Home.Config, "settings.json"), []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		_, a := r.ask("touch asked", says("ok"))
		if a.ArgumentsEditable {
			t.Error("the arguments can be changed although there are deny rules")
		}
		if err := r.Conn.Decide(t.Context(), a.ID, runnel.Decision{Choice: allowOnce, UpdatedArguments: edited}); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("got %v", err)
		}
		r.Decide(a, runnel.Decision{Choice: allowOnce})
		r.Finish("")
		if exists(r.File("denied")) || !exists(r.File("asked")) {
			t.Error("the agent did not run exactly the approved command")
		}
	})
}

func TestUnknownPermissionRulesCountAsDenyRules(t *testing.T) {
	tr := newTranslator()
	for _, tt := range []struct {
		answer string
		want   bool
	}{
		{"", true},
		{`{"subtype":"error","request_id":"s","error":"no such thing"}`, true},
		{`{"subtype":"success","request_id":"s","response":{"effective":{"permissions":{"deny":["x"]}}}}`, true},
		{`{"subtype":"success","request_id":"s","response":{"effective":{}}}`, false},
	} {
		tr.Sent([]byte(`{"type":"control_request","request_id":"s","request":{"subtype":"get_settings"}}`), fixtureStart)
		if tt.answer != "" {
			tr.Printed([]byte(`{"type":"control_response","response":`+tt.answer+`}`), fixtureStart)
		}
		if tr.session.denies != tt.want {
			t.Errorf("after %q: %v", tt.answer, tr.session.denies)
		}
	}
}

// A server that takes the agent over looks for the answer to an open question
// in the log, by its approval id.
func TestQuestionThatReusesAResolvedRequestIDIsAnotherApproval(t *testing.T) {
	tr := begun()
	evs, _ := tr.Printed([]byte(askLine("q", "c", `{"command":"ls"}`)), fixtureStart)
	first := bodies[event.ApprovalRequested](evs)[0].Approval
	allow(t, tr, first.ID)
	tr.Printed([]byte(`{"type":"result","subtype":"success","is_error":false,"session_id":"s"}`), fixtureStart)
	evs, _ = tr.Printed([]byte(askLine("q", "c", `{"command":"rm -rf /"}`)), fixtureStart)
	again := bodies[event.ApprovalRequested](evs)
	if len(again) != 1 || evs[0].Turn == "" {
		t.Fatalf("asked %s", dump(evs))
	}
	if again[0].Approval.ID == first.ID {
		t.Errorf("both questions are the approval %s", first.ID)
	}
}

// A question out of turn gets a turn of its own, also if the agent repeats the
// request id of one that was resolved.
func TestRepeatedQuestionsOutOfTurnGetTurnsOfTheirOwn(t *testing.T) {
	tr := begun()
	tr.Printed([]byte(`{"type":"result","subtype":"success","is_error":false,"session_id":"s"}`), fixtureStart)
	turns, ids := make(map[string]bool), make(map[string]bool)
	for range 3 {
		evs, _ := tr.Printed([]byte(askLine("q", "c", `{"command":"ls"}`)), fixtureStart)
		asked := bodies[event.ApprovalRequested](evs)
		if len(asked) != 1 {
			t.Fatalf("asked %s", dump(evs))
		}
		i := slices.IndexFunc(evs, func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
		turn, id := evs[i].Turn, asked[0].Approval.ID
		if turns[turn] || ids[id] {
			t.Errorf("turn %s and approval %s are those of an earlier question", turn, id)
		}
		turns[turn], ids[id] = true, true
		allow(t, tr, id)
	}
}
