package codex

import (
	"encoding/json"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// userQuestion is a question that the agent asks the user.
type userQuestion struct {
	ID       string       `json:"id"`
	Header   string       `json:"header"`
	Question string       `json:"question"`
	IsOther  *bool        `json:"isOther,omitempty"`  // free text is allowed
	IsSecret *bool        `json:"isSecret,omitempty"` // the answer must not be shown
	Options  []userOption `json:"options"`
}

type userOption struct {
	translate.Labelled
	Description string `json:"description"`
}

func (q userQuestion) options() []userOption { return q.Options }

// questionSet holds the questions of one request.
type questionSet struct{ questions []userQuestion }

// user describes a request that asks the user questions. If there is one
// question, each of its options is a choice. Free text and answers to several
// questions are sent in updatedArguments, as "answers": an object with the text
// or the id of each question and its answer; see [translate.AnswerChoice].
func (a *approval) user(q question) (event.Approval, bool) {
	if len(q.Questions) == 0 || len(q.Questions) > translate.MaxQuestions {
		return event.Approval{}, false
	}
	a.questions = &questionSet{q.Questions}
	first := q.Questions[0]
	ev := event.Approval{
		Kind: event.ApprovalQuestion, ToolName: "request_user_input", Title: oneLine(first.Question, 300),
		Arguments: translate.Object(map[string]any{"questions": q.Questions}), ArgumentsEditable: true,
	}
	if len(q.Questions) == 1 {
		labels := translate.Labels(first.Options)
		for i, c := range translate.OptionChoices(labels) {
			a.add(c.ID, c.Kind, c.Label, a.questions.result(map[string]translate.Answer{first.ID: {labels[i]}}))
		}
	}
	answer := translate.AnswerChoice(q.Questions, userQuestion.options)
	a.add(answer.ID, answer.Kind, answer.Label, a.questions.result(a.questions.firsts(nil)))
	none := a.questions.result(nil)
	a.add(translate.Deny, event.ChoiceDeny, "Do not answer", none)
	a.stop(none, true)
	a.choices[len(a.choices)-1].Label = "Stop"
	return ev, true
}

// result returns the answers, by question id, in the agent's form.
func (s *questionSet) result(answers map[string]translate.Answer) decided {
	out := make(map[string]map[string]translate.Answer)
	for id, g := range answers {
		out[id] = map[string]translate.Answer{"answers": g}
	}
	return decided{"answers": out}
}

// firsts returns the answers by question id. A question without an answer gets
// its first option.
func (s *questionSet) firsts(answers map[string]translate.Answer) map[string]translate.Answer {
	out := make(map[string]translate.Answer)
	for _, q := range s.questions {
		switch {
		case len(answers[q.ID]) > 0:
			out[q.ID] = answers[q.ID]
		case len(answers[q.Question]) > 0:
			out[q.ID] = answers[q.Question]
		case len(q.Options) > 0:
			out[q.ID] = translate.Answer{q.Options[0].Label}
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
		Answers map[string]translate.Answer `json:"answers"`
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
		for i, label := range translate.Labels(s.questions[0].Options) {
			if len(g) == 1 && g[0] == label {
				return translate.Option(i + 1)
			}
		}
	}
	return translate.AllowOnce
}
