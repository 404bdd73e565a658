package claude

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// answerSheet are the arguments of AskUserQuestion, without and with the
// answers.
type answerSheet struct {
	Questions []struct {
		Question    string                   `json:"question"`
		MultiSelect bool                     `json:"multiSelect"`
		Options     []struct{ Label string } `json:"options"`
	} `json:"questions"`
	Answers map[string]given `json:"answers"` // by question
}

// given is the answer to a question: a label, words of the user's own, or
// several of them, which the agent expects as one text.
type given string

// UnmarshalJSON implements [json.Unmarshaler].
func (g *given) UnmarshalJSON(data []byte) error {
	var many []string
	if json.Unmarshal(data, &many) == nil {
		*g = given(strings.Join(many, ", "))
		return nil
	}
	return json.Unmarshal(data, (*string)(g))
}

// answers returns the choices that answer. A single question with one answer
// has a choice for each option. Several questions, several answers and words of
// the user's own come in updatedArguments, as "answers": an object from each
// question's text to its answer. A question that has no answer there gets its
// first option, which agents mean as their recommendation; the choice's label
// shows it.
func (q *question) answers() []event.Choice {
	in := translate.Loose[answerSheet](q.input)
	var out []event.Choice
	if len(in.Questions) == 1 && !in.Questions[0].MultiSelect {
		one := in.Questions[0]
		q.asked = one.Question
		for i, o := range one.Options[:min(len(one.Options), translate.MaxOptions)] {
			q.options = append(q.options, o.Label)
			out = append(out, event.Choice{ID: translate.Option(i + 1), Kind: event.ChoiceAllowOnce, Label: text.OneLine(o.Label, 200)})
		}
	}
	var first []string
	for _, each := range in.Questions {
		if len(each.Options) > 0 {
			first = append(first, each.Options[0].Label)
		}
	}
	return append(out, event.Choice{ID: translate.AllowOnce, Kind: event.ChoiceAllowOnce, Label: translate.AnswerLabel(first)})
}

// answered adds the missing answers to the arguments. label answers the single
// question; "" means the first option of each.
func (q *question) answered(allow decision, label string) (decision, error) {
	object, err := translate.Values(allow.UpdatedInput)
	if err != nil {
		return decision{}, err
	}
	answers := translate.Loose[answerSheet](allow.UpdatedInput).Answers
	if answers == nil {
		answers = make(map[string]given)
	}
	for _, each := range translate.Loose[answerSheet](q.input).Questions {
		if label == "" && answers[each.Question] == "" && len(each.Options) > 0 {
			answers[each.Question] = given(each.Options[0].Label)
		}
	}
	if label != "" {
		answers[q.asked] = given(label)
	}
	if asked := translate.Loose[map[string]json.RawMessage](q.input)["questions"]; object["questions"] == nil && asked != nil {
		object["questions"] = asked // the agent wants them back
	}
	b, err := json.Marshal(answers)
	if err != nil {
		return decision{}, err
	}
	object["answers"] = b
	allow.UpdatedInput, err = json.Marshal(object)
	return allow, err
}
