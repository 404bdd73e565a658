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

// question holds what the translator needs to answer a permission request or
// an elicitation of the agent.
type question struct {
	request       jsonrpc.ID
	form          bool              // the request is an elicitation
	questionnaire *questionnaire    // questions to the user; nil if the request is about a tool
	options       map[string]string // choice id → the agent's option id
	stops         map[string]bool   // option ids of the agent that end the turn
	tool          string            // name of the tool, or ""
}

const (
	maxAsking            = 256 << 10 // maximum size of a request's arguments, in bytes
	maxPermissionOptions = 50        // further options are ignored
)

// unreported is shown with a request whose arguments the agent has not reported.
const unreported = "The agent does not report the arguments of this call before it runs."

func newQuestion(m jsonrpc.Message) question {
	return question{request: m.ID, form: m.Method == methodElicit, options: make(map[string]string), stops: make(map[string]bool)}
}

// question dispatches a permission request or an elicitation of the agent. It
// rejects the request during a replay, after an interrupt, with too many open
// approvals, and while no turn runs.
func (t *translator) question(m jsonrpc.Message) {
	switch tn := t.turns.now; {
	case t.replay != nil || tn != nil && tn.interrupted:
		t.turns.refuse(newQuestion(m), "")
	case tn == nil:
		t.turns.refuse(newQuestion(m), "no turn is running")
	case tn.approvals.Refuses(m.ID.Key()):
		t.turns.refuse(newQuestion(m), "")
		t.turns.out().Emit(translate.TooManyQuestions)
	case m.Method == methodElicit:
		t.turns.askValues(m)
	default:
		p := translate.DecodeLenient[permission](m.Params)
		parent := ""
		if other := nativeID(p.SessionID); t.session.isOther(p.SessionID) && t.subagentRuns(other) {
			parent = other
		}
		t.turns.askPermission(m, p, parent)
	}
}

// newApproval returns an approval of the current turn. ask opens it.
func (ts *turns) newApproval(m jsonrpc.Message) translate.Approval[question] {
	asked := translate.Digest(m.Params)
	return translate.Approval[question]{
		ID:   ts.now.asked.ID(ts.now.id, m.ID.Key(), asked, derive),
		Turn: ts.now.id, Request: m.ID.Key(), Digest: asked, Question: newQuestion(m),
	}
}

// refuse cancels a request of the agent without asking the user. It emits a
// notice with why, unless why is "".
func (ts *turns) refuse(q question, why string) {
	reply(ts.emitter, q.cancelled())
	if why != "" {
		ts.out().Notice(event.LevelWarning, "QUESTION_REFUSED", "Denied a request of the agent: "+why+".")
	}
}

// askPermission asks the user whether a tool may run. parent is the id of the
// subagent's conversation that asks, or "" for the main agent.
func (ts *turns) askPermission(m jsonrpc.Message, p permission, parent string) {
	tn := ts.startedTurn()
	a := ts.newApproval(m)
	tc := translate.DecodeLenient[toolCall](p.call())
	tc.ID, tc.raw, tc.Status = nativeID(tc.ID), p.call(), "" // the status belongs to the permission request, not to the call
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
		a.Question.tool = c.name
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
		ask.Arguments = descriptionArguments(tc.Title, content)
		if ts.session.q.live.lateInput {
			ask.Why = cmp.Or(ask.Why, unreported)
		}
	}
	ask.Choices = a.Question.offerAll(ts.session.effective(p.Options, tc), tc, &ask, ts.session.q)
	if slices.ContainsFunc(ask.Choices, func(c event.Choice) bool {
		return c.Kind == event.ChoiceAllowSession || c.Kind == event.ChoiceAllowAlways
	}) {
		ask.Why = cmp.Or(ask.Why, ts.session.q.live.always[event.ToolKind(tc.ToolKind)])
	}
	if len(ask.Arguments) > maxAsking || c != nil && c.dropped && !translate.IsObject(tc.RawInput) || event.TooDeep(ask.Arguments) {
		ts.refuse(a.Question, "its arguments are too large or nested too deep")
		return
	}
	ask.ArgumentsDigest = translate.Digest(ask.Arguments)
	if len(ask.Choices) == 0 {
		ts.refuse(a.Question, "it offers no usable choice")
		return
	}
	tn.ask(a, ask)
}

// offerAll returns the choices of an approval. If the request asks the user
// questions, offerAll also sets the kind, title and arguments of the approval.
func (q *question) offerAll(options []permissionOption, tc toolCall, ask *event.Approval, quirks *quirks) []event.Choice {
	if f := quirks.live.questionnaire; f != nil {
		q.questionnaire = newQuestionnaire(f(metaOf(tc.raw)), options)
	}
	if q.questionnaire == nil {
		return q.offer(options, ask.Kind, quirks)
	}
	ask.Kind, ask.ArgumentsEditable = event.ApprovalQuestion, true
	ask.Title = text.OneLine(q.questionnaire.questions[0].Question, 300)
	ask.Arguments = translate.Object(map[string]any{"questions": q.questionnaire.questions})
	return q.questionnaire.offer()
}

// ask opens an approval and emits it.
func (tn *turn) ask(a translate.Approval[question], shown event.Approval) {
	asks := event.ApprovalRequested{Approval: shown}
	a.Shown = translate.SizeOf(asks)
	tn.approvals.Add(a)
	tn.out.Emit(asks)
}

