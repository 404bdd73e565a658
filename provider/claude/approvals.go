package claude

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// approval is a question of the agent that waits for an answer.
type approval struct {
	id       string // ours
	request  string // the agent's id of the question
	toolUse  string
	turn     *turn
	kind     event.ApprovalKind
	input    json.RawMessage
	grants   []grant  // what the agent offers to allow for this session
	options  []string // labels of the answers to a single question
	question string
	fixed    bool // the arguments may not be changed
}

// Ids of choices.
const (
	allowOnce    = "allow_once"
	allowSession = "allow_session"
	deny         = "deny"
	denyStop     = "deny_stop"
	option       = "option_" // and the number of the answer, from 1
)

// maxOpen bounds the questions that wait for an answer.
const maxOpen = 100

// ask takes a control request of the agent. What we do not offer is refused at
// once: the agent waits for an answer without end.
func (t *translator) ask(f frame) {
	r := f.Request
	if r == nil || f.RequestID == "" {
		return
	}
	if r.Subtype != "can_use_tool" || len(t.approvals) >= maxOpen {
		t.replies = append(t.replies, response{Type: "control_response", Response: controlResponse{
			Subtype: "error", RequestID: f.RequestID, Error: "not supported by this client",
		}})
		return
	}
	a := &approval{
		id: derive("approval " + f.RequestID), request: f.RequestID, toolUse: r.ToolUseID,
		kind: approvalKind(r.ToolName), input: r.Input, grants: grants(r.Suggestions),
	}
	// The agent does not hold changed arguments against its rules: what they
	// deny would run. An answer or a plan is none of their business.
	a.fixed = t.denies && a.kind == event.ApprovalTool
	if open := t.approvals[a.id]; open != nil {
		t.asksAgain(open, r.Input)
		return
	}
	if len(a.input) == 0 {
		a.input = json.RawMessage("{}")
	}
	t.approvals[a.id] = a
	ev := event.Approval{
		ID: a.id, CallID: r.ToolUseID, Kind: a.kind, Title: toolTitle(r.ToolName, a.input), ToolName: r.ToolName,
		Arguments: a.input, ArgumentsEditable: !a.fixed, ArgumentsDigest: digest(a.input),
		Why: oneLine(r.DecisionReason, 500),
	}
	if toolKind(r.ToolName) == event.KindEdit {
		ev.Changes = intended(a.input)
	}
	ev.Choices = a.choices()
	a.turn = t.turnFor(f)
	if a.turn == nil { // the prompt's has not begun yet
		t.running("")
		a.turn = t.turn
	}
	t.within(a.turn, func() {
		if tn := t.running(""); tn != nil && tn.calls[r.ToolUseID] != nil {
			ev.ItemID = tn.calls[r.ToolUseID].item
		}
		t.emit(event.ApprovalRequested{Approval: ev})
	})
}

// asksAgain takes a question with the id of one that is open. If it is about
// something else, the answer to the first would be taken for one to this: the
// first is withdrawn, and this one denied.
func (t *translator) asksAgain(a *approval, input json.RawMessage) {
	if digest(input) == digest(a.input) {
		return
	}
	b, err := json.Marshal(decision{Behavior: "deny", Message: "The arguments changed while they were looked at. Ask again.", ToolUseID: a.toolUse})
	if err != nil {
		return
	}
	t.replies = append(t.replies, response{"control_response", controlResponse{Subtype: "success", RequestID: a.request, Response: b}})
	t.within(a.turn, func() {
		t.notice(event.LevelWarning, "ARGUMENTS_CHANGED", "The agent changed what it had asked for while the question was open; it was denied.")
	})
	t.withdraw(a.request)
}

func approvalKind(tool string) event.ApprovalKind {
	switch tool {
	case "AskUserQuestion":
		return event.ApprovalQuestion
	case "ExitPlanMode":
		return event.ApprovalPlan
	}
	return event.ApprovalTool
}

// A grant is what the agent offers to allow from now on, in its own form but
// only until it ends: applied as it comes, it would be written into the
// project's files. words is what the grant means, for the one who gives it.
type grant struct {
	native json.RawMessage
	words  string
}

