package claude

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// answerSheet is the arguments of AskUserQuestion, before and after it was answered.
type answerSheet struct {
	Questions []struct {
		Question    string                   `json:"question"`
		MultiSelect bool                     `json:"multiSelect"`
		Options     []struct{ Label string } `json:"options"`
	} `json:"questions"`
	Answers map[string]given `json:"answers"` // by question
}

// given is the answer to a question: a label, words of the user's own, or
// several of them, which the agent wants as one text.
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

// maxOptions bounds the answers that are choices of their own.
const maxOptions = 20

// answers are the choices that answer. One question with one answer has its
// options. All else, several questions or answers and words of one's own, comes
// with updatedArguments, as "answers": an object of each question's text and its
// answer. What is not answered there gets the first option, which agents mean as
// the one they recommend; the choice says so.
func (a *approval) answers() []event.Choice {
	in := decodeLoose[answerSheet](a.input)
	var out []event.Choice
	if len(in.Questions) == 1 && !in.Questions[0].MultiSelect {
		q := in.Questions[0]
		a.question = q.Question
		for i, o := range q.Options[:min(len(q.Options), maxOptions)] {
			a.options = append(a.options, o.Label)
			out = append(out, event.Choice{ID: option + itoa(i+1), Kind: event.ChoiceAllowOnce, Label: oneLine(o.Label, 200)})
		}
	}
	var first []string
	for _, q := range in.Questions {
		if len(q.Options) > 0 {
			first = append(first, q.Options[0].Label)
		}
	}
	label := "Answer in the arguments"
	if len(first) > 0 {
		label += "; else: " + strings.Join(first, ", ")
	}
	return append(out, event.Choice{ID: allowOnce, Kind: event.ChoiceAllowOnce, Label: oneLine(label, maxLabel)})
}

// answered adds to the arguments the answers that they lack. label answers the
// one question that there is; "" means the first option of each.
func (a *approval) answered(allow decision, label string) (decision, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(allow.UpdatedInput, &object); err != nil {
		return decision{}, runnel.Fail(runnel.InvalidRequest, "updatedArguments is not a JSON object", err)
	}
	answers := decodeLoose[answerSheet](allow.UpdatedInput).Answers
	if answers == nil {
		answers = make(map[string]given)
	}
	for _, q := range decodeLoose[answerSheet](a.input).Questions {
		if label == "" && answers[q.Question] == "" && len(q.Options) > 0 {
			answers[q.Question] = given(q.Options[0].Label)
		}
	}
	if label != "" {
		answers[a.question] = given(label)
	}
	if asked := decodeLoose[map[string]json.RawMessage](a.input)["questions"]; object["questions"] == nil && asked != nil {
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
