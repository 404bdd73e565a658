package acp

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// approval is a question of the agent that waits for an answer.
type approval struct {
	id      string // ours
	request jsonrpc.ID
	asked   string            // digest of the question
	form    bool              // it is about values
	options map[string]string // the agent's ids by those of our choices
	stops   map[string]bool   // of the agent's: those that end the turn
}

// Ids of choices. A second one of a kind is numbered.
const (
	allowOnce    = "allow_once"
	allowSession = "allow_session"
	allowAlways  = "allow_always"
	deny         = "deny"
	denyStop     = "deny_stop"
)

const (
	maxOpen   = 100 // questions that wait for an answer
	maxLabel  = 300 // bytes of the label of a choice
	maxAsking = 256 << 10
)

// asksLeave takes the question whether a tool may run.
func (t *translator) asksLeave(m jsonrpc.Message) {
	p := decodeLoose[permission](m.Params)
	tc := decodeLoose[toolCall](p.call())
	tc.raw = p.call()
	a := t.newApproval(m)
	if a == nil {
		return
	}
	tn := t.running()
	isNew := tn.calls[tc.ID] == nil
	tc.Status = "" // of the question
	var c *call
	if p.SessionID == t.Session || p.SessionID == "" || !t.inChild(p.SessionID, func() { c = t.upsert(tc, fromQuestion) }) {
		c = t.upsert(tc, fromQuestion)
	}
	ask := event.Approval{ID: a.id, Kind: event.ApprovalTool, Title: oneLine(cmp.Or(tc.Title, p.Title, "A tool"), 200), Why: oneLine(p.About, 500)}
	ask.Arguments = tc.RawInput
	if c != nil {
		ask.ItemID, ask.CallID, ask.ToolName = c.item, c.id, c.name
		if !isObject(ask.Arguments) && !isNew {
			ask.Arguments = c.input
		}
		if c.kind == event.KindSwitchMode {
			ask.Kind = event.ApprovalPlan
		}
	}
	shown := decodeLoose[struct {
		Content json.RawMessage `json:"content"`
	}](tc.raw).Content
	content := decodeEach[toolContent](shown)
	if len(content) == 0 && c != nil {
		content = c.content
	}
	ask.Changes = t.changesOf(&call{content: content, input: tc.RawInput})
	if !isObject(ask.Arguments) {
		ask.Arguments = described(tc.Title, content)
	}
	if len(ask.Arguments) > maxAsking {
		t.refuse(a, "too large to be shown")
		return
	}
	ask.ArgumentsDigest = digest(ask.Arguments)
	ask.Choices = t.choices(a, p.Options, ask.Kind)
	if len(a.options) == 0 {
		t.refuse(a, "without a choice")
		return
	}
	t.approvals[a.id] = a
	t.emit(event.ApprovalRequested{Approval: ask})
}

// described are the arguments of a call whose agent only describes it.
func described(title string, content []toolContent) json.RawMessage {
	d := struct {
		Description string `json:"description"`
		Text        string `json:"text,omitempty"`
	}{Description: title}
	for _, c := range content {
		if c.Type == "content" {
			d.Text += c.Content.text()
		}
	}
	b, err := json.Marshal(d)
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}

// newApproval returns nil if the question cannot be asked; it is answered then.
func (t *translator) newApproval(m jsonrpc.Message) *approval {
	a := &approval{request: m.ID, asked: digest(m.Params), form: m.Method == methodElicit, options: map[string]string{}, stops: map[string]bool{}}
	if t.turn == nil || t.turn.interrupted || len(t.approvals) >= maxOpen || t.load != nil {
		why := ""
		if t.turn == nil && t.load == nil {
			why = "asked outside of a turn"
		}
		t.refuse(a, why)
		return nil
	}
	a.id = derive("approval " + t.Session + " " + t.turn.id + " " + m.ID.Key() + " " + a.asked)
	return a
}

// refuse answers a question that nobody is asked.
func (t *translator) refuse(a *approval, why string) {
	t.reply(a.cancelled())
	if why != "" {
		t.notice(event.LevelWarning, "QUESTION_REFUSED", "A question of the agent was "+why+"; it was denied.")
	}
}

