package acp

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

func asks(id int, call, command string) runnel.Line {
	return out(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":%q,"title":%q,"kind":"execute","rawInput":{"command":%q}},`+
		`"options":[{"optionId":"yes-%d","name":"Yes","kind":"allow_once"},{"optionId":"no-%d","name":"No","kind":"reject_once"}]}}`, id, call, command, command, id, id))
}

// Every list of sessions has the open questions, so their size is bounded.
func TestTooLargeQuestionsTogetherAreRefused(t *testing.T) {
	tr := newTranslator(Agent{Name: "unknown"})
	lines := withBegun(asks(0, "c0", "first"))
	for i := 1; i < translate.MaxOpen; i++ {
		lines = append(lines, asks(i, fmt.Sprint("c", i), strings.Repeat("x", maxAsking/2)))
	}
	open, refused, told := 0, 0, 0
	for _, l := range lines {
		evs, replies := agentconn.Feed(tr, l)
		open += len(bodies[event.ApprovalRequested](evs))
		refused += len(replies)
		told += len(bodies[event.Notice](evs))
	}
	if told != refused {
		t.Errorf("%d questions are refused, and %d notices say so", refused, told)
	}
	if most := translate.MaxShown/(maxAsking/2) + 1; open < 2 || open > most || open+refused != translate.MaxOpen {
		t.Errorf("%d are open, %d refused", open, refused)
	}
}

// TestApprovalDigestMatchesTheShownArguments checks that an approval has the
// digest of the arguments that it shows. If the agent later reports other
// arguments for the call, one notice must report the change.
func TestApprovalDigestMatchesTheShownArguments(t *testing.T) {
	update := func(input string) runnel.Line {
		return upd("tool_call_update", `"toolCallId":"c1","status":"in_progress","rawInput":`+input)
	}
	for input, reportedChange := range map[string]bool{
		`{"command":"touch x"}`: false, `{"command":"touch x","description":"more"}`: false, `{}`: false, `{"cwd":"/p"}`: false,
		`{"command":"rm -rf /"}`: true, `{"command":["touch","x"]}`: true, `{"command":null}`: true, `{"command":"touch x "}`: true,
	} {
		tr := newTranslator(Agent{Name: "unknown"})
		var evs []event.Event
		feed := func(l runnel.Line) {
			got, _ := agentconn.Feed(tr, l)
			evs = append(evs, got...)
		}
		for _, l := range withBegun(asks(0, "c1", "touch x")) {
			feed(l)
		}
		a := bodies[event.ApprovalRequested](evs)[0].Approval
		if a.ArgumentsDigest != translate.Digest(a.Arguments) || string(a.Arguments) != `{"command":"touch x"}` {
			t.Errorf("asked for %s by %s", a.Arguments, a.ArgumentsDigest)
		}
		m, _, err := tr.turns.answer(a.ID, runnel.Decision{Choice: translate.AllowOnce})
		if err != nil {
			t.Fatal(err)
		}
		line, err := encode(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, tr.Sent(line, fixtureStart)...)
		feed(update(input))
		feed(update(input))
		feed(ended)
		noticed := 0
		for _, n := range bodies[event.Notice](evs) {
			if n.Code == "ARGUMENTS_CHANGED" {
				noticed++
			}
		}
		if reportedChange != (noticed == 1) || noticed > 1 {
			t.Errorf("%s: noticed %d times\n%s", input, noticed, dump(evs))
		}
		sound(t, evs)
	}
}

