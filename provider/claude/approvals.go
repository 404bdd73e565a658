package claude

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// approvals are the questions of the agent that wait for an answer.
type approvals struct {
	translate.Approvals[*question]
	out       *translate.Emitter
	session   *session
	outOfTurn []*turn // turns that hold nothing but a question
}

// question is the part of an approval that is Claude Code's own.
type question struct {
	turn    *turn
	toolUse string
	tool    string
	kind    event.ApprovalKind
	input   json.RawMessage
	grants  []grant  // what the agent offers to allow for this session
	options []string // labels of the answers to a single question
	asked   string   // the text of that question
	fixed   bool     // the arguments may not be changed
}

// take returns the question in a control request, nil if there is none to ask:
// a request that we do not support or cannot show is refused, and a question
// that is open is not asked twice.
func (a *approvals) take(f frame) *question {
	r := f.Request
	if r.Subtype != "can_use_tool" || a.Full() || event.TooDeep(r.Input) {
		a.out.Reply(response{Type: "control_response", Response: controlResponse{
			Subtype: "error", RequestID: f.RequestID, Error: "not supported by this client",
		}})
		return nil
	}
	q := &question{
		toolUse: r.ToolUseID, tool: r.ToolName, kind: approvalKind(r.ToolName),
		input: translate.Arguments(r.Input), grants: grants(r.Suggestions),
	}
	// The agent does not check changed arguments against its rules, so calls
	// that the rules deny would run. Rules do not apply to answers and plans.
	q.fixed = a.session.denies && q.kind == event.ApprovalTool
	if old, open := a.ByRequest(f.RequestID); open {
		a.askedAgain(old, q)
		return nil
	}
	return q
}

// askedAgain takes a question with the id of one that is open. If it is about
// something else, both are denied.
func (a *approvals) askedAgain(old translate.Approval[*question], q *question) {
	if _, changed := a.Changed(old.Request, translate.Digest(q.input)); !changed {
		return
	}
	no := decision{Behavior: "deny", Message: "The arguments changed while they were looked at. Ask again.", ToolUseID: old.Question.toolUse}
	if r, err := no.reply(old.Request); err == nil {
		a.out.Reply(r)
	}
	old.Question.turn.emit(translate.ArgumentsChanged)
	old.Question.turn.emit(translate.Withdrawn(old.ID))
}

// ask asks a question in a turn. If tn is nil, the question is out of turn: a
// background task asks, or no turn runs. It is asked at once, in a turn that
// holds nothing else: the prompt's turn may be over long before the answer is
// there, and would take the question with it.
func (a *approvals) ask(q *question, f frame, tn *turn) {
	outOfTurn := tn == nil
	if outOfTurn {
		tn = newTurn(derive(a.session.id+" question "+f.RequestID), a.out, a.session)
		tn.begin()
		a.outOfTurn = append(a.outOfTurn, tn)
	}
	q.turn = tn
	ap := translate.Approval[*question]{
		ID: derive("approval " + f.RequestID), Turn: tn.id, OutOfTurn: outOfTurn,
		Request: f.RequestID, Digest: translate.Digest(q.input), Question: q,
	}
	a.Add(ap)
	ev := event.Approval{
		ID: ap.ID, CallID: q.toolUse, Kind: q.kind, Title: toolTitle(q.tool, q.input), ToolName: q.tool,
		Arguments: q.input, ArgumentsEditable: !q.fixed, ArgumentsDigest: ap.Digest,
		Why: text.OneLine(f.Request.DecisionReason, 500), Choices: q.choices(),
	}
	if toolKind(q.tool) == event.KindEdit {
		ev.Changes = intended(q.input)
	}
	if c := tn.calls[q.toolUse]; c != nil {
		ev.ItemID = c.item
	}
	tn.emit(event.ApprovalRequested{Approval: ev})
}

// answer returns the control response for a decision. It fails with
// ApprovalGone for an approval that is not open, and with InvalidRequest for a
// choice that it does not have.
func (a *approvals) answer(id string, d runnel.Decision) (response, error) {
	ap, err := a.Open(id)
	if err != nil {
		return response{}, err
	}
	dec, err := ap.Question.decide(d)
	if err != nil {
		return response{}, err
	}
	return dec.reply(ap.Request)
}

