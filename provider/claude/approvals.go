package claude

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// approvals holds the agent's permission requests and questions that wait for a
// decision. The comments in this file call each of them a question.
type approvals struct {
	translate.Approvals[*question]
	out       *translate.Emitter
	session   *session
	outOfTurn []*turn // turns that contain only a question
	alone     int     // number of turns that contain only a question, since the process started
}

// question is the part of an approval that is specific to Claude Code.
type question struct {
	turn         *turn
	toolUse      string
	tool         string
	kind         event.ApprovalKind
	input        json.RawMessage
	grants       []grant  // permissions that the agent offers for this session
	options      []string // labels of the answers to a single question
	questionText string   // text of the single question
	fixed        bool     // the user cannot change the arguments
}

// take returns the question in a control request. It returns nil if there is no
// new question to ask: it rejects an unsupported request, and drops a question
// that is already open.
func (a *approvals) take(f frame) *question {
	r := f.Request
	if r.Subtype != "can_use_tool" || a.Refuses(f.RequestID) || event.TooDeep(r.Input) {
		a.out.Reply(response{Type: "control_response", Response: controlResponse{
			Subtype: "error", RequestID: f.RequestID, Error: "not supported by this client",
		}})
		return nil
	}
	q := &question{
		toolUse: r.ToolUseID, tool: r.ToolName, kind: approvalKind(r.ToolName),
		input: translate.Arguments(r.Input), grants: grants(r.Suggestions),
	}
	// The agent does not check changed arguments against its deny rules, so a
	// denied call could run. The rules do not apply to answers and plans.
	q.fixed = a.session.denies && q.kind == event.ApprovalTool
	if old, open := a.ByRequest(f.RequestID); open {
		a.askedAgain(old, q)
		return nil
	}
	return q
}

// askedDigest returns the digest of a question's tool and arguments.
func (q *question) askedDigest() string {
	return translate.Digest(append([]byte(q.tool+" "), q.input...))
}

// askedAgain handles a question that has the id of an open one. If the tool or
// the arguments differ, both questions are denied.
func (a *approvals) askedAgain(old translate.Approval[*question], q *question) {
	if _, changed := a.Changed(old.Request, q.askedDigest()); !changed {
		return
	}
	no := decision{Behavior: "deny", Message: "The arguments changed before the user decided. Ask again.", ToolUseID: old.Question.toolUse}
	if r, err := no.reply(old.Request); err == nil {
		a.out.Reply(r)
	}
	old.Question.turn.emit(translate.ArgumentsChanged)
	old.Question.turn.emit(translate.Withdrawn(old.ID))
}

// ask emits the approval request for a question in a turn. If tn is nil, the
// question is out of turn: a background task asks, or no turn runs. It then
// gets a new turn that contains only this question. In the prompt's turn it
// would be dropped when that turn ends, which may be long before the decision.
func (a *approvals) ask(q *question, f frame, tn *turn) {
	outOfTurn := tn == nil
	if outOfTurn {
		a.alone++ // the agent may repeat a request id, in this process and in the next one of the session
		tn = newTurn(derive(a.session.id+" question "+a.session.process+strconv.Itoa(a.alone)+" "+f.RequestID), a.out, a.session)
		tn.begin()
		a.outOfTurn = append(a.outOfTurn, tn)
	}
	q.turn = tn
	ap := translate.Approval[*question]{
		ID: tn.asked.ID(tn.id, f.RequestID, q.askedDigest(), derive), Turn: tn.id, OutOfTurn: outOfTurn,
		Request: f.RequestID, Digest: q.askedDigest(), Question: q,
	}
	ev := event.Approval{
		ID: ap.ID, CallID: q.toolUse, Kind: q.kind, Title: toolTitle(q.tool, q.input), ToolName: q.tool,
		Arguments: q.input, ArgumentsEditable: !q.fixed, ArgumentsDigest: translate.Digest(q.input),
		Why: text.OneLine(f.Request.DecisionReason, 500), Choices: q.choices(),
	}
	if toolKind(q.tool) == event.KindEdit {
		ev.Changes = intended(q.input)
	}
	if c := tn.calls[q.toolUse]; c != nil {
		ev.ItemID = c.item
	}
	asks := event.ApprovalRequested{Approval: ev}
	ap.Shown = translate.SizeOf(asks)
	a.Add(ap)
	tn.emit(asks)
}

// answer returns the control response for a decision. It fails with
// ApprovalGone if the approval is not open, and with InvalidRequest if the
// approval does not offer the choice.
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

// reply returns the control response that sends a decision for a request. It
// fails if the decision's arguments are not JSON.
func (d decision) reply(request string) (response, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return response{}, translate.NotAnObject(err)
	}
	return response{"control_response", controlResponse{Subtype: "success", RequestID: request, Response: b}}, nil
}

