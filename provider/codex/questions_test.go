package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// inTurn returns a translator in which turn "u" of thread "t" runs.
func inTurn(t *testing.T) *translator {
	t.Helper()
	tr := newTranslator()
	tr.thread = "t"
	tr.Printed([]byte(`{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}`), fixtureStart)
	return tr
}

func askFor(tr *translator, id int, command string) []event.Event {
	evs, _ := tr.Printed(fmt.Appendf(nil, `{"id":%d,"method":%q,"params":{"threadId":"t","turnId":"u","itemId":"i%d","command":%s,"cwd":"/p"}}`, id, askCommand, id, object(command)), fixtureStart)
	return evs
}

// TestChangedArgumentsInvalidateAnApproval checks that an answer to a question
// allows nothing after the agent asked a different question under the same id.
func TestChangedArgumentsInvalidateAnApproval(t *testing.T) {
	tr := inTurn(t)
	first := askFor(tr, 0, "echo good")
	a := first[0].Body.(event.ApprovalRequested).Approval
	if got := digest(a.Arguments); got != a.ArgumentsDigest || !bytes.Contains(a.Arguments, []byte("echo good")) {
		t.Errorf("digest %s of %s", got, a.Arguments)
	}
	if again := askFor(tr, 0, "echo good"); len(again) != 0 {
		t.Errorf("the repeated question emitted %s", dump(again))
	}
	line := fmt.Appendf(nil, `{"id":0,"method":%q,"params":{"threadId":"t","turnId":"u","itemId":"i0","command":"rm -rf /","cwd":"/p"}}`, askCommand)
	evs, replies := tr.Printed(line, fixtureStart)
	if len(replies) != 1 || !bytes.Contains(object(replies[0]), []byte(`"error"`)) {
		t.Errorf("the changed question was answered with %s", object(replies))
	}
	if len(bodies[event.ApprovalResolved](evs)) != 1 || len(bodies[event.Notice](evs)) != 1 {
		t.Error(dump(evs))
	}
	if _, err := tr.answer(a.ID, runnel.Decision{Choice: allowOnce}); runnel.CodeOf(err) != runnel.ApprovalGone {
		t.Errorf("the approval can still be allowed: %v", err)
	}
}

// TestParallelApprovalsGetTheirOwnAnswers checks that each answer reaches its
// own question when many questions are answered in random order.
func TestParallelApprovalsGetTheirOwnAnswers(t *testing.T) {
	for range 1000 {
		tr := inTurn(t)
		ids := map[int]string{}
		for i := range 8 {
			evs := askFor(tr, i, fmt.Sprint("echo ", i))
			ids[i] = evs[0].Body.(event.ApprovalRequested).Approval.ID
		}
		for _, i := range rand.Perm(8) {
			choice := []string{allowOnce, deny}[i%2]
			lines, err := tr.answer(ids[i], runnel.Decision{Choice: choice})
			if err != nil || len(lines) != 1 {
				t.Fatal(lines, err)
			}
			var got struct {
				ID     int
				Result struct{ Decision string }
			}
			if err := json.Unmarshal(lines[0].(json.RawMessage), &got); err != nil || got.ID != i || got.Result.Decision != []string{"accept", "decline"}[i%2] {
				t.Fatalf("question %d is answered with %s", i, lines[0])
			}
			evs := tr.Sent(lines[0].(json.RawMessage), fixtureStart)
			if b := bodies[event.ApprovalResolved](evs); len(b) != 1 || b[0].ApprovalID != ids[i] || b[0].Choice != choice {
				t.Fatalf("%+v", b)
			}
			if _, err := tr.answer(ids[i], runnel.Decision{Choice: choice}); runnel.CodeOf(err) != runnel.ApprovalGone {
				t.Fatal(err)
			}
		}
		if open := tr.Waiting(); len(open) > 0 {
			t.Fatal(open)
		}
	}
}

// TestDecideRejectsUnofferedChoices checks that Decide rejects choices and
// arguments that the approval does not offer.
func TestDecideRejectsUnofferedChoices(t *testing.T) {
	tr := inTurn(t)
	a := askFor(tr, 0, "echo good")[0].Body.(event.ApprovalRequested).Approval
	for _, d := range []runnel.Decision{
		{Choice: "nonesuch"}, {Choice: allowAlways}, {}, {Choice: allowOnce, UpdatedArguments: json.RawMessage(`{"command":"rm"}`)}, {Choice: allowOnce, UpdatedArguments: json.RawMessage(`[]`)},
	} {
		if _, err := tr.answer(a.ID, d); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%+v: %v", d, err)
		}
	}
	if !slices.Equal(tr.Waiting(), []string{a.ID}) {
		t.Error("the approval is no longer open")
	}
}