// TestParallelApprovalsGetTheirOwnAnswers opens eight questions at once and
// answers them in random order. Each answer must go to its own question.
func TestParallelApprovalsGetTheirOwnAnswers(t *testing.T) {
	for range 1000 {
		tr := newTranslator(Agent{Name: "unknown"})
		for _, l := range begun {
			agentconn.Feed(tr, l)
		}
		ids := map[int]string{}
		for _, i := range rand.Perm(8) {
			evs, _ := agentconn.Feed(tr, asks(i, fmt.Sprint("c", i), fmt.Sprint("echo ", i)))
			a := bodies[event.ApprovalRequested](evs)
			if len(a) != 1 || a[0].Approval.CallID != fmt.Sprint("c", i) || !strings.Contains(string(a[0].Approval.Arguments), fmt.Sprint("echo ", i)) {
				t.Fatal(dump(evs))
			}
			ids[i] = a[0].Approval.ID
		}
		for _, i := range rand.Perm(8) {
			choice, native := translate.AllowOnce, fmt.Sprint("yes-", i)
			if i%2 == 1 {
				choice, native = translate.Deny, fmt.Sprint("no-", i)
			}
			m, stop, err := tr.turns.answer(ids[i], runnel.Decision{Choice: choice})
			if err != nil || stop {
				t.Fatal(err, stop)
			}
			line, err := encode(m, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				ID     int     `json:"id"`
				Result outcome `json:"result"`
			}
			if err := json.Unmarshal(line, &got); err != nil || got.ID != i || got.Result.Outcome.OptionID != native {
				t.Fatalf("question %d is answered with %s", i, line)
			}
			r := bodies[event.ApprovalResolved](tr.Sent(line, fixtureStart))
			if len(r) != 1 || r[0].ApprovalID != ids[i] || r[0].Choice != choice {
				t.Fatalf("%+v", r)
			}
			if _, _, err := tr.turns.answer(ids[i], runnel.Decision{Choice: translate.AllowOnce}); runnel.CodeOf(err) != runnel.ApprovalGone {
				t.Fatal(err)
			}
		}
		if open := tr.Waiting(); len(open) > 0 {
			t.Fatal(open)
		}
	}
}

// TestQuestionsAfterTheTurnAreDenied has an agent ask after the end of its
// turn. The question must be denied, and a notice must report the denial.
func TestQuestionsAfterTheTurnAreDenied(t *testing.T) {
	call := upd("tool_call", `"toolCallId":"late","title":"late","kind":"execute","status":"pending","rawInput":{"command":"touch late"}`)
	evs, due := run(t, withBegun(ended, call, asks(5, "late", "touch late"), upd("tool_call_update", `"toolCallId":"late","status":"failed"`), chunkOf("behind"))...)
	if len(due) != 1 || !strings.Contains(due[0], `"id":5`) || !strings.Contains(due[0], `"outcome":"cancelled"`) {
		t.Errorf("answered with %q", due)
	}
	if n := bodies[event.Notice](evs); len(n) == 0 || n[0].Code != "QUESTION_REFUSED" {
		t.Errorf("nobody is told: %+v", n)
	}
	if i := slices.IndexFunc(evs, func(ev event.Event) bool { return event.Ends(ev.Body) }); i < 0 || slices.ContainsFunc(evs[i+1:], func(ev event.Event) bool { return ev.Turn == testTurn }) {
		t.Errorf("the turn goes on behind its end:\n%s", dump(evs))
	}
	closed(t, evs)
	sound(t, evs)
}