// cancelled is the answer to a question that nobody answers any more.
func (a *approval) cancelled() jsonrpc.Message {
	var result any = outcome{Outcome: selected{Outcome: "cancelled"}}
	if a.form {
		result = elicited{Action: "cancel"}
	}
	m, err := jsonrpc.NewResult(a.request, result)
	if err != nil {
		return jsonrpc.NewFailure(a.request, jsonrpc.CodeInternal, "no answer")
	}
	return m
}

type outcome struct {
	Outcome selected `json:"outcome"`
}

type selected struct {
	Outcome  string `json:"outcome"` // selected or cancelled
	OptionID string `json:"optionId,omitempty"`
}

type elicited struct {
	Action  string          `json:"action"` // accept, decline or cancel
	Content json.RawMessage `json:"content,omitempty"`
}

// choices maps what the agent offers to what we do. One that makes it ask
// nobody any more is not offered in the middle of something else.
func (t *translator) choices(a *approval, options []permissionOption, kind event.ApprovalKind) []event.Choice {
	var out []event.Choice
	var no permissionOption
	add := func(id string, kind event.ChoiceKind, label, native string) {
		for n, base := 2, id; a.options[id] != ""; n++ {
			id = base + "_" + itoa(n)
		}
		a.options[id] = native
		out = append(out, event.Choice{ID: id, Kind: kind, Label: cmp.Or(label, string(kind))})
	}
	for _, want := range []string{"allow_once", "allow_always", "reject_once", "reject_always"} {
		for _, o := range options[:min(len(options), 50)] {
			label := oneLine(o.Name, 4*maxLabel)
			if o.Kind != want || o.ID == "" || t.q.bypasses(o.ID) || slices.Contains(t.q.startup.bypass, setting{"mode", o.ID}) {
				continue
			}
			switch {
			case strings.HasPrefix(want, "allow") && len(label) > maxLabel: // what cannot be shown whole is not offered
			case want == "allow_once":
				add(allowOnce, event.ChoiceAllowOnce, label, o.ID)
			case want == "allow_always" && (kind == event.ApprovalPlan || slices.Contains(t.q.live.forSession, o.ID)):
				add(allowSession, event.ChoiceAllowSession, label, o.ID)
			case want == "allow_always":
				add(allowAlways, event.ChoiceAllowAlways, label, o.ID)
			case slices.Contains(t.q.live.stops, o.ID):
				a.stops[o.ID] = true
				add(denyStop, event.ChoiceDenyStop, oneLine(o.Name, maxLabel), o.ID)
			default:
				no = o
				add(deny, event.ChoiceDeny, oneLine(o.Name, maxLabel), o.ID)
			}
		}
	}
	if len(out) > 0 && len(a.stops) == 0 {
		add(denyStop, event.ChoiceDenyStop, "Deny and stop", cmp.Or(no.ID, "cancelled"))
	}
	return out
}