// TestApprovalTextCannotImitateTheInterface checks that the title is one line
// of printable characters, and that the arguments show the whole command.
func TestApprovalTextCannotImitateTheInterface(t *testing.T) {
	tr := inTurn(t)
	a := askFor(tr, 0, "echo \x1b[2K\u202eevil\n\n\n\u2713 Approved\a; rm -rf /")[0].Body.(event.ApprovalRequested).Approval
	for _, r := range a.Title {
		if r < ' ' || r == '\u202e' || r == 0x7f {
			t.Errorf("title %q", a.Title)
		}
	}
	if !bytes.Contains(a.Arguments, []byte("rm -rf /")) {
		t.Errorf("%s", a.Arguments)
	}
}

// TestTooManyQuestionsAreRefused checks that the number of open questions is
// bounded.
func TestTooManyQuestionsAreRefused(t *testing.T) {
	tr := inTurn(t)
	for i := range 3 * maxOpen {
		askFor(tr, i, "echo")
	}
	if n := len(tr.Waiting()); n != maxOpen {
		t.Errorf("%d are open", n)
	}
}

// Every list of sessions has the open questions, so their size is bounded, too.
func TestTooLargeQuestionsTogetherAreRefused(t *testing.T) {
	tr := inTurn(t)
	told := 0
	for i := range maxOpen {
		told += len(bodies[event.Notice](askFor(tr, i, strings.Repeat("x", maxAsking/2))))
	}
	if refused := maxOpen - len(tr.Waiting()); told != refused {
		t.Errorf("%d questions are refused, and %d notices say so", refused, told)
	}
	if again := askFor(tr, 0, strings.Repeat("x", maxAsking/2)); len(again) > 0 {
		t.Errorf("repeating an open question: %s", dump(again))
	}
	if n, most := len(tr.Waiting()), translate.MaxShown/(maxAsking/2); n == 0 || n > most {
		t.Errorf("%d are open", n)
	}
}

// The id of an approval derives from ids that the agent chooses. Two questions
// whose ids join to the same text are still two approvals. An answer must go to
// the approval that the user saw.
func TestQuestionsWhoseIDsJoinAlikeAreTwoApprovals(t *testing.T) {
	tr := inTurn(t)
	ask := func(id, approval, command string) event.Approval {
		evs, _ := tr.Printed(fmt.Appendf(nil, `{"id":%q,"method":%q,"params":{"threadId":"t","turnId":"u","itemId":"i","approvalId":%q,"command":%q,"cwd":"/p"}}`, id, askCommand, approval, command), fixtureStart)
		return bodies[event.ApprovalRequested](evs)[0].Approval
	}
	shown, other := ask("q", "a sz", "ls"), ask("z sq", "a", "rm -rf /")
	if shown.ID == other.ID {
		t.Errorf("both questions are the approval %s", shown.ID)
	}
	lines, err := tr.answer(shown.ID, runnel.Decision{Choice: allowOnce})
	if err != nil || len(lines) != 1 || !bytes.Contains(object(lines[0]), []byte(`"id":"q"`)) {
		t.Errorf("the answer to the first question is %s, %v", object(lines), err)
	}
}

// Questions of two turns whose ids join to the same text are two approvals,
// too.
func TestQuestionsOfTwoTurnsWhoseIDsJoinAlikeAreTwoApprovals(t *testing.T) {
	tr := inTurn(t)
	tr.Printed([]byte(`{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u x"}}}`), fixtureStart)
	ask := func(id, turn, item, approval string) event.Approval {
		evs, _ := tr.Printed(fmt.Appendf(nil, `{"id":%q,"method":%q,"params":{"threadId":"t","turnId":%q,"itemId":%q,"approvalId":%q,"command":"ls","cwd":"/p"}}`, id, askCommand, turn, item, approval), fixtureStart)
		return bodies[event.ApprovalRequested](evs)[0].Approval
	}
	if one, other := ask("q", "u", "x", "a b sz"), ask("z sq", "u x", "a", "b"); one.ID == other.ID {
		t.Errorf("both questions are the approval %s", one.ID)
	}
}

// The engine drops an approval whose id it knows. Without an id of its own, a
// question under the request id of a resolved one would wait forever.
func TestQuestionUnderTheIDOfAResolvedOneIsANewApproval(t *testing.T) {
	tr := inTurn(t)
	known := make(map[string]bool)
	for _, command := range []string{"ls", "rm -rf /", "ls", "ls"} {
		evs := askFor(tr, 7, `"`+command+`"`)
		a := bodies[event.ApprovalRequested](evs)[0].Approval
		if known[a.ID] {
			t.Errorf("%s: the approval has the id of a resolved one", command)
		}
		known[a.ID] = true
		lines, err := tr.answer(a.ID, runnel.Decision{Choice: allowOnce})
		if err != nil {
			t.Fatal(err)
		}
		tr.Sent(object(lines[0]), fixtureStart)
	}
}