// The agent may repeat a resolved question. The new question needs a new
// approval id: the engine drops an approval with a known id, and the agent
// would wait forever for the answer.
func TestQuestionThatRepeatsAResolvedOneIsANewApproval(t *testing.T) {
	tr := newTranslator(Agent{Name: "unknown"})
	for _, l := range begun {
		agentconn.Feed(tr, l)
	}
	known := make(map[string]bool)
	for range 3 {
		evs, _ := agentconn.Feed(tr, asks(7, "c", "ls"))
		a := bodies[event.ApprovalRequested](evs)[0].Approval
		if known[a.ID] {
			t.Error("the approval has the id of a resolved one")
		}
		known[a.ID] = true
		m, _, err := tr.turns.answer(a.ID, runnel.Decision{Choice: translate.AllowOnce})
		if err != nil {
			t.Fatal(err)
		}
		line, err := encode(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		tr.Sent(line, fixtureStart)
	}
}

// If an agent uses one id for an allowing and a denying option, it could
// mistake the user's denial for an approval. Neither option is offered.
func TestOptionsThatShareAnIDAcrossKindsAreNotOffered(t *testing.T) {
	tr := newTranslator(Agent{Name: "unknown"})
	for _, l := range begun {
		agentconn.Feed(tr, l)
	}
	evs, _ := agentconn.Feed(tr, out(`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c","rawInput":{"command":"ls"}},`+
		`"options":[{"optionId":"x","name":"Yes","kind":"allow_once"},{"optionId":"x","name":"No","kind":"reject_once"},`+
		`{"optionId":"y","name":"Once","kind":"allow_once"},{"optionId":"y","name":"Always","kind":"allow_always"},`+
		`{"optionId":"z","name":"Yes, too","kind":"allow_once"},{"optionId":"n","name":"No, too","kind":"reject_once"}]}}`))
	var labels []string
	for _, c := range bodies[event.ApprovalRequested](evs)[0].Approval.Choices {
		labels = append(labels, c.Label)
	}
	if want := []string{"Yes, too", "No, too", "Deny and stop"}; !slices.Equal(labels, want) {
		t.Errorf("choices %q, want %q", labels, want)
	}
}

// JSON may write a character as six.
func TestQuestionsAreCountedAsListsHaveThem(t *testing.T) {
	tr := newTranslator(Agent{Name: "unknown"})
	lines := withBegun(asks(0, "c0", "first"))
	for i := 1; i < 50; i++ {
		lines = append(lines, asks(i, fmt.Sprint("c", i), strings.Repeat("<", maxAsking/2)))
	}
	open, listed := 0, 0
	for _, l := range lines {
		evs, _ := agentconn.Feed(tr, l)
		for _, b := range bodies[event.ApprovalRequested](evs) {
			data, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			open, listed = open+1, listed+len(data)
		}
	}
	if open < 2 || listed > translate.MaxShown+6*maxAsking {
		t.Errorf("%d are open, of %d bytes in lists", open, listed)
	}
}

// opencode asks about tools of MCP servers without their arguments. People must
// not take that for a call without arguments.
func TestApprovalSaysThatArgumentsAreNotReported(t *testing.T) {
	for question, want := range map[string]string{
		`"toolCallId":"c1","title":"t_add","kind":"other"`:                            unreported,
		`"toolCallId":"c1","title":"ls","kind":"execute","rawInput":{"command":"ls"}`: "",
	} {
		tr := newTranslator(known(t, "opencode"))
		var asked []event.ApprovalRequested
		for _, l := range withBegun(out(`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{` + question + `},"options":[{"optionId":"once","name":"Yes","kind":"allow_once"}]}}`)) {
			evs, _ := agentconn.Feed(tr, l)
			asked = append(asked, bodies[event.ApprovalRequested](evs)...)
		}
		if len(asked) != 1 || asked[0].Approval.Why != want {
			t.Errorf("%s: got %+v, want the reason %q", question, asked, want)
		}
	}
}

// Lists leave out the texts of long changes, but every reader holds them.
func TestQuestionsAreCountedWithTheirChanges(t *testing.T) {
	tr := newTranslator(Agent{Name: "unknown"})
	lines := withBegun(asks(0, "c0", "first"))
	for i := 1; i < 50; i++ {
		lines = append(lines, out(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"d%d","title":"t","kind":"edit","content":[{"type":"diff","path":"/p","oldText":"a","newText":%q}]},"options":[{"optionId":"a","name":"Allow","kind":"allow_once"}]}}`, 100+i, i, strings.Repeat("x", maxFileText))))
	}
	open, held := 0, 0
	for _, l := range lines {
		evs, _ := agentconn.Feed(tr, l)
		for _, b := range bodies[event.ApprovalRequested](evs) {
			open, held = open+1, held+event.Weight(b)
		}
	}
	if open < 3 || held > translate.MaxShown+4*maxFileText {
		t.Errorf("%d are open, of %d bytes", open, held)
	}
}

// "Always allow" of GitHub Copilot for one edit also allows edits of the repository's hooks.
func TestQuestionsOfCopilotSayWhatAlwaysAllows(t *testing.T) {
	r := newRig(t, "copilot")
	r.git(r.Home.Project, "init", "-q")
	r.Play(calls(r.words().Write(r.File("one.txt"), "one\n")), said)
	asked := r.Asked()
	if !strings.Contains(asked.Why, "every other change of a file in the folder") {
		t.Errorf("why: %q", asked.Why)
	}
	r.Decide(asked, runnel.Decision{Choice: translate.AllowAlways})
	r.FinishTurn("")
	r.asks(0, r.words().Write(r.File(".git/hooks/pre-commit"), "written\n"))
	r.asks(1, r.words().Write(filepath.Join(r.Home.Dir, "outside.txt"), "written\n"))
	r.Opt.Resume = r.Conn.(*conn).tr.session.id
	r.Close()
	r.Open()
	r.asks(1, r.words().Write(r.File("two.txt"), "two\n"))
}
