package claude

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

const twoQuestions = `{"questions":[{"question":"Which one?","options":[{"label":"Red"},{"label":"Blue"}]},` +
	`{"question":"What with?","multiSelect":true,"options":[{"label":"Salt"},{"label":"Oil"}]}]}`

const oneQuestion = `{"questions":[{"question":"Which one?","options":[{"label":"Red"},{"label":"Blue"}]}]}`

func TestDecisionAddsAnswersToTheArguments(t *testing.T) {
	with := func(input, answers string) json.RawMessage {
		return json.RawMessage(strings.TrimSuffix(input, "}") + `,"answers":` + answers + `}`)
	}
	tests := []struct {
		name, input string
		decision    runnel.Decision
		want        map[string]answerText
		choice      string // the recorded choice
	}{
		{"an option", oneQuestion, runnel.Decision{Choice: option + "2"}, map[string]answerText{"Which one?": "Blue"}, option + "2"},
		{"the user's own text", oneQuestion, runnel.Decision{Choice: allowOnce, UpdatedArguments: with(oneQuestion, `{"Which one?":"Neither"}`)},
			map[string]answerText{"Which one?": "Neither"}, allowOnce},
		{"the first option of each", twoQuestions, runnel.Decision{Choice: allowOnce}, map[string]answerText{"Which one?": "Red", "What with?": "Salt"}, allowOnce},
		{"several answers to one question", twoQuestions, runnel.Decision{Choice: allowOnce, UpdatedArguments: with(twoQuestions, `{"Which one?":"Blue","What with?":["Salt","Oil"]}`)},
			map[string]answerText{"Which one?": "Blue", "What with?": "Salt, Oil"}, allowOnce},
		{"one of two questions", twoQuestions, runnel.Decision{Choice: allowOnce, UpdatedArguments: json.RawMessage(`{"answers":{"Which one?":"Blue"}}`)},
			map[string]answerText{"Which one?": "Blue", "What with?": "Salt"}, allowOnce},
		{"questions of a wrong type", `{"questions":"x"}`, runnel.Decision{Choice: allowOnce}, map[string]answerText{}, allowOnce},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &question{kind: event.ApprovalQuestion, input: json.RawMessage(tt.input)}
			choices := a.choices()
			if choices[0].Kind != event.ChoiceAllowOnce {
				t.Errorf("the first choice is %+v", choices[0])
			}
			dec, err := a.decide(tt.decision)
			if err != nil {
				t.Fatal(err)
			}
			var got questionArguments
			if err := json.Unmarshal(dec.UpdatedInput, &got); err != nil && tt.input != `{"questions":"x"}` {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got.Answers); d != "" {
				t.Error(d)
			}
			if n := len(decodeLenient[questionArguments](json.RawMessage(tt.input)).Questions); len(got.Questions) != n {
				t.Errorf("%d questions are sent back, want %d", len(got.Questions), n)
			}
			if got := a.choiceOf(dec); got != tt.choice {
				t.Errorf("recorded as %s", got)
			}
		})
	}
}

func TestAgentReceivesTheAnswersToSeveralQuestions(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		var input args
		if err := json.Unmarshal([]byte(withHeaders(twoQuestions)), &input); err != nil {
			t.Fatal(err)
		}
		r.Play(calls(use("AskUserQuestion", input)), says("ok"))
		evs := r.Until(func(ev event.Event) bool {
			_, ok := ev.Body.(event.ApprovalRequested)
			return ok || event.Ends(ev.Body)
		})
		a, ok := last(evs).(event.ApprovalRequested)
		if !ok {
			t.Fatalf("no approval was requested\n%s", dump(evs))
		}
		answered := strings.TrimSuffix(string(a.Approval.Arguments), "}") + `,"answers":{"Which one?":"Blue","What with?":["Salt","Oil"]}}`
		r.Decide(a.Approval, runnel.Decision{Choice: allowOnce, UpdatedArguments: json.RawMessage(answered)})
		got := strings.Join(summary(r.Finish("")), "\n")
		if !strings.Contains(got, `"Which one?"="Blue"`) || !strings.Contains(got, `"What with?"="Salt, Oil"`) {
			t.Errorf("the agent received %s", got)
		}
	})
}

// withHeaders adds the fields that the tool requires to questions.
func withHeaders(questions string) string {
	s := strings.ReplaceAll(questions, `{"question"`, `{"header":"Pick","question"`)
	s = strings.ReplaceAll(s, `?","options"`, `?","multiSelect":false,"options"`)
	return strings.ReplaceAll(s, `"}`, `","description":"d"}`)
}

func TestPlanApprovalShowsThePlanAndItsFileAndChangesThePermissionMode(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Opt.PermissionMode = runnel.ModePlan
		r.Opt.Tools = []string{"Read", "Bash", "Write", "ExitPlanMode"}
		r.stillWorks()
		plan := "# The plan\n1. Do it.\n"
		r.Play(calls(use("Write", args{"file_path": r.planFile(), "content": plan})), calls(use("ExitPlanMode", args{})), says("ok"))
		evs := r.Finish(allowSession)
		asked := bodies[event.ApprovalRequested](evs)
		if len(asked) != 1 || asked[0].Approval.Kind != event.ApprovalPlan || decodeLenient[exitPlan](asked[0].Approval.Arguments).Plan != plan {
			t.Fatalf("approvals: %+v", asked)
		}
		sound(t, evs)
		var files []event.AgentFile
		mode := ""
		for _, b := range bodies[event.SessionUpdated](evs) {
			files = append(files, b.Files...)
			if b.PermissionMode != "" {
				mode = b.PermissionMode
			}
		}
		if d := cmp.Diff([]event.AgentFile{{Path: r.planFile(), Kind: "plan"}}, files); d != "" {
			t.Error(d)
		}
		if mode != "acceptEdits" {
			t.Errorf("the mode after the plan is %q\n%s", mode, dump(evs))
		}
	})
}