// reply makes the control response with which a decision answers a request. It
// fails if the arguments that were decided on are not JSON.
func (d decision) reply(request string) (response, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return response{}, translate.NotAnObject(err)
	}
	return response{"control_response", controlResponse{Subtype: "success", RequestID: request, Response: b}}, nil
}

// decided takes a control response of ours as it passes.
func (a *approvals) decided(r *controlResponse) {
	if r == nil {
		return
	}
	ap, ok := a.ByRequest(r.RequestID)
	if !ok {
		return
	}
	d := translate.Loose[decision](r.Response)
	a.Remove(ap.ID)
	if d.Interrupt {
		ap.Question.turn.interrupted = true
	}
	ap.Question.turn.emit(translate.Resolved(ap.ID, ap.Question.choiceOf(d)))
}

// withdraw takes back a question of the agent.
func (a *approvals) withdraw(request string) {
	if ap, ok := a.ByRequest(request); ok {
		a.Remove(ap.ID)
		ap.Question.turn.emit(translate.Withdrawn(ap.ID))
	}
}

// stop denies the out-of-turn questions after an interrupt: the agent itself
// withdraws only those of its turn.
func (a *approvals) stop() {
	for _, tn := range a.outOfTurn {
		tn.interrupted = true
		for _, ap := range a.Of(tn.id) {
			if r, err := a.answer(ap.ID, runnel.Decision{Choice: translate.Deny}); err == nil {
				a.out.Reply(r)
			}
			a.Remove(ap.ID)
			tn.emit(event.ApprovalResolved{ApprovalID: ap.ID, Choice: event.ChoiceWithdrawn, By: event.ByUser})
		}
	}
}

// settle forgets the questions of turns that are over, and ends the turns whose
// out-of-turn question is settled.
func (a *approvals) settle() {
	if a.Idle() {
		return
	}
	for _, ap := range a.All() {
		if ap.Question.turn.ended {
			a.Drop(ap.Turn)
		}
	}
	settled := a.Settled()
	a.outOfTurn = slices.DeleteFunc(a.outOfTurn, func(tn *turn) bool {
		asks := func(ap translate.Approval[*question]) bool { return ap.Question.turn == tn }
		if !slices.Contains(settled, tn.id) || slices.ContainsFunc(a.Of(tn.id), asks) {
			return false // the agent may ask again under the same id at once
		}
		end := event.ResponseDone{Status: event.StatusCompleted}
		if tn.interrupted {
			end.Status = event.StatusCancelled
		}
		tn.end(end)
		return true
	})
}

// approvalKind returns what a call of a tool asks for.
func approvalKind(tool string) event.ApprovalKind {
	switch tool {
	case "AskUserQuestion":
		return event.ApprovalQuestion
	case "ExitPlanMode":
		return event.ApprovalPlan
	}
	return event.ApprovalTool
}

// A grant is a permission that the agent offers to give itself. Ours is limited
// to the session: the agent would write it into the project's files. words say
// what the grant means, for the user who gives it.
type grant struct {
	native json.RawMessage
	words  string
}

// grants returns the narrowest offers that can be put into words: rules for the
// tool, or else directories, or else a mode. The agent means them as
// alternatives: beside a rule for one command it offers to accept all edits.
func grants(suggestions []json.RawMessage) []grant {
	for _, typ := range []string{"addRules", "addDirectories", "setMode"} {
		if out := grantsOf(typ, suggestions); len(out) > 0 {
			return out
		}
	}
	return nil
}

// grantsOf returns the offers of one type.
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