// descriptionArguments returns arguments for a call that the agent reports only
// with a title and text.
func descriptionArguments(title string, content []toolContent) json.RawMessage {
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

// askValues asks the user to fill in a form or to visit a URL.
func (ts *turns) askValues(m jsonrpc.Message) {
	e := translate.DecodeLenient[elicitation](m.Params)
	a := ts.newApproval(m)
	args, err := json.Marshal(struct {
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"schema,omitempty"`
		URL     string          `json:"url,omitempty"`
	}{e.Message, e.Schema, e.URL})
	if err != nil || len(args) > maxAsking || event.TooDeep(args) || e.URL != "" && !strings.HasPrefix(e.URL, "https://") && !strings.HasPrefix(e.URL, "http://") {
		ts.refuse(a.Question, "the form is invalid, too large or nested too deep")
		return
	}
	a.Question.options = map[string]string{translate.AllowOnce: "accept", translate.Deny: "decline", translate.DenyStop: "cancel"}
	tn := ts.startedTurn()
	item := ""
	if c := tn.calls.byID[nativeID(e.ToolCallID)]; c != nil {
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

// offer returns the choices for the agent's options and records the option of
// each choice. A further choice of the same kind gets a numbered id. offer
// omits options that would make the agent run every tool without asking, and
// options whose id stands for several kinds.
func (q *question) offer(options []permissionOption, kind event.ApprovalKind, quirks *quirks) []event.Choice {
	options = options[:min(len(options), maxPermissionOptions)]
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
		for _, o := range options {
			label := text.OneLine(o.Name, 4*translate.MaxLabel)
			if o.Kind != want || o.ID == "" || isAmbiguous(o, options) || quirks.bypassesByChoice(o.ID) {
				continue
			}
			switch {
			case strings.HasPrefix(want, "allow") && len(label) > translate.MaxLabel: // omitted: the label would be cut
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

// isAmbiguous reports whether options of several kinds have the id of o. The
// agent could take one for the other.
func isAmbiguous(o permissionOption, options []permissionOption) bool {
	return slices.ContainsFunc(options, func(other permissionOption) bool { return other.ID == o.ID && other.Kind != o.Kind })
}

// bypassesByChoice reports whether the permission option switches to a mode in
// which every tool runs without asking.
func (q *quirks) bypassesByChoice(option string) bool {
	return q.isBypassName(option) || slices.Contains(q.startup.bypass, setting{"mode", option}) || slices.Contains(q.live.unasked, option)
}

// openApprovals returns the ids of the open approvals, sorted.
func (ts *turns) openApprovals() []string {
	if ts.now == nil {
		return nil
	}
	return ts.now.approvals.IDs()
}

// askedAgain handles a request with the id of an open request. If the contents
// differ, it cancels both: the agent could apply an answer meant for the first
// request to the second one.
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

// withdrawn closes the approval of a request that the agent cancelled.
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
// approval that is not open, and with InvalidRequest for an unknown choice. If
// stop is true, the caller must also cancel the turn.
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
	if q.questionnaire != nil {
		return q.answerQuestionnaire(d)
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

// fill returns the answer to an elicitation. If stop is true, the caller must
// also cancel the turn.
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

// cancelled returns the answer that cancels a request of the agent.
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

// decided handles an answer to the agent, once it is sent: it closes the
// approval and emits the resolution.
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
	if f := ts.session.q.live.modeAfterChoice; f != nil {
		mode := f(a.Question.tool, a.Question.options[resolved.Choice])
		ts.emitter.Defer(ts.emitter.Capture(func() { ts.session.settings.set(tn.out, "mode", mode) })...)
	}
}

// choiceOf returns the id of the choice that an answer to the agent represents.
func (q question) choiceOf(m jsonrpc.Message, interrupted bool) string {
	if q.form {
		switch translate.DecodeLenient[elicited](m.Result).Action {
		case "accept":
			return translate.AllowOnce
		case "decline":
			return translate.Deny
		}
	}
	o := translate.DecodeLenient[outcome](m.Result).Outcome
	if q.questionnaire != nil && o.Outcome == "selected" {
		return q.questionnaire.choiceOf(translate.DecodeLenient[answered](m.Result))
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

// A permission request shows the arguments of a call. The agent may later
// report different arguments for the same call. The translator cannot stop the
// call, but it emits a notice.

// noteShown records the arguments of a permission request.
func (c *call) noteShown(input json.RawMessage) {
	if translate.IsObject(input) {
		c.shown, c.reportedChange = input, false
	}
}

// contradicts reports whether the arguments of a call contradict those in its
// permission request. It returns true once per permission request.
func (c *call) contradicts(input json.RawMessage) bool {
	if c.reportedChange || c.shown == nil || !translate.IsObject(input) || !differs(c.shown, input) {
		return false
	}
	c.reportedChange = true
	return true
}

// differs reports whether two sets of arguments contradict each other. Agents
// add and omit members, so differs compares only members of both sets.
func differs(a, b json.RawMessage) bool {
	x, y := translate.DecodeLenient[map[string]json.RawMessage](a), translate.DecodeLenient[map[string]json.RawMessage](b)
	for key, was := range x {
		if is, ok := y[key]; ok && !bytes.Equal(canonical(was), canonical(is)) {
			return true
		}
	}
	return false
}

func canonical(raw json.RawMessage) []byte {
	b, err := json.Marshal(translate.DecodeLenient[any](raw))
	if err != nil {
		return raw
	}
	return b
}
