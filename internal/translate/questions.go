package translate

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// MaxQuestions bounds the questions to the user in one request.
const MaxQuestions = 20

// An Answer is the user's answer to a question: the label of an option, free
// text, or several of these. In JSON it is a string or a list of strings.
type Answer []string

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Answer) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = Answer{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// Labelled is embedded in a provider's type of the options that a question
// offers to the user.
type Labelled struct {
	Label string `json:"label"`
}

func (l Labelled) label() string { return l.Label }

type labelled interface{ label() string }

// Labels returns the labels of the first [MaxOptions] options of a question.
func Labels[O labelled](options []O) (labels []string) {
	for _, o := range options[:min(len(options), MaxOptions)] {
		labels = append(labels, o.label())
	}
	return labels
}

// maxOptionLabel bounds the label of an option's choice, in bytes.
const maxOptionLabel = 200

// OptionChoices returns one choice for each option of a question. The options
// have these labels; see [Labels].
func OptionChoices(labels []string) (choices []event.Choice) {
	for i, l := range labels {
		choices = append(choices, event.Choice{ID: Option(i + 1), Kind: event.ChoiceAllowOnce, Label: text.OneLine(l, maxOptionLabel)})
	}
	return choices
}

// AnswerChoice returns the choice with which the user answers in
// updatedArguments. options returns the options of a question. A question
// without an answer there gets its first option, because agents list the
// recommended option first. The label of the choice names these options.
func AnswerChoice[Q any, O labelled](questions []Q, options func(Q) []O) event.Choice {
	var firsts []string
	for _, q := range questions {
		if labels := Labels(options(q)); len(labels) > 0 {
			firsts = append(firsts, labels[0])
		}
	}
	label := "Answer in the arguments"
	if len(firsts) > 0 {
		label += "; else: " + strings.Join(firsts, ", ")
	}
	return event.Choice{ID: AllowOnce, Kind: event.ChoiceAllowOnce, Label: text.OneLine(label, MaxLabel)}
}
