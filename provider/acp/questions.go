package acp

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Version 1 of the protocol has no questions but permission requests. An agent
// that asks the user something in one (liveQuirks.questionnaire) takes the answers
// beside the option that is selected.

// userQuestion is a question that the agent wants the user to answer.
type userQuestion struct {
	Question string `json:"question"`
	Header   string `json:"header,omitempty"`
	Multi    bool   `json:"multiSelect,omitempty"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description,omitempty"`
	} `json:"options,omitempty"`
}

// questionnaire is what an agent asks the user at a time.
type questionnaire struct {
	questions []userQuestion
	submit    string // the agent's option that takes the answers
	cancel    string // the agent's option that refuses them; "" if it has none
}

// maxQuestions bounds how many are asked at a time.
const maxQuestions = 20

// given is the answer to a question: a label, words of the user's own, or
// several of them.
type given []string

// UnmarshalJSON implements [json.Unmarshaler].
func (g *given) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*g = given{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(g))
}

// newQuestionnaire returns a sheet for the questions of a permission request, or nil if
// the request has none or cannot be answered.
func newQuestionnaire(questions []userQuestion, options []permissionOption) *questionnaire {
	if len(questions) == 0 || len(questions) > maxQuestions {
		return nil
	}
	s := &questionnaire{questions: questions}
	for _, o := range options[:min(len(options), maxPermissionOptions)] {
		switch {
		case o.Kind == "allow_once" && s.submit == "":
			s.submit = o.ID
		case o.Kind == "reject_once" && s.cancel == "":
			s.cancel = o.ID
		}
	}
	if s.submit == "" {
		return nil
	}
	return s
}

// offer returns the choices. One question with options has them as choices. All
// else comes with updatedArguments, as for every [event.ApprovalQuestion]. A
// question that is not answered there gets its first option, which is the one
// that the agent recommends; the choice says so.
func (s *questionnaire) offer() (out []event.Choice) {
	if len(s.questions) == 1 {
		for i, o := range s.choices() {
			out = append(out, event.Choice{ID: translate.Option(i + 1), Kind: event.ChoiceAllowOnce, Label: text.OneLine(o, 200)})
		}
	}
	var firsts []string
	for _, q := range s.questions {
		if len(q.Options) > 0 {
			firsts = append(firsts, q.Options[0].Label)
		}
	}
	return append(out,
		event.Choice{ID: translate.AllowOnce, Kind: event.ChoiceAllowOnce, Label: translate.AnswerLabel(firsts)},
		event.Choice{ID: translate.Deny, Kind: event.ChoiceDeny, Label: "Do not answer"},
		event.Choice{ID: translate.DenyStop, Kind: event.ChoiceDenyStop, Label: "Stop"},
	)
}

// choices returns the options of the first question that are choices.
func (s *questionnaire) choices() (labels []string) {
	q := s.questions[0]
	for _, o := range q.Options[:min(len(q.Options), translate.MaxOptions)] {
		labels = append(labels, o.Label)
	}
	return labels
}

// answered is the answer to a permission request that asks something. The
// answers are by the place of the question.
type answered struct {
	Outcome selected          `json:"outcome"`
	Answers map[string]string `json:"answers,omitempty"`
}

// answerQuestionnaire returns the message for a decision. stop says that the caller must end
// the turn as well.
func (q question) answerQuestionnaire(d runnel.Decision) (m jsonrpc.Message, stop bool, err error) {
	s := q.questionnaire
	switch {
	case d.Choice == translate.DenyStop:
		return q.cancelled(), true, nil
	case d.Choice == translate.Deny && s.cancel == "":
		return q.cancelled(), false, nil
	case d.Choice == translate.Deny:
		m, err = jsonrpc.NewResult(q.request, answered{Outcome: selected{"selected", s.cancel}})
		return m, false, err
	}
	var v struct {
		Answers map[string]given `json:"answers"`
	}
	if d.Choice == translate.AllowOnce && len(d.UpdatedArguments) > 0 {
		if err := json.Unmarshal(d.UpdatedArguments, &v); err != nil {
			return m, false, runnel.Fail(runnel.InvalidRequest, "updatedArguments: answers: not an object of questions and their answers", err)
		}
	}
	answers := map[string]string{}
	for i, u := range s.questions {
		if g := v.Answers[u.Question]; len(g) > 0 {
			answers[strconv.Itoa(i)] = strings.Join(g, ", ")
		} else if len(u.Options) > 0 {
			answers[strconv.Itoa(i)] = u.Options[0].Label
		}
	}
	if d.Choice != translate.AllowOnce {
		i := slices.IndexFunc(s.offer(), func(c event.Choice) bool { return c.ID == d.Choice })
		if i < 0 {
			return m, false, translate.NoSuchChoice()
		}
		answers["0"] = s.choices()[i]
	}
	m, err = jsonrpc.NewResult(q.request, answered{Outcome: selected{"selected", s.submit}, Answers: answers})
	return m, false, err
}

// choiceOf returns the choice that an answer of ours stands for.
func (s *questionnaire) choiceOf(result answered) string {
	if result.Outcome.OptionID != s.submit {
		return translate.Deny
	}
	if i := slices.Index(s.choices(), result.Answers["0"]); i >= 0 && len(s.questions) == 1 {
		return translate.Option(i + 1)
	}
	return translate.AllowOnce
}
