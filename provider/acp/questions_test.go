package acp

import (
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// asksUser returns a permission request by which Qwen Code asks these
// questions.
func asksUser(questions string) runnel.Line {
	return out(`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"q","status":"pending","title":"Ask",` +
		`"kind":"think","rawInput":{"questions":[]},"_meta":{"toolName":"ask_user_question","qwenInteractionKind":"user_question","qwenQuestions":` + questions + `}},` +
		`"options":[{"optionId":"proceed_once","name":"Submit","kind":"allow_once"},{"optionId":"cancel","name":"Cancel","kind":"reject_once"}]}}`)
}

// Qwen Code asks the user a question by a permission request. The response must
// contain the user's answers in addition to the chosen option. Without them the
// model receives no answers.
func TestQwenQuestionsAreAnswered(t *testing.T) {
	const one = `[{"question":"Which colour?","header":"Colour","multiSelect":false,"options":[{"label":"Red","description":"warm"},{"label":"Blue"}]}]`
	const two = `[{"question":"Which colour?","options":[{"label":"Red"},{"label":"Blue"}]},{"question":"Why?"}]`
	for _, tt := range []struct {
		name, questions string
		decision        runnel.Decision
		result          string
		choice          string // id of the choice in the event that resolves the approval
		stop            bool
	}{
		{"an option", one, runnel.Decision{Choice: "option_2"}, `{"outcome":{"outcome":"selected","optionId":"proceed_once"},"answers":{"0":"Blue"}}`, "option_2", false},
		{"the first by default", one, runnel.Decision{Choice: "allow_once"}, `{"outcome":{"outcome":"selected","optionId":"proceed_once"},"answers":{"0":"Red"}}`, "option_1", false},
		{"own words", one, runnel.Decision{Choice: "allow_once", UpdatedArguments: []byte(`{"answers":{"Which colour?":"Mauve"}}`)}, `{"outcome":{"outcome":"selected","optionId":"proceed_once"},"answers":{"0":"Mauve"}}`, "allow_once", false},
		{"several", two, runnel.Decision{Choice: "allow_once", UpdatedArguments: []byte(`{"answers":{"Which colour?":["Red","Blue"],"Why?":"I like it"}}`)}, `{"outcome":{"outcome":"selected","optionId":"proceed_once"},"answers":{"0":"Red, Blue","1":"I like it"}}`, "allow_once", false},
		{"none", one, runnel.Decision{Choice: "deny"}, `{"outcome":{"outcome":"selected","optionId":"cancel"}}`, "deny", false},
		{"stop", one, runnel.Decision{Choice: "deny_stop"}, `{"outcome":{"outcome":"cancelled"}}`, "deny_stop", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTranslator(known(t, "qwen"))
			var evs []event.Event
			for _, l := range withBegun(asksUser(tt.questions)) {
				got, _ := agentconn.Feed(tr, l)
				evs = append(evs, got...)
			}
			asked := bodies[event.ApprovalRequested](evs)
			if len(asked) != 1 {
				t.Fatal(dump(evs))
			}
			a := asked[0].Approval
			if a.Kind != event.ApprovalQuestion || a.Title != "Which colour?" || !a.ArgumentsEditable || !strings.Contains(string(a.Arguments), `"Which colour?"`) {
				t.Errorf("asked %+v", a)
			}
			for _, c := range []string{"option_3", "allow_session"} {
				if _, _, err := tr.turns.answer(a.ID, runnel.Decision{Choice: c}); runnel.CodeOf(err) != runnel.InvalidRequest {
					t.Errorf("%s: %v", c, err)
				}
			}
			m, stop, err := tr.turns.answer(a.ID, tt.decision)
			if err != nil || stop != tt.stop || string(m.Result) != tt.result {
				t.Fatalf("answered %s, stop %v, %v", m.Result, stop, err)
			}
			line, err := encode(m, nil)
			if err != nil {
				t.Fatal(err)
			}
			resolved := bodies[event.ApprovalResolved](tr.Sent(line, fixtureStart))
			if len(resolved) != 1 || resolved[0].Choice != tt.choice {
				t.Errorf("resolved %+v", resolved)
			}
			if i := slices.IndexFunc(a.Choices, func(c event.Choice) bool { return c.ID == tt.choice }); i < 0 {
				t.Errorf("%s is none of %+v", tt.choice, a.Choices)
			}
		})
	}
}

// A request with invalid questions becomes an ordinary permission request.
func TestQwenQuestionsThatCannotBeAnswered(t *testing.T) {
	for name, questions := range map[string]string{
		"none": `[]`, "no list": `"why?"`, "too many": "[" + strings.Repeat(`{"question":"Why?"},`, translate.MaxQuestions) + `{"question":"Why?"}]`,
	} {
		evs, _ := runAs(t, known(t, "qwen"), withBegun(asksUser(questions))...)
		asked := bodies[event.ApprovalRequested](evs)
		if len(asked) != 1 || asked[0].Approval.Kind != event.ApprovalTool {
			t.Errorf("%s: %s", name, dump(evs))
		}
	}
}