// decided processes a control response that was sent to the agent: it closes
// the approval and emits its decision.
func (a *approvals) decided(r *controlResponse) {
	if r == nil {
		return
	}
	ap, ok := a.ByRequest(r.RequestID)
	if !ok {
		return
	}
	d := translate.DecodeLenient[decision](r.Response)
	a.Remove(ap.ID)
	if d.Interrupt {
		ap.Question.turn.interrupted = true
	}
	ap.Question.turn.emit(translate.Resolved(ap.ID, ap.Question.choiceOf(d)))
}

// withdraw closes a question that the agent has cancelled.
func (a *approvals) withdraw(request string) {
	if ap, ok := a.ByRequest(request); ok {
		a.Remove(ap.ID)
		ap.Question.turn.emit(translate.Withdrawn(ap.ID))
	}
}

// stop denies the out-of-turn questions after an interrupt. The agent itself
// withdraws only the questions of its running turn.
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

// settle removes the questions of ended turns. It ends the turns whose
// out-of-turn question has a decision.
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
		if !slices.Contains(settled, tn.id) {
			return false
		}
		end := event.ResponseDone{Status: event.StatusCompleted}
		if tn.interrupted {
			end.Status = event.StatusCancelled
		}
		tn.end(end)
		return true
	})
}

// approvalKind returns the kind of approval for a call of a tool.
func approvalKind(tool string) event.ApprovalKind {
	switch tool {
	case "AskUserQuestion":
		return event.ApprovalQuestion
	case "ExitPlanMode":
		return event.ApprovalPlan
	}
	return event.ApprovalTool
}

// A grant is a permission that the agent proposes together with a question. The
// agent would write it to the project's settings; Runnel limits it to the
// session. words describes the grant to the user.
type grant struct {
	native json.RawMessage
	words  string
}

// grants returns the narrowest proposals that have a description: rules for the
// tool, or else directories, or else a mode. They are alternatives: next to a
// rule for one command, the agent proposes to accept all edits.
func grants(suggestions []json.RawMessage) []grant {
	for _, typ := range []string{"addRules", "addDirectories", "setMode"} {
		if out := grantsOf(typ, suggestions); len(out) > 0 {
			return out
		}
	}
	return nil
}

// grantsOf returns the proposals of one type.
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

// grantWords returns the description of a proposal; "" if it has another type
// or is not understood.
func grantWords(typ string, suggestion json.RawMessage) string {
	g := translate.DecodeLenient[struct {
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
			words = append(words, "access to files in "+d)
		}
	case g.Type == "addRules" && g.Behavior == "allow":
		for _, r := range g.Rules {
			switch {
			case r.RuleContent == "":
				words = append(words, "every call of "+r.ToolName)
			case r.ToolName == "Bash":
				words = append(words, "`"+r.RuleContent+"`")
			default:
				words = append(words, "`"+r.ToolName+"("+r.RuleContent+")`")
			}
		}
	}
	return strings.Join(words, ", ")
}

// choices returns the choices that the question offers.
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
		label := text.OneLine("Allow "+strings.Join(words, ", ")+" in this session", math.MaxInt32)
		if len(label) <= translate.MaxLabel { // a grant that is too long to show in full is not offered
			yes = append(yes, event.Choice{ID: translate.AllowSession, Kind: event.ChoiceAllowSession, Label: label})
		}
	}
	return append(yes, no...)
}

// decide translates a user's decision into the agent's form.
func (q *question) decide(d runnel.Decision) (decision, error) {
	input := q.input
	switch {
	case len(d.UpdatedArguments) == 0:
	case q.fixed:
		return decision{}, runnel.Fail(runnel.InvalidRequest, "updatedArguments: cannot change arguments, because the agent's settings deny some calls and the agent would not check the changed arguments")
	default:
		if _, err := translate.Values(d.UpdatedArguments); err != nil {
			return decision{}, err
		}
		input = d.UpdatedArguments
	}
	// Claude Code 2.1.197 denies the call if updatedInput is missing.
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

// setMode returns a grant that changes the permission mode for the session.
func setMode(mode string) json.RawMessage {
	return json.RawMessage(`{"type":"setMode","mode":"` + mode + `","destination":"session"}`)
}

// choiceOf returns the id of the choice that a decision stands for.
func (q *question) choiceOf(d decision) string {
	answers := translate.DecodeLenient[questionArguments](d.UpdatedInput).Answers
	for i, label := range q.options {
		if d.Behavior == "allow" && string(answers[q.questionText]) == label && label != "" {
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