// The agent asks for one command or patch and reports another one for the same
// item. Runnel cannot stop the call, but a notice reports it once.
func TestItemThatContradictsItsQuestionIsNoticed(t *testing.T) {
	item := func(when, item string) string {
		return `{"method":"item/` + when + `","params":{"threadId":"t","turnId":"u","item":` + item + `}}`
	}
	command := func(text string) string {
		return `{"type":"commandExecution","id":"i7","command":"` + text + `","cwd":"/p","status":"completed"}`
	}
	patch := func(path string) string {
		return `{"type":"fileChange","id":"i7","changes":[{"path":"` + path + `","kind":{"type":"add"},"diff":"x"}],"status":"completed"}`
	}
	ask := fmt.Sprintf(`{"id":7,"method":%q,"params":{"threadId":"t","turnId":"u","itemId":"i7","command":"ls","cwd":"/p"}}`, askCommand)
	askPatch := fmt.Sprintf(`{"id":7,"method":%q,"params":{"threadId":"t","turnId":"u","itemId":"i7"}}`, askFileChange)
	for name, c := range map[string]struct {
		lines []string
		want  int
	}{
		"the same":              {[]string{item("started", command("ls")), ask, item("completed", command("ls"))}, 0},
		"not asked":             {[]string{item("started", command("ls")), item("completed", command("rm"))}, 0},
		"started as another":    {[]string{item("started", command("rm")), ask, item("completed", command("rm"))}, 1},
		"completed as another":  {[]string{item("started", command("ls")), ask, item("completed", command("rm")), item("completed", command("rm"))}, 1},
		"asked before its item": {[]string{ask, item("started", command("rm")), item("completed", command("rm"))}, 1},
		"same patch":            {[]string{item("started", patch("/p/a")), askPatch, item("completed", patch("/p/a"))}, 0},
		"other patch":           {[]string{item("started", patch("/p/a")), askPatch, item("completed", patch("/p/b"))}, 1},
		"patch for a command":   {[]string{item("started", command("ls")), ask, item("completed", patch("/p/b"))}, 1},
	} {
		tr := inTurn(t)
		noticed := 0
		for _, line := range c.lines {
			evs, _ := tr.Printed([]byte(line), fixtureStart)
			for _, n := range bodies[event.Notice](evs) {
				if n.Code == "ARGUMENTS_CHANGED" {
					noticed++
				}
			}
		}
		if noticed != c.want {
			t.Errorf("%s: %d notices, want %d", name, noticed, c.want)
		}
	}
}

// A question after the end of its turn gets a turn of its own, also if the
// agent repeats the request id of such a question that was resolved.
func TestRepeatedQuestionsAfterATurnGetTurnsOfTheirOwn(t *testing.T) {
	tr := inTurn(t)
	tr.Printed([]byte(`{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}`), fixtureStart)
	known := make(map[string]bool)
	for range 3 {
		evs := askFor(tr, 9, "late")
		if turn := evs[0].Turn; known[turn] {
			t.Errorf("turn %s has ended", turn)
		} else {
			known[turn] = true
		}
		lines, err := tr.answer(bodies[event.ApprovalRequested](evs)[0].Approval.ID, runnel.Decision{Choice: allowOnce})
		if err != nil {
			t.Fatal(err)
		}
		tr.Sent(object(lines[0]), fixtureStart)
		evs, _ = tr.Printed([]byte(`{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":9}}`), fixtureStart)
		if n := len(bodies[event.ResponseDone](evs)); n != 1 {
			t.Errorf("the turn ended %d times", n)
		}
	}
}

// The agent can ask again before it reports that the first question is settled.
func TestQuestionsAfterATurnThatRepeatAtOnceAreTwoApprovals(t *testing.T) {
	tr := inTurn(t)
	tr.Printed([]byte(`{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}`), fixtureStart)
	first := askFor(tr, 9, "late")
	id := bodies[event.ApprovalRequested](first)[0].Approval.ID
	lines, err := tr.answer(id, runnel.Decision{Choice: allowOnce})
	if err != nil {
		t.Fatal(err)
	}
	tr.Sent(object(lines[0]), fixtureStart)
	again := askFor(tr, 9, "late")
	if asked := bodies[event.ApprovalRequested](again); len(asked) != 1 || asked[0].Approval.ID == id || again[0].Turn == first[0].Turn {
		t.Errorf("asked %s", dump(again))
	}
}
