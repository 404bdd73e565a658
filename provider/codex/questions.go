package codex

import (
	"encoding/json"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// userQuestion is a question that the agent asks the user.
type userQuestion struct {
	ID       string `json:"id"`
	Header   string `json:"header"`
	Question string `json:"question"`
	IsOther  *bool  `json:"isOther,omitempty"`  // free text is allowed
	IsSecret *bool  `json:"isSecret,omitempty"` // the answer must not be shown
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

// questionSet holds the questions of one request.
type questionSet struct{ questions []userQuestion }

// maxQuestions bounds the questions of one request.
const maxQuestions = 20

// userAnswer is the answer to one question: the label of an option, free text,
// or several of these.
type userAnswer []string

// UnmarshalJSON implements [json.Unmarshaler].
func (g *userAnswer) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*g = userAnswer{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(g))
}

// user describes a request that asks the user questions. If there is one
// question, each of its options is a choice. Free text and answers to several
// questions are sent in updatedArguments, as "answers": an object with the text
// or the id of each question and its answer. A question without an answer there
// gets its first option, which the agent recommends. The label of the choice
// shows these options.
func (a *approval) user(q question) (event.Approval, bool) {
	if len(q.Questions) == 0 || len(q.Questions) > maxQuestions {
		return event.Approval{}, false
	}
	a.questions = &questionSet{q.Questions}
	first := q.Questions[0]
	ev := event.Approval{
		Kind: event.ApprovalQuestion, ToolName: "request_user_input", Title: oneLine(first.Question, 300),
		Arguments: translate.Object(map[string]any{"questions": q.Questions}), ArgumentsEditable: true,
	}
	if len(q.Questions) == 1 {
		for i, o := range first.Options[:min(len(first.Options), translate.MaxOptions)] {
			a.add(translate.Option(i+1), event.ChoiceAllowOnce, oneLine(o.Label, 200), a.questions.result(map[string]userAnswer{first.ID: {o.Label}}))
		}
	}
	var firsts []string
	for _, u := range q.Questions {
		if len(u.Options) > 0 {
			firsts = append(firsts, u.Options[0].Label)
		}
	}
	a.add(translate.AllowOnce, event.ChoiceAllowOnce, translate.AnswerLabel(firsts), a.questions.result(a.questions.firsts(nil)))
	none := a.questions.result(nil)
	a.add(translate.Deny, event.ChoiceDeny, "Do not answer", none)
	a.stop(none, true)
	a.choices[len(a.choices)-1].Label = "Stop"
	return ev, true
}

// result returns the answers, by question id, in the agent's form.
func (s *questionSet) result(answers map[string]userAnswer) decided {
	out := make(map[string]map[string]userAnswer)
	for id, g := range answers {
		out[id] = map[string]userAnswer{"answers": g}
	}
	return decided{"answers": out}
}

// firsts returns the answers by question id. A question without an answer gets
// its first option.
func (s *questionSet) firsts(answers map[string]userAnswer) map[string]userAnswer {
	out := make(map[string]userAnswer)
	for _, q := range s.questions {
		switch {
		case len(answers[q.ID]) > 0:
			out[q.ID] = answers[q.ID]
		case len(answers[q.Question]) > 0:
			out[q.ID] = answers[q.Question]
		case len(q.Options) > 0:
			out[q.ID] = userAnswer{q.Options[0].Label}
		}
	}
	return out
}

// fill returns the result of a choice. If the user has given answers in values,
// the result contains them.
func (s *questionSet) fill(c choice, values json.RawMessage) (json.RawMessage, error) {
	if len(values) == 0 || c.ID != translate.AllowOnce {
		return c.result, nil
	}
	var v struct {
		Answers map[string]userAnswer `json:"answers"`
	}
	if err := json.Unmarshal(values, &v); err != nil {
		return nil, runnel.Fail(runnel.InvalidRequest, "updatedArguments: answers: not an object of questions and their answers", err)
	}
	return json.Marshal(s.result(s.firsts(v.Answers)))
}

// choiceOf returns the id of the choice that leads to this result.
func (s *questionSet) choiceOf(result json.RawMessage) string {
	r := translate.DecodeLenient[struct {
		Answers map[string]struct{ Answers []string } `json:"answers"`
	}](result)
	if len(r.Answers) == 0 {
		return translate.Deny
	}
	if len(s.questions) == 1 {
		g := r.Answers[s.questions[0].ID].Answers
		for i, o := range s.questions[0].Options[:min(len(s.questions[0].Options), translate.MaxOptions)] {
			if len(g) == 1 && g[0] == o.Label {
				return translate.Option(i + 1)
			}
		}
	}
	return translate.AllowOnce
}
