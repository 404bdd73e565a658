package acp

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/translate"
)

// In version 1 of the protocol, an agent can only send permission requests.
// Some agents put questions to the user into the _meta of such a request (see
// liveQuirks.questionnaire). They read the answers from a field next to the
// selected option.

// userQuestion is one question of the agent to the user.
type userQuestion struct {
	Question string       `json:"question"`
	Header   string       `json:"header,omitempty"`
	Multi    bool         `json:"multiSelect,omitempty"`
	Options  []userOption `json:"options,omitempty"`
}

type userOption struct {
	translate.Labelled
	Description string `json:"description,omitempty"`
}

func (q userQuestion) options() []userOption { return q.Options }

// questionnaire holds the questions of one permission request.
type questionnaire struct {
	questions []userQuestion
	submit    string // id of the agent's option that submits the answers
	cancel    string // id of the agent's option that declines to answer, or ""
}

// newQuestionnaire returns the questionnaire of a permission request. It
// returns nil if the request has no questions, too many, or no option to submit
// answers.
func newQuestionnaire(questions []userQuestion, options []permissionOption) *questionnaire {
	if len(questions) == 0 || len(questions) > translate.MaxQuestions {
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

// offer returns the choices of the approval. A single question offers its
// options as choices. All other answers arrive in updatedArguments, as for
// every [event.ApprovalQuestion]; see [translate.AnswerChoice].
func (s *questionnaire) offer() (out []event.Choice) {
	if len(s.questions) == 1 {
		out = translate.OptionChoices(s.labels())
	}
	return append(out,
		translate.AnswerChoice(s.questions, userQuestion.options),
		event.Choice{ID: translate.Deny, Kind: event.ChoiceDeny, Label: "Do not answer"},
		event.Choice{ID: translate.DenyStop, Kind: event.ChoiceDenyStop, Label: "Stop"},
	)
}

// labels returns the labels of the first question's options.
func (s *questionnaire) labels() []string { return translate.Labels(s.questions[0].Options) }

// answered is the answer to a permission request with questions. The keys of
// Answers are the positions of the questions, from "0".
type answered struct {
	Outcome selected          `json:"outcome"`
	Answers map[string]string `json:"answers,omitempty"`
}

// answerQuestionnaire returns the message for a decision. If stop is true, the
// caller must also cancel the turn.
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
		Answers map[string]translate.Answer `json:"answers"`
	}
	if d.Choice == translate.AllowOnce && len(d.UpdatedArguments) > 0 {
		if err := json.Unmarshal(d.UpdatedArguments, &v); err != nil {
			return m, false, runnel.Fail(runnel.InvalidRequest, "updatedArguments: answers: want an object from questions to answers", err)
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
		answers["0"] = s.labels()[i]
	}
	m, err = jsonrpc.NewResult(q.request, answered{Outcome: selected{"selected", s.submit}, Answers: answers})
	return m, false, err
}

// choiceOf returns the id of the choice that an answer to the agent represents.
func (s *questionnaire) choiceOf(result answered) string {
	if result.Outcome.OptionID != s.submit {
		return translate.Deny
	}
	if i := slices.Index(s.labels(), result.Answers["0"]); i >= 0 && len(s.questions) == 1 {
		return translate.Option(i + 1)
	}
	return translate.AllowOnce
}
