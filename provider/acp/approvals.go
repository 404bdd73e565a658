package acp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// question is our part of an approval: what the answer to the agent is made of.
type question struct {
	request jsonrpc.ID
	form    bool              // it asks for values
	sheet   *sheet            // it asks the user something; nil if it does not
	options map[string]string // the agent's ids by those of our choices
	stops   map[string]bool   // the agent's ids of choices that end the turn
}

const (
	maxAsking            = 256 << 10 // bytes of what is asked
	maxPermissionOptions = 50        // options that are read
)

func newQuestion(m jsonrpc.Message) question {
	return question{request: m.ID, form: m.Method == methodElicit, options: make(map[string]string), stops: make(map[string]bool)}
}

// question asks the user what the agent asks, if there is a turn to ask it in.
func (t *translator) question(m jsonrpc.Message) {
	switch tn := t.turns.now; {
	case t.replay != nil || tn != nil && (tn.interrupted || tn.approvals.Full()):
		t.turns.refuse(newQuestion(m), "")
	case tn == nil:
		t.turns.refuse(newQuestion(m), "asked outside of a turn")
	case m.Method == methodElicit:
		t.turns.askValues(m)
	default:
		p := translate.Loose[permission](m.Params)
		parent := ""
		if t.session.isOther(p.SessionID) && t.subagentRuns(p.SessionID) {
			parent = p.SessionID
		}
		t.turns.askPermission(m, p, parent)
	}
}

// newApproval returns an approval of the turn that runs. It is not open yet.
func (ts *turns) newApproval(m jsonrpc.Message) translate.Approval[question] {
	asked := translate.Digest(m.Params)
	return translate.Approval[question]{
		ID:   derive("approval " + ts.session.id + " " + ts.now.id + " " + m.ID.Key() + " " + asked),
		Turn: ts.now.id, Request: m.ID.Key(), Digest: asked, Question: newQuestion(m),
	}
}

// refuse answers a question that the user is not asked. why goes into a notice;
// "" is for none.
func (ts *turns) refuse(q question, why string) {
	reply(ts.emitter, q.cancelled())
	if why != "" {
		ts.out().Notice(event.LevelWarning, "QUESTION_REFUSED", "A question of the agent was "+why+"; it was denied.")
	}
}

// askPermission asks the user whether a tool may run. parent is the
// conversation of the subagent that asks, "" for the agent.
func (ts *turns) askPermission(m jsonrpc.Message, p permission, parent string) {
	tn := ts.running()
	a := ts.newApproval(m)
	tc := translate.Loose[toolCall](p.call())
	tc.raw, tc.Status = p.call(), "" // the status is that of the question
	isNew := tn.calls.byID[tc.ID] == nil
	var c *call
	if tc.ID != "" {
		c = tn.calls.update(tc, fromQuestion, parent)
	}
	ask := event.Approval{
		ID: a.ID, Kind: event.ApprovalTool, Title: text.OneLine(cmp.Or(tc.Title, p.Title, "A tool"), 200),
		Why: text.OneLine(p.About, 500), Arguments: tc.RawInput,
	}
	content, _ := tc.content()
	if c != nil {
		ask.ItemID, ask.CallID, ask.ToolName = c.item, c.id, c.name
		if !translate.IsObject(ask.Arguments) && !isNew {
			ask.Arguments = c.input
		}
		if c.kind == event.KindSwitchMode {
			ask.Kind = event.ApprovalPlan
		}
		if len(content) == 0 {
			content = c.content
		}
	}
	ask.Changes = changesOf(&call{content: content, input: tc.RawInput}, ts.session.q)
	if !translate.IsObject(ask.Arguments) {
		ask.Arguments = described(tc.Title, content)
	}
	ask.Choices = a.Question.offerAll(p.Options, tc, &ask, ts.session.q)
	if len(ask.Arguments) > maxAsking || event.TooDeep(ask.Arguments) {
		ts.refuse(a.Question, "too large or nested too deep to be shown")
		return
	}
	ask.ArgumentsDigest = translate.Digest(ask.Arguments)
	if len(ask.Choices) == 0 {
		ts.refuse(a.Question, "without a choice")
		return
	}
	tn.ask(a, ask)
}

// offerAll returns the choices of an approval, and completes it if the agent
// asks the user something.
func (q *question) offerAll(options []permissionOption, tc toolCall, ask *event.Approval, quirks *quirks) []event.Choice {
	if f := quirks.live.sheet; f != nil {
		q.sheet = newSheet(f(metaOf(tc.raw)), options)
	}
	if q.sheet == nil {
		return q.offer(options, ask.Kind, quirks)
	}
	ask.Kind, ask.ArgumentsEditable = event.ApprovalQuestion, true
	ask.Title = text.OneLine(q.sheet.questions[0].Question, 300)
	ask.Arguments = translate.Object(map[string]any{"questions": q.sheet.questions})
	return q.sheet.offer()
}

// ask opens an approval.
func (tn *turn) ask(a translate.Approval[question], shown event.Approval) {
	tn.approvals.Add(a)
	tn.out.Emit(event.ApprovalRequested{Approval: shown})
}