// grantWords says what an offer of a type means; "" if there are no words for
// it.
func grantWords(typ string, suggestion json.RawMessage) string {
	g := translate.Loose[struct {
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

// choices returns the answers that the question may have.
func (q *question) choices() []event.Choice {
	no := []event.Choice{
		{ID: translate.Deny, Kind: event.ChoiceDeny, Label: "Deny"},
		{ID: translate.DenyStop, Kind: event.ChoiceDenyStop, Label: "Deny and stop"},
	}
	switch q.kind {
	case event.ApprovalPlan:
		no[0].Label, no[1].Label = "Keep planning", "Stop"
		return append([]event.Choice{
			{ID: translate.AllowOnce, Kind: event.ChoiceAllowOnce, Label: "Start, and ask before each edit"},
			{ID: translate.AllowSession, Kind: event.ChoiceAllowSession, Label: "Start, and accept edits"},
		}, no...)
	case event.ApprovalQuestion:
		no[0].Label, no[1].Label = "Do not answer", "Stop"
		return append(q.answers(), no...)
	}
	yes := []event.Choice{{ID: translate.AllowOnce, Kind: event.ChoiceAllowOnce, Label: "Allow once"}}
	if len(q.grants) > 0 {
		var words []string
		for _, g := range q.grants {
			words = append(words, g.words)
		}
		label := text.OneLine("Allow for this session: "+strings.Join(words, ", "), math.MaxInt32)
		if len(label) <= translate.MaxLabel { // a grant that cannot be shown whole is not offered
			yes = append(yes, event.Choice{ID: translate.AllowSession, Kind: event.ChoiceAllowSession, Label: label})
		}
	}
	return append(yes, no...)
}

// decide returns what a decision means in the agent's words.
func (q *question) decide(d runnel.Decision) (decision, error) {
	input := q.input
	switch {
	case len(d.UpdatedArguments) == 0:
	case q.fixed:
		return decision{}, runnel.Fail(runnel.InvalidRequest, "updatedArguments: the agent's settings deny some calls, and it would not hold changed arguments against them")
	default:
		if _, err := translate.Values(d.UpdatedArguments); err != nil {
			return decision{}, err
		}
		input = d.UpdatedArguments
	}
	// updatedInput is always sent: without it 2.1.197 denies the call.
	allow := decision{Behavior: "allow", UpdatedInput: input, ToolUseID: q.toolUse}
	for i, label := range q.options {
		if d.Choice == translate.Option(i+1) {
			return q.answered(allow, label)
		}
	}
	switch d.Choice {
	case translate.AllowOnce:
		if q.kind == event.ApprovalQuestion {
			return q.answered(allow, "")
		}
		if q.kind == event.ApprovalPlan {
			allow.UpdatedPermissions = []json.RawMessage{setMode("default")}
		}
		return allow, nil
	case translate.AllowSession:
		if q.kind == event.ApprovalPlan {
			allow.UpdatedPermissions = []json.RawMessage{setMode("acceptEdits")}
			return allow, nil
		}
		for _, g := range q.grants {
			allow.UpdatedPermissions = append(allow.UpdatedPermissions, g.native)
		}
		if len(q.grants) > 0 {
			return allow, nil
		}
	case translate.Deny, translate.DenyStop:
		reason := d.Reason
		if reason == "" {
			reason = "The user does not want this to be done."
		}
		return decision{Behavior: "deny", Message: reason, Interrupt: d.Choice == translate.DenyStop, ToolUseID: q.toolUse}, nil
	}
	return decision{}, translate.NoSuchChoice()
}

// setMode is a grant of ours: a permission mode.
func setMode(mode string) json.RawMessage {
	return json.RawMessage(`{"type":"setMode","mode":"` + mode + `","destination":"session"}`)
}

// choiceOf returns the choice that led to a decision.
func (q *question) choiceOf(d decision) string {
	answers := translate.Loose[answerSheet](d.UpdatedInput).Answers
	for i, label := range q.options {
		if d.Behavior == "allow" && string(answers[q.asked]) == label && label != "" {
			return translate.Option(i + 1)
		}
	}
	switch {
	case d.Behavior != "allow" && d.Interrupt:
		return translate.DenyStop
	case d.Behavior != "allow":
		return translate.Deny
	case q.kind == event.ApprovalPlan:
		if len(d.UpdatedPermissions) == 1 && string(d.UpdatedPermissions[0]) == string(setMode("acceptEdits")) {
			return translate.AllowSession
		}
		return translate.AllowOnce
	case len(d.UpdatedPermissions) > 0:
		return translate.AllowSession
	}
	return translate.AllowOnce
}