// asksValues takes the question for values, or for a visit to a page.
func (t *translator) asksValues(m jsonrpc.Message) {
	e := decodeLoose[elicitation](m.Params)
	a := t.newApproval(m)
	if a == nil {
		return
	}
	args, err := json.Marshal(struct {
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"schema,omitempty"`
		URL     string          `json:"url,omitempty"`
	}{e.Message, e.Schema, e.URL})
	if err != nil || len(args) > maxAsking || e.URL != "" && !strings.HasPrefix(e.URL, "https://") && !strings.HasPrefix(e.URL, "http://") {
		t.refuse(a, "not in order")
		return
	}
	a.options = map[string]string{allowOnce: "accept", deny: "decline", denyStop: "cancel"}
	t.approvals[a.id] = a
	tn := t.running()
	item := ""
	if c := tn.calls[e.ToolCallID]; c != nil {
		item = c.item
	}
	t.emit(event.ApprovalRequested{Approval: event.Approval{
		ID: a.id, ItemID: item, CallID: oneLine(e.ToolCallID, 200), Kind: event.ApprovalForm, Title: oneLine(cmp.Or(e.Message, "The agent asks"), 200),
		Arguments: args, ArgumentsEditable: true, ArgumentsDigest: digest(args),
		Choices: []event.Choice{
			{ID: allowOnce, Kind: event.ChoiceAllowOnce, Label: "Answer"},
			{ID: deny, Kind: event.ChoiceDeny, Label: "Do not answer"},
			{ID: denyStop, Kind: event.ChoiceDenyStop, Label: "Stop"},
		},
	}})
}

// asksAgain takes a question with the id of one that is open. If it is about
// something else, the answer to the first would be taken for one to this: the
// first is withdrawn, and both denied.
func (t *translator) asksAgain(m jsonrpc.Message) {
	a := t.byRequest(m.ID)
	if a == nil || digest(m.Params) == a.asked {
		return
	}
	delete(t.approvals, a.id)
	t.reply(a.cancelled())
	t.emit(event.ApprovalResolved{ApprovalID: a.id, Choice: event.ChoiceWithdrawn, By: event.ByAgent})
	t.notice(event.LevelWarning, "ARGUMENTS_CHANGED", "The agent changed what it had asked for while the question was open; it was denied.")
}

// withdrawn takes back a question of the agent.
func (t *translator) withdrawn(call jsonrpc.Call) {
	a := t.byRequest(call.ID)
	if a == nil {
		return
	}
	delete(t.approvals, a.id)
	t.reply(jsonrpc.NewFailure(a.request, jsonrpc.CodeRequestCancelled, "withdrawn"))
	t.emit(event.ApprovalResolved{ApprovalID: a.id, Choice: event.ChoiceWithdrawn, By: event.ByAgent})
}

func (t *translator) byRequest(id jsonrpc.ID) *approval {
	for _, a := range t.approvals {
		if a.request.Same(id) {
			return a
		}
	}
	return nil
}

// answerTo returns the answer for a decision. It fails with ApprovalGone for an
// approval that is not open, and with InvalidRequest for a choice that it does
// not have. stop says that the turn is to be ended besides.
func (t *translator) answerTo(id string, d runnel.Decision) (m jsonrpc.Message, stop bool, err error) {
	a := t.approvals[id]
	if a == nil {
		return m, false, runnel.Fail(runnel.ApprovalGone, "this approval is already settled")
	}
	native, ok := a.options[d.Choice]
	switch {
	case !ok:
		return m, false, runnel.Fail(runnel.InvalidRequest, "choice: the approval has no such choice")
	case a.form:
		return a.fill(native, d)
	case len(d.UpdatedArguments) > 0:
		return m, false, runnel.Fail(runnel.InvalidRequest, "updatedArguments: this agent's arguments cannot be changed")
	case d.Choice == denyStop && !a.stops[native]:
		return a.cancelled(), true, nil
	}
	m, err = jsonrpc.NewResult(a.request, outcome{selected{"selected", native}})
	return m, false, err
}

// fill answers a form.
func (a *approval) fill(action string, d runnel.Decision) (m jsonrpc.Message, stop bool, err error) {
	content := d.UpdatedArguments
	if len(content) > 0 && !strings.HasPrefix(strings.TrimSpace(string(content)), "{") || len(content) > 0 && !json.Valid(content) {
		return m, false, runnel.Fail(runnel.InvalidRequest, "updatedArguments is not a JSON object")
	}
	e := elicited{Action: action}
	if action == "accept" {
		if e.Content = content; len(content) == 0 {
			e.Content = json.RawMessage("{}")
		}
	}
	m, err = jsonrpc.NewResult(a.request, e)
	return m, d.Choice == denyStop, err
}

// decided takes our answer to a question as it passes.
func (t *translator) decided(m jsonrpc.Message) {
	a := t.byRequest(m.ID)
	if a == nil {
		return
	}
	delete(t.approvals, a.id)
	choice, by := a.choiceOf(m, t.turn != nil && t.turn.interrupted), event.ByUser
	if choice == event.ChoiceWithdrawn {
		by = event.ByPolicy
	}
	if t.turn != nil && choice == denyStop {
		t.turn.refused = true
	}
	t.emit(event.ApprovalResolved{ApprovalID: a.id, Choice: choice, By: by})
}

// choiceOf names the choice that led to an answer.
func (a *approval) choiceOf(m jsonrpc.Message, interrupted bool) string {
	if a.form {
		switch decodeLoose[elicited](m.Result).Action {
		case "accept":
			return allowOnce
		case "decline":
			return deny
		}
	}
	o := decodeLoose[outcome](m.Result).Outcome
	for _, id := range slices.Sorted(maps.Keys(a.options)) {
		if o.Outcome == "selected" && a.options[id] == o.OptionID && (id != denyStop || a.stops[o.OptionID]) {
			return id
		}
	}
	if interrupted || m.Error != nil {
		return event.ChoiceWithdrawn
	}
	return denyStop
}