// described makes the arguments of a call that the agent only describes.
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
	return translate.Object(d)
}

// askValues asks the user for values, or to visit a page.
func (ts *turns) askValues(m jsonrpc.Message) {
	e := translate.Loose[elicitation](m.Params)
	a := ts.newApproval(m)
	args, err := json.Marshal(struct {
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"schema,omitempty"`
		URL     string          `json:"url,omitempty"`
	}{e.Message, e.Schema, e.URL})
	if err != nil || len(args) > maxAsking || event.TooDeep(args) || e.URL != "" && !strings.HasPrefix(e.URL, "https://") && !strings.HasPrefix(e.URL, "http://") {
		ts.refuse(a.Question, "not in order")
		return
	}
	a.Question.options = map[string]string{translate.AllowOnce: "accept", translate.Deny: "decline", translate.DenyStop: "cancel"}
	tn := ts.running()
	item := ""
	if c := tn.calls.byID[e.ToolCallID]; c != nil {
		item = c.item
	}
	tn.ask(a, event.Approval{
		ID: a.ID, ItemID: item, CallID: text.OneLine(e.ToolCallID, 200), Kind: event.ApprovalForm, Title: text.OneLine(cmp.Or(e.Message, "The agent asks"), 200),
		Arguments: args, ArgumentsEditable: true, ArgumentsDigest: translate.Digest(args),
		Choices: []event.Choice{
			{ID: translate.AllowOnce, Kind: event.ChoiceAllowOnce, Label: "Answer"},
			{ID: translate.Deny, Kind: event.ChoiceDeny, Label: "Do not answer"},
			{ID: translate.DenyStop, Kind: event.ChoiceDenyStop, Label: "Stop"},
		},
	})
}

// offer maps the options of the agent to our choices, and keeps which is which.
// A second choice of a kind is numbered. An option that would make the agent
// run every tool without asking is left out.
func (q *question) offer(options []permissionOption, kind event.ApprovalKind, quirks *quirks) []event.Choice {
	var out []event.Choice
	var no permissionOption
	add := func(id string, kind event.ChoiceKind, label, native string) {
		for n, base := 2, id; q.options[id] != ""; n++ {
			id = base + "_" + itoa(n)
		}
		q.options[id] = native
		out = append(out, event.Choice{ID: id, Kind: kind, Label: cmp.Or(label, string(kind))})
	}
	for _, want := range []string{"allow_once", "allow_always", "reject_once", "reject_always"} {
		for _, o := range options[:min(len(options), maxPermissionOptions)] {
			label := text.OneLine(o.Name, 4*translate.MaxLabel)
			if o.Kind != want || o.ID == "" || quirks.bypassesByOption(o.ID) {
				continue
			}
			switch {
			case strings.HasPrefix(want, "allow") && len(label) > translate.MaxLabel: // the user could not see all of it
			case want == "allow_once":
				add(translate.AllowOnce, event.ChoiceAllowOnce, label, o.ID)
			case want == "allow_always" && (kind == event.ApprovalPlan || slices.Contains(quirks.live.forSession, o.ID)):
				add(translate.AllowSession, event.ChoiceAllowSession, label, o.ID)
			case want == "allow_always":
				add(translate.AllowAlways, event.ChoiceAllowAlways, label, o.ID)
			case slices.Contains(quirks.live.stops, o.ID):
				q.stops[o.ID] = true
				add(translate.DenyStop, event.ChoiceDenyStop, text.OneLine(o.Name, translate.MaxLabel), o.ID)
			default:
				no = o
				add(translate.Deny, event.ChoiceDeny, text.OneLine(o.Name, translate.MaxLabel), o.ID)
			}
		}
	}
	if len(out) > 0 && len(q.stops) == 0 {
		add(translate.DenyStop, event.ChoiceDenyStop, "Deny and stop", cmp.Or(no.ID, "cancelled"))
	}
	return out
}

// bypassesByOption reports whether a permission option switches to a mode in
// which every tool runs without asking.
func (q *quirks) bypassesByOption(option string) bool {
	return q.bypasses(option) || slices.Contains(q.startup.bypass, setting{"mode", option})
}

// openApprovals returns the ids of the open approvals, sorted.
func (ts *turns) openApprovals() []string {
	if ts.now == nil {
		return nil
	}
	return ts.now.approvals.IDs()
}

// askedAgain takes a question with the id of one that is open. If it asks
// something else, both are denied: an answer to the first would be taken for
// one to the second.
func (ts *turns) askedAgain(m jsonrpc.Message) {
	if ts.now == nil {
		return
	}
	a, changed := ts.now.approvals.Changed(m.ID.Key(), translate.Digest(m.Params))
	if !changed {
		return
	}
	reply(ts.emitter, a.Question.cancelled())
	ts.now.out.Emit(translate.Withdrawn(a.ID))
	ts.now.out.Emit(translate.ArgumentsChanged)
}

// withdrawn takes a question back that the agent no longer asks.
func (ts *turns) withdrawn(id jsonrpc.ID) {
	if ts.now == nil {
		return
	}
	a, open := ts.now.approvals.ByRequest(id.Key())
	if !open {
		return
	}
	ts.now.approvals.Remove(a.ID)
	reply(ts.emitter, jsonrpc.NewFailure(a.Question.request, jsonrpc.CodeRequestCancelled, "withdrawn"))
	ts.now.out.Emit(translate.Withdrawn(a.ID))
}

// answer returns the message for a decision. It fails with ApprovalGone for an
// approval that is not open, and with InvalidRequest for a choice that the
// approval does not have. stop says that the caller must end the turn as well.
func (ts *turns) answer(id string, d runnel.Decision) (m jsonrpc.Message, stop bool, err error) {
	var none translate.Approvals[question]
	open := &none
	if ts.now != nil {
		open = &ts.now.approvals
	}
	a, err := open.Open(id)
	if err != nil {
		return m, false, err
	}
	q := a.Question
	if q.sheet != nil {
		return q.answerSheet(d)
	}
	native, ok := q.options[d.Choice]
	switch {
	case !ok:
		return m, false, translate.NoSuchChoice()
	case q.form:
		return q.fill(native, d)
	case len(d.UpdatedArguments) > 0:
		return m, false, runnel.Fail(runnel.InvalidRequest, "updatedArguments: this agent's arguments cannot be changed")
	case d.Choice == translate.DenyStop && !q.stops[native]:
		return q.cancelled(), true, nil
	}
	m, err = jsonrpc.NewResult(q.request, outcome{selected{"selected", native}})
	return m, false, err
}

// fill answers a form.
func (q question) fill(action string, d runnel.Decision) (m jsonrpc.Message, stop bool, err error) {
	content := d.UpdatedArguments
	if len(content) > 0 {
		if _, err := translate.Values(content); err != nil {
			return m, false, err
		}
	}
	e := elicited{Action: action}
	if action == "accept" {
		e.Content = translate.Arguments(content)
	}
	m, err = jsonrpc.NewResult(q.request, e)
	return m, d.Choice == translate.DenyStop, err
}

// cancelled is the answer to a question that nobody answers any more.
func (q question) cancelled() jsonrpc.Message {
	var result any = outcome{Outcome: selected{Outcome: "cancelled"}}
	if q.form {
		result = elicited{Action: "cancel"}
	}
	m, err := jsonrpc.NewResult(q.request, result)
	if err != nil {
		return jsonrpc.NewFailure(q.request, jsonrpc.CodeInternal, "no answer")
	}
	return m
}

// decided takes our answer to a question when it is sent.
func (ts *turns) decided(m jsonrpc.Message) {
	tn := ts.now
	if tn == nil {
		return
	}
	a, open := tn.approvals.ByRequest(m.ID.Key())
	if !open {
		return
	}
	tn.approvals.Remove(a.ID)
	resolved := translate.Resolved(a.ID, a.Question.choiceOf(m, tn.interrupted))
	if resolved.Choice == event.ChoiceWithdrawn {
		resolved = translate.Cancelled(a.ID)
	}
	if resolved.Choice == translate.DenyStop {
		tn.refused = true
	}
	tn.out.Emit(resolved)
}

// choiceOf returns the choice that an answer of ours stands for.
func (q question) choiceOf(m jsonrpc.Message, interrupted bool) string {
	if q.form {
		switch translate.Loose[elicited](m.Result).Action {
		case "accept":
			return translate.AllowOnce
		case "decline":
			return translate.Deny
		}
	}
	o := translate.Loose[outcome](m.Result).Outcome
	if q.sheet != nil && o.Outcome == "selected" {
		return q.sheet.choiceOf(translate.Loose[answered](m.Result))
	}
	for _, id := range slices.Sorted(maps.Keys(q.options)) {
		if o.Outcome == "selected" && q.options[id] == o.OptionID && (id != translate.DenyStop || q.stops[o.OptionID]) {
			return id
		}
	}
	if interrupted || m.Error != nil {
		return event.ChoiceWithdrawn
	}
	return translate.DenyStop
}

// A permission request shows what a call will do. An agent may report later
// that the call does something else. That cannot be stopped, but it is not
// silent.

// noteShown keeps the arguments that the user was asked about.
func (c *call) noteShown(input json.RawMessage) {
	if translate.IsObject(input) {
		c.shown, c.swapped = input, false
	}
}

// contradicts reports, once, whether the arguments of a call are not those that
// the user was asked about.
func (c *call) contradicts(input json.RawMessage) bool {
	if c.swapped || c.shown == nil || !translate.IsObject(input) || !differs(c.shown, input) {
		return false
	}
	c.swapped = true
	return true
}

// differs reports whether two sets of arguments contradict each other. Agents
// add and omit members, so only those in both sets count.
func differs(a, b json.RawMessage) bool {
	x, y := translate.Loose[map[string]json.RawMessage](a), translate.Loose[map[string]json.RawMessage](b)
	for key, was := range x {
		if is, ok := y[key]; ok && !bytes.Equal(canonical(was), canonical(is)) {
			return true
		}
	}
	return false
}

func canonical(raw json.RawMessage) []byte {
	b, err := json.Marshal(translate.Loose[any](raw))
	if err != nil {
		return raw
	}
	return b
}
