package claude

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// questionArguments are the arguments of AskUserQuestion. The agent sends them
// without answers.
type questionArguments struct {
	Questions []userQuestion        `json:"questions"`
	Answers   map[string]answerText `json:"answers"` // by the question's text
}

type userQuestion struct {
	Question    string               `json:"question"`
	MultiSelect bool                 `json:"multiSelect"`
	Options     []translate.Labelled `json:"options"`
}

func (q userQuestion) options() []translate.Labelled { return q.Options }

// answerText is the answer to a question: an option's label, the user's own
// text, or a list of these, which is joined because the agent expects one
// string.
type answerText string

// UnmarshalJSON implements [json.Unmarshaler].
func (g *answerText) UnmarshalJSON(data []byte) error {
	var many []string
	if json.Unmarshal(data, &many) == nil {
		*g = answerText(strings.Join(many, ", "))
		return nil
	}
	return json.Unmarshal(data, (*string)(g))
}

// answers returns the choices that answer the question. A single question that
// takes one answer has a choice for each option. The last choice is for all
// other answers: a client sends them in updatedArguments as "answers", an
// object from each question's text to its answer; see
// [translate.AnswerChoice].
func (q *question) answers() []event.Choice {
	in := translate.DecodeLenient[questionArguments](q.input)
	var out []event.Choice
	if len(in.Questions) == 1 && !in.Questions[0].MultiSelect {
		one := in.Questions[0]
		q.questionText, q.options = one.Question, translate.Labels(one.Options)
		out = translate.OptionChoices(q.options)
	}
	return append(out, translate.AnswerChoice(in.Questions, userQuestion.options))
}

// answered adds answers to the arguments of a decision. label is the answer to
// the single question. If label is "", each unanswered question gets its first
// option.
func (q *question) answered(allow decision, label string) (decision, error) {
	object, err := translate.Values(allow.UpdatedInput)
	if err != nil {
		return decision{}, err
	}
	answers := translate.DecodeLenient[questionArguments](allow.UpdatedInput).Answers
	if answers == nil {
		answers = make(map[string]answerText)
	}
	for _, each := range translate.DecodeLenient[questionArguments](q.input).Questions {
		if label == "" && answers[each.Question] == "" && len(each.Options) > 0 {
			answers[each.Question] = answerText(each.Options[0].Label)
		}
	}
	if label != "" {
		answers[q.questionText] = answerText(label)
	}
	if asked := translate.DecodeLenient[map[string]json.RawMessage](q.input)["questions"]; object["questions"] == nil && asked != nil {
		object["questions"] = asked // the agent expects its questions in the reply
	}
	b, err := json.Marshal(answers)
	if err != nil {
		return decision{}, err
	}
	object["answers"] = b
	allow.UpdatedInput, err = json.Marshal(object)
	return allow, err
}