// grants keeps the narrowest of the offers that can be put into words: rules for
// the tool, else directories, else a mode. The agent means them as alternatives:
// with a rule for one command it offers to accept all edits, too.
func grants(suggestions []json.RawMessage) []grant {
	for _, typ := range []string{"addRules", "addDirectories", "setMode"} {
		if out := grantsOf(typ, suggestions); len(out) > 0 {
			return out
		}
	}
	return nil
}

func grantsOf(typ string, suggestions []json.RawMessage) []grant {
	var out []grant
	for _, s := range suggestions {
		words := grantWords(typ, s)
		var native map[string]json.RawMessage
		if words == "" || json.Unmarshal(s, &native) != nil {
			continue
		}
		native["destination"] = json.RawMessage(`"session"`)
		if b, err := json.Marshal(native); err == nil {
			out = append(out, grant{b, words})
		}
	}
	return out
}

func grantWords(typ string, suggestion json.RawMessage) string {
	g := decodeLoose[struct {
		Type, Mode, Behavior string
		Directories          []string
		Rules                []struct{ ToolName, RuleContent string }
	}](suggestion)
	var words []string
	switch {
	case g.Type != typ:
	case g.Type == "setMode" && g.Mode == string(runnel.ModeAcceptEdits):
		words = []string{"all edits"}
	case g.Type == "addDirectories":
		for _, d := range g.Directories {
			words = append(words, "files in "+d)
		}
	case g.Type == "addRules" && g.Behavior == "allow":
		for _, r := range g.Rules {
			if r.RuleContent == "" {
				words = append(words, "all of "+r.ToolName)
			} else {
				words = append(words, r.ToolName+"("+r.RuleContent+")")
			}
		}
	}
	return strings.Join(words, ", ")
}

// maxLabel bounds the label of a choice, in bytes.
const maxLabel = 300

// choices returns the answers that a may have.
func (a *approval) choices() []event.Choice {
	no := []event.Choice{
		{ID: deny, Kind: event.ChoiceDeny, Label: "Deny"},
		{ID: denyStop, Kind: event.ChoiceDenyStop, Label: "Deny and stop"},
	}
	switch a.kind {
	case event.ApprovalPlan:
		no[0].Label, no[1].Label = "Keep planning", "Stop"
		return append([]event.Choice{
			{ID: allowOnce, Kind: event.ChoiceAllowOnce, Label: "Start, and ask before each edit"},
			{ID: allowSession, Kind: event.ChoiceAllowSession, Label: "Start, and accept edits"},
		}, no...)
	case event.ApprovalQuestion:
		no[0].Label, no[1].Label = "Do not answer", "Stop"
		return append(a.answers(), no...)
	}
	yes := []event.Choice{{ID: allowOnce, Kind: event.ChoiceAllowOnce, Label: "Allow once"}}
	if len(a.grants) > 0 {
		var words []string
		for _, g := range a.grants {
			words = append(words, g.words)
		}
		label := oneLine("Allow for this session: "+strings.Join(words, ", "), math.MaxInt32)
		if len(label) <= maxLabel { // what cannot be shown whole is not offered
			yes = append(yes, event.Choice{ID: allowSession, Kind: event.ChoiceAllowSession, Label: label})
		}
	}
	return append(yes, no...)
}

// response is a control response of ours.
type response struct {
	Type     string          `json:"type"`
	Response controlResponse `json:"response"`
}

// answer returns the control response for a decision. It fails with
// ApprovalGone for an approval that is not open, and with InvalidRequest for a
// choice that it does not have.
func (t *translator) answer(id string, d runnel.Decision) (response, error) {
	a := t.approvals[id]
	if a == nil {
		return response{}, runnel.Fail(runnel.ApprovalGone, "this approval is already settled")
	}
	dec, err := a.decide(d)
	if err != nil {
		return response{}, err
	}
	b, err := json.Marshal(dec)
	if err != nil {
		return response{}, runnel.Fail(runnel.InvalidRequest, "updatedArguments is not a JSON object", err)
	}
	return response{"control_response", controlResponse{Subtype: "success", RequestID: a.request, Response: b}}, nil
}

