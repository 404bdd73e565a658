package translate_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// options returns the options of a question with these labels.
func options(labels []string) (out []translate.Labelled) {
	for _, l := range labels {
		out = append(out, translate.Labelled{Label: l})
	}
	return out
}

func TestAnswerChoiceNamesTheFirstOptions(t *testing.T) {
	for want, questions := range map[string][][]string{
		"Answer in the arguments":                   {{}, nil},
		"Answer in the arguments; else: Red, Small": {{"Red", "Blue"}, nil, {"Small"}},
	} {
		got := translate.AnswerChoice(questions, options)
		if got != (event.Choice{ID: translate.AllowOnce, Kind: event.ChoiceAllowOnce, Label: want}) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	long := [][]string{{strings.Repeat("x", 2*translate.MaxLabel)}}
	if got := translate.AnswerChoice(long, options); len(got.Label) > translate.MaxLabel {
		t.Errorf("a label of %d bytes", len(got.Label))
	}
}

func TestOptionChoicesAreBounded(t *testing.T) {
	var labels []string
	for i := range translate.MaxOptions + 1 {
		labels = append(labels, strconv.Itoa(i)+"\n"+strings.Repeat("x", translate.MaxLabel))
	}
	choices := translate.OptionChoices(translate.Labels(options(labels)))
	if len(choices) != translate.MaxOptions || choices[1].ID != "option_2" {
		t.Errorf("%d choices, the second is %+v", len(choices), choices[1])
	}
	if got := choices[1].Label; len(got) > translate.MaxLabel || !strings.HasPrefix(got, "1 xx") {
		t.Errorf("label %q", got)
	}
}

func TestAnswerIsOneTextOrAList(t *testing.T) {
	for in, want := range map[string]translate.Answer{`"Red"`: {"Red"}, `["Red","Blue"]`: {"Red", "Blue"}, `[]`: {}} {
		var got translate.Answer
		if err := json.Unmarshal([]byte(in), &got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	if err := json.Unmarshal([]byte(`7`), new(translate.Answer)); err == nil {
		t.Error("a number is an answer")
	}
}