func (a *approval) decide(d runnel.Decision) (decision, error) {
	input := a.input
	if len(d.UpdatedArguments) > 0 && a.fixed {
		return decision{}, runnel.Fail(runnel.InvalidRequest, "updatedArguments: the agent's settings deny some calls, and it would not hold changed arguments against them")
	}
	if len(d.UpdatedArguments) > 0 {
		var object map[string]json.RawMessage
		if json.Unmarshal(d.UpdatedArguments, &object) != nil || object == nil {
			return decision{}, runnel.Fail(runnel.InvalidRequest, "updatedArguments is not a JSON object")
		}
		input = d.UpdatedArguments
	}
	// updatedInput is always sent: without it 2.1.197 denies the call.
	allow := decision{Behavior: "allow", UpdatedInput: input, ToolUseID: a.toolUse}
	for i, label := range a.options {
		if d.Choice == option+itoa(i+1) {
			return a.answered(allow, label)
		}
	}
	switch d.Choice {
	case allowOnce:
		if a.kind == event.ApprovalQuestion {
			return a.answered(allow, "")
		}
		if a.kind == event.ApprovalPlan {
			allow.UpdatedPermissions = []json.RawMessage{setMode("default")}
		}
		return allow, nil
	case allowSession:
		if a.kind == event.ApprovalPlan {
			allow.UpdatedPermissions = []json.RawMessage{setMode("acceptEdits")}
			return allow, nil
		}
		for _, g := range a.grants {
			allow.UpdatedPermissions = append(allow.UpdatedPermissions, g.native)
		}
		if len(a.grants) > 0 {
			return allow, nil
		}
	case deny, denyStop:
		reason := d.Reason
		if reason == "" {
			reason = "The user does not want this to be done."
		}
		return decision{Behavior: "deny", Message: reason, Interrupt: d.Choice == denyStop, ToolUseID: a.toolUse}, nil
	}
	return decision{}, runnel.Fail(runnel.InvalidRequest, "choice: the approval has no such choice")
}

func setMode(mode string) json.RawMessage {
	return json.RawMessage(`{"type":"setMode","mode":"` + mode + `","destination":"session"}`)
}

// decided takes a control response of ours as it passes.
func (t *translator) decided(f frame) {
	if f.Response == nil {
		return
	}
	for id, a := range t.approvals {
		if a.request != f.Response.RequestID {
			continue
		}
		d := decodeLoose[decision](f.Response.Response)
		delete(t.approvals, id)
		if d.Interrupt {
			a.turn.interrupted = true
		}
		t.within(a.turn, func() {
			t.emit(event.ApprovalResolved{ApprovalID: id, Choice: a.choiceOf(d), By: event.ByUser})
		})
		return
	}
}

// choiceOf names the choice that led to a decision.
func (a *approval) choiceOf(d decision) string {
	answers := decodeLoose[answerSheet](d.UpdatedInput).Answers
	for i, label := range a.options {
		if d.Behavior == "allow" && string(answers[a.question]) == label && label != "" {
			return option + itoa(i+1)
		}
	}
	switch {
	case d.Behavior != "allow" && d.Interrupt:
		return denyStop
	case d.Behavior != "allow":
		return deny
	case a.kind == event.ApprovalPlan:
		if len(d.UpdatedPermissions) == 1 && string(d.UpdatedPermissions[0]) == string(setMode("acceptEdits")) {
			return allowSession
		}
		return allowOnce
	case len(d.UpdatedPermissions) > 0:
		return allowSession
	}
	return allowOnce
}

// withdraw takes back a question of the agent.
func (t *translator) withdraw(request string) {
	for id, a := range t.approvals {
		if a.request == request {
			delete(t.approvals, id)
			t.within(a.turn, func() {
				t.emit(event.ApprovalResolved{ApprovalID: id, Choice: event.ChoiceWithdrawn, By: event.ByAgent})
			})
			return
		}
	}
}
